package deadlettertest

import (
	"strings"
	"time"

	"github.com/gabion-go/gabion/messages/deadletter"
)

var resolutionCases = []oneCase{
	{"a resolution as done ends a letter", deadletter.Options{}, resolvedDone},
	{"a resolution as nothing lets a redrive take it", deadletter.Options{}, resolvedNothing},
	{"an order that names an unknown outcome is refused whole", deadletter.Options{}, notOrdered},
	{"a resolution that contradicts another is refused until that is taken back, and both are kept", deadletter.Options{}, contradicted},
	{"only unknown outcomes that wait are resolved", deadletter.Options{}, notResolved},
	{"a resolution is for one run, also where the redrive ends meanwhile", deadletter.Options{}, lostRun},
	{"a dropped letter has no payload, and says who dropped it", deadletter.Options{}, dropped},
}

func unknown(_ int, l *deadletter.Letter) { l.Reason = deadletter.Unknown }

func resolvedDone(b *bench) {
	id := b.put("g", 1, unknown)[0]
	if s := b.stats("g"); s.Unresolved != 1 {
		b.Errorf("%+v", s)
	}
	for range 2 { // its answer was lost
		b.ok(b.Resolve(b.Context(), id, deadletter.ResolvedAsDone, "ann", "saw it"))
	}
	l := b.get(id)
	if l.State != deadletter.Done || l.Resolved != deadletter.ResolvedAsDone || l.By != "ann" || l.Note != "saw it" {
		b.Errorf("%s", fields(l))
	}
	if s := b.stats("g"); s.Unresolved != 0 || s.Letters != 0 || s.ByState[deadletter.Done] != 1 {
		b.Errorf("%+v", s)
	}
	b.is(b.Resolve(b.Context(), id, deadletter.ResolvedAsFailed, "", ""), deadletter.ErrState)
}

func resolvedNothing(b *bench) {
	id := b.put("g", 1, unknown)[0]
	if d := b.order("g", 10); d.Total != 0 || d.State != deadletter.Finished {
		b.Errorf("without a resolution: %+v", d)
	}
	for range 2 {
		b.ok(b.Resolve(b.Context(), id, deadletter.ResolvedAsFailed, "ann", "nothing there"))
	}
	b.wantState(id, deadletter.Waiting)
	b.order("g", 10)
	taken, _ := b.take("g", 1)
	b.wantTaken(taken, id)
	if taken[0].Resolved != deadletter.ResolvedAsFailed {
		b.Error("the consumer does not learn of the resolution")
	}
	v := failed("again unknown")
	v.Reason = deadletter.Unknown
	b.ok(b.Settle(b.Context(), taken[0], v))
	if l := b.get(id); l.Resolved != deadletter.Unresolved {
		b.Error("the resolution of one run was taken for that of another")
	}
	if s := b.stats("g"); s.Unresolved != 1 {
		b.Errorf("%+v", s)
	}
	// An outcome that gets unknown while a redrive goes on keeps it from being taken.
	b.ok(b.Resolve(b.Context(), id, deadletter.ResolvedAsFailed, "ann", ""))
	d := b.order("g", 10)
	l := letter("g", 0)
	l.Reason, l.Last = deadletter.Unknown, b.time().Add(time.Hour)
	b.ok(b.Put(b.Context(), l))
	b.pass(time.Second)
	taken, _ = b.take("g", 1)
	b.wantTaken(taken)
	b.wantState(id, deadletter.Waiting)
	b.wantDrive(d.ID, deadletter.Drive{State: deadletter.Finished, Total: 1})
}

func notOrdered(b *bench) {
	ids := b.put("g", 3, func(n int, l *deadletter.Letter) {
		if n > 0 {
			l.Reason = deadletter.Unknown
		}
	})
	b.ok(b.Resolve(b.Context(), ids[2], deadletter.ResolvedAsFailed, "ann", "nothing there"))
	order := func(q deadletter.Query) (deadletter.Drive, error) {
		return b.Order(b.Context(), q, deadletter.Drive{Group: "g", Rate: 1000})
	}
	_, err := order(deadletter.Query{IDs: ids})
	b.is(err, deadletter.ErrUnresolved)
	if err != nil && !strings.Contains(err.Error(), string(ids[1])) {
		b.Errorf("which letter? %v", err)
	}
	if drives, err := b.Drives(b.Context(), ""); err != nil || len(drives) != 0 {
		b.Errorf("%+v, %v", drives, err)
	}
	for _, id := range ids {
		b.wantState(id, deadletter.Waiting)
	}
	d, err := order(deadletter.Query{IDs: ids[1:2], Group: "g", States: []deadletter.State{deadletter.Done}})
	if err != nil || d.Total != 0 { // it does not mean what waits
		b.Errorf("%+v, %v", d, err)
	}
	if d, err = order(deadletter.Query{}); err != nil || d.Total != 2 { // it names none
		b.Errorf("%+v, %v", d, err)
	}
}

func contradicted(b *bench) {
	ids := b.put("g", 2, unknown)
	for n, first := range []deadletter.Resolution{deadletter.ResolvedAsDone, deadletter.ResolvedAsFailed} {
		other := deadletter.ResolvedAsDone + deadletter.ResolvedAsFailed - first
		b.ok(b.Resolve(b.Context(), ids[n], first, "ann", "saw it"))
		b.is(b.Resolve(b.Context(), ids[n], other, "bob", "looked again"), deadletter.ErrState)
		if l := b.get(ids[n]); l.Resolved != first || l.By != "ann" || l.Note != "saw it" {
			b.Errorf("%s", fields(l))
		}
		b.ok(b.Resolve(b.Context(), ids[n], deadletter.Unresolved, "bob", "it was another transfer"))
		b.wantState(ids[n], deadletter.Waiting)
		b.is(b.Resolve(b.Context(), ids[n], deadletter.Unresolved, "bob", ""), deadletter.ErrState)
		b.ok(b.Resolve(b.Context(), ids[n], other, "cid", "looked again"))
		l := b.get(ids[n])
		if l.Resolved != other || l.By != "cid" || !strings.HasPrefix(l.Note, "looked again") || !strings.Contains(l.Note, "by bob, it was another") ||
			!strings.Contains(l.Note, first.String()+", by ann, saw it") {
			b.Errorf("%s", fields(l))
		}
	}
	if s := b.stats("g"); s.Unresolved != 0 || s.ByState[deadletter.Done] != 1 || s.ByState[deadletter.Waiting] != 1 {
		b.Errorf("%+v", s)
	}
}

func notResolved(b *bench) {
	ids := b.put("g", 2, func(n int, l *deadletter.Letter) {
		if n == 1 {
			l.Reason = deadletter.Unknown
		}
	})
	b.is(b.Resolve(b.Context(), ids[0], deadletter.ResolvedAsDone, "", ""), deadletter.ErrState)
	for _, r := range []deadletter.Resolution{deadletter.Unresolved, 9} {
		if err := b.Resolve(b.Context(), ids[1], r, "", ""); err == nil {
			b.Errorf("resolution %d was taken", r)
		}
	}
	b.ok(b.Drop(b.Context(), ids[1], "", ""))
	b.is(b.Resolve(b.Context(), ids[1], deadletter.ResolvedAsDone, "", ""), deadletter.ErrState)
}

func dropped(b *bench) {
	ids := b.put("g", 2)
	before := b.stats("g").Bytes
	for range 2 {
		b.ok(b.Drop(b.Context(), ids[0], "ann", strings.Repeat("x", 5000)))
	}
	l := b.get(ids[0])
	if l.State != deadletter.Dropped || len(l.Payload) != 0 || len(l.Headers) != 0 || l.By != "ann" || len(l.Note) > deadletter.MaxMessage {
		b.Errorf("%s", fields(l))
	}
	if s := b.stats("g"); s.Bytes >= before || s.Letters != 1 || s.ByState[deadletter.Dropped] != 1 {
		b.Errorf("%+v", s)
	}
	d := b.order("g", 10)
	b.ok(b.Drop(b.Context(), ids[1], "", ""))
	b.ended("g")
	b.wantDrive(d.ID, deadletter.Drive{State: deadletter.Finished, Total: 1})
}

// lostRun is a consumer that takes a resolved letter and is gone, while its redrive ends: the
// outcome of its run is unknown.
func lostRun(b *bench) {
	ids := b.put("g", 2, unknown)
	for _, id := range ids {
		b.ok(b.Resolve(b.Context(), id, deadletter.ResolvedAsFailed, "ann", "nothing there"))
	}
	d := b.order("g", 1)
	taken, _ := b.take("g", 5)
	b.wantTaken(taken, ids[0])
	b.ok(b.Stop(b.Context(), d.ID, "ann", "enough"))
	b.pass(time.Hour)
	none, _ := b.take("g", 5)
	b.wantTaken(none)
	b.wantState(ids[0], deadletter.Waiting)
	if l := b.get(ids[0]); l.Resolved != deadletter.Unresolved {
		b.Error("what was found out of the runs before is taken for the lost one, too")
	}
	if l := b.get(ids[1]); l.Resolved != deadletter.ResolvedAsFailed {
		b.Error("forgotten, though nothing ran")
	}
	if s := b.stats("g"); s.Unresolved != 1 || s.Letters != 2 {
		b.Errorf("%+v", s)
	}
	if again := b.order("g", 1); again.Total != 1 {
		b.Errorf("ordered anew: %+v", again)
	}
}
