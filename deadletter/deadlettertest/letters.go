package deadlettertest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gabion-go/gabion/deadletter"
	"github.com/gabion-go/gabion/message"
)

var letterCases = []oneCase{
	{"a letter comes back as it was put away", deadletter.Options{}, comesBack},
	{"a letter without anything but a group comes back", deadletter.Options{}, bareLetter},
	{"a letter that is put away twice is one", deadletter.Options{}, putTwice},
	{"one that was done or dropped waits again", deadletter.Options{}, putAnew},
	{"failures are written as they happen, and are in the letter", deadletter.Options{}, failures},
	{"of many failures the first and the newest stay", deadletter.Options{}, manyFailures},
	{"what a done message failed before is forgotten", deadletter.Options{}, forgotten},
	{"letters that can't be one are refused", deadletter.Options{}, notLetters},
	{"lists have what was asked for, oldest first", deadletter.Options{}, lists},
	{"a list with many pages has each letter once while others come and go", deadletter.Options{}, pages},
	{"questions that can't be answered are errors", deadletter.Options{}, badQuestions},
	{"what is missing is not found", deadletter.Options{}, missing},
	{"a resolution as done ends a letter", deadletter.Options{}, resolvedDone},
	{"a resolution as nothing lets a redrive take it", deadletter.Options{}, resolvedNothing},
	{"only unknown outcomes that wait are resolved", deadletter.Options{}, notResolved},
	{"a dropped letter has no payload, and says who dropped it", deadletter.Options{}, dropped},
	{"stats count each group and all", deadletter.Options{}, counted},
	{"a context that has ended changes nothing", deadletter.Options{}, cancelled},
}

func comesBack(b *bench) {
	l := letter("g", 1)
	l.Payload = []byte("\x00\xff\xfe'\"; DROP TABLE letters; --\x00")
	l.Key, l.Position, l.Order, l.Source = "\x00key\xff", "\xf0\x28", "order\x00", "a\xffb"
	l.Headers = message.Headers{{Name: "A", Value: "\x00\xff"}, {Name: "a", Value: ""}, {Name: "", Value: "x"}, {Name: "A", Value: "again"}}
	l.Failures = []deadletter.Failure{{At: begun.Add(-time.Second), Took: 3 * time.Millisecond, Attempt: 3, Class: "transient", Reason: "failed", Message: "no\x00 \xff luck"}}
	b.ok(b.Put(b.Context(), l))
	want := l
	want.Failures = []deadletter.Failure{l.Failures[0]}
	want.Failures[0].Message = "no\uFFFD \uFFFD luck"
	want.State, want.Since, want.Kept = deadletter.Waiting, b.time(), b.time()
	got := b.get(l.ID)
	b.same("payload", string(got.Payload), string(want.Payload))
	b.same("headers", got.Headers, want.Headers)
	b.same("failures", got.Failures, want.Failures)
	got.Payload, want.Payload, got.Headers, want.Headers, got.Failures, want.Failures = nil, nil, nil, nil, nil, nil
	b.same("letter", fields(got), fields(want))
}

// fields shows all fields of a letter: its own format hides some.
func fields(l deadletter.Letter) string {
	type open deadletter.Letter
	return fmt.Sprintf("%+v", open(l))
}

func bareLetter(b *bench) {
	l := deadletter.Letter{ID: deadletter.IDOf("g", "", nil), Group: "g"}
	b.ok(b.Put(b.Context(), l))
	got := b.get(l.ID)
	if len(got.Payload) != 0 || len(got.Headers) != 0 || len(got.Failures) != 0 || got.Key != "" || !got.First.IsZero() || !got.Last.IsZero() {
		b.Errorf("%s", fields(got))
	}
	b.wantAll(deadletter.Query{}, l.ID)
}

func putTwice(b *bench) {
	l := letter("g", 1)
	l.Failures = []deadletter.Failure{{At: begun, Attempt: 3, Message: "one"}}
	b.ok(b.Put(b.Context(), l))
	first := b.get(l.ID)
	b.pass(time.Second)
	b.ok(b.Put(b.Context(), l))
	b.same("after the same", fields(b.get(l.ID)), fields(first))
	l.Reason, l.Attempts, l.Last = "permanent", 4, begun.Add(time.Minute)
	l.Failures = []deadletter.Failure{{At: begun.Add(time.Minute), Attempt: 4, Message: "two"}}
	b.ok(b.Put(b.Context(), l))
	got := b.get(l.ID)
	if got.Reason != "permanent" || got.Attempts != 4 || len(got.Failures) != 2 || !got.Last.Equal(l.Last) || !got.Kept.Equal(first.Kept) {
		b.Errorf("brought up to date: %s", fields(got))
	}
	b.same("put", b.stats("").Put, int64(1))
	b.wantAll(deadletter.Query{}, l.ID)
}

func putAnew(b *bench) {
	ids := b.put("g", 2)
	b.ok(b.Drop(b.Context(), ids[0], "ann", "no"))
	d := b.order("g", 1000)
	taken, _ := b.take("g", 5)
	b.wantTaken(taken, ids[1])
	b.ok(b.Settle(b.Context(), taken[0], done))
	b.wantDrive(d.ID, deadletter.Drive{State: deadletter.Finished, Total: 1, Done: 1})
	b.pass(time.Minute)
	for i, id := range ids {
		b.ok(b.Put(b.Context(), letter("g", i)))
		got := b.get(id)
		if got.State != deadletter.Waiting || !got.Kept.Equal(b.time()) || string(got.Payload) != fmt.Sprintf("payload %d of g", i) {
			b.Errorf("%s", fields(got))
		}
	}
	if s := b.stats("g"); s.Put != 4 || s.Letters != 2 {
		b.Errorf("%+v", s)
	}
}

func failures(b *bench) {
	l := letter("g", 1)
	l.First, l.Last, l.Attempts = time.Time{}, time.Time{}, 0
	for n := range 3 {
		f := deadletter.Failure{At: begun.Add(time.Duration(n) * time.Minute), Took: time.Second, Attempt: n + 1, Class: "transient", Reason: "failed", Message: fmt.Sprint("no ", n)}
		b.ok(b.Fail(b.Context(), l.ID, f))
		b.ok(b.Fail(b.Context(), l.ID, f)) // its answer was lost
	}
	if _, err := b.Get(b.Context(), l.ID); !errors.Is(err, deadletter.ErrNotFound) {
		b.Errorf("before it is a letter: %v", err)
	}
	b.wantAll(deadletter.Query{})
	b.ok(b.Put(b.Context(), l))
	got := b.get(l.ID)
	if len(got.Failures) != 3 || got.Failures[1].Message != "no 1" || !got.First.Equal(begun) || !got.Last.Equal(begun.Add(2*time.Minute)) || got.Attempts != 3 {
		b.Errorf("%s", fields(got))
	}
	b.ok(b.Fail(b.Context(), l.ID, deadletter.Failure{At: begun.Add(time.Hour), Attempt: 4, Message: "late"}))
	b.ok(b.Forget(b.Context(), l.ID)) // takes nothing from a letter
	if got := b.get(l.ID); len(got.Failures) != 4 || got.Attempts != 4 {
		b.Errorf("one more: %s", fields(got))
	}
	p, err := b.List(b.Context(), deadletter.Query{}, "", 0)
	b.ok(err)
	if f := p.Letters[0].Failures; len(f) != 1 || f[0].Message != "late" || p.Letters[0].Payload != nil {
		b.Errorf("in a list: %+v", f)
	}
}

func manyFailures(b *bench) {
	l := letter("g", 1)
	for n := range 40 {
		b.ok(b.Fail(b.Context(), l.ID, deadletter.Failure{At: begun.Add(time.Duration(n) * time.Second), Message: strings.Repeat("ä", 4000)}))
	}
	b.ok(b.Put(b.Context(), l))
	got := b.get(l.ID).Failures
	if len(got) != deadletter.MaxFailures || !got[0].At.Equal(begun) || !got[1].At.Equal(begun.Add(9*time.Second)) || !got[31].At.Equal(begun.Add(39*time.Second)) {
		b.Errorf("%d failures, %v", len(got), got)
	}
	for _, f := range got {
		if len(f.Message) > deadletter.MaxMessage || !strings.HasSuffix(f.Message, "ä…") {
			b.Errorf("a text of %d bytes, %q", len(f.Message), f.Message[len(f.Message)-8:])
		}
	}
}

func forgotten(b *bench) {
	l := letter("g", 1)
	b.ok(b.Fail(b.Context(), l.ID, deadletter.Failure{At: begun, Message: "before"}))
	b.ok(b.Forget(b.Context(), l.ID))
	b.ok(b.Forget(b.Context(), l.ID))
	b.ok(b.Put(b.Context(), l))
	if got := b.get(l.ID); len(got.Failures) != 0 {
		b.Errorf("%v", got.Failures)
	}
}

func notLetters(b *bench) {
	for _, id := range []deadletter.ID{"", "1", deadletter.ID(strings.Repeat("A", 32)), deadletter.ID(strings.Repeat("g", 32)), deadletter.ID(strings.Repeat("0", 33))} {
		if err := b.Put(b.Context(), deadletter.Letter{ID: id, Group: "g"}); err == nil {
			b.Errorf("ID %q was taken", id)
		}
		if err := b.Fail(b.Context(), id, deadletter.Failure{}); err == nil {
			b.Errorf("a failure of %q was taken", id)
		}
	}
	if err := b.Put(b.Context(), deadletter.Letter{ID: letter("g", 1).ID}); err == nil {
		b.Error("a letter without a group was taken")
	}
	b.wantAll(deadletter.Query{})
}

func lists(b *bench) {
	a := b.put("a", 3, func(n int, l *deadletter.Letter) { l.Source = fmt.Sprint("s", n%2) })
	b.pass(time.Hour)
	second := b.time()
	c := b.put("c", 2, func(n int, l *deadletter.Letter) { l.Reason = "permanent" })
	b.ok(b.Drop(b.Context(), c[1], "", ""))
	every := []deadletter.State{deadletter.Dropped, deadletter.Waiting, deadletter.Waiting, deadletter.Done, deadletter.Ordered, deadletter.Taken}
	b.wantAll(deadletter.Query{}, a[0], a[1], a[2], c[0])
	b.wantAll(deadletter.Query{States: every}, a[0], a[1], a[2], c[0], c[1])
	b.wantAll(deadletter.Query{States: []deadletter.State{deadletter.Dropped}}, c[1])
	b.wantAll(deadletter.Query{Group: "a"}, a...)
	b.wantAll(deadletter.Query{Group: "a", Source: "s0"}, a[0], a[2])
	b.wantAll(deadletter.Query{Source: "s1"}, a[1])
	b.wantAll(deadletter.Query{Reason: "permanent"}, c[0])
	b.wantAll(deadletter.Query{Group: "nobody"})
	b.wantAll(deadletter.Query{IDs: []deadletter.ID{c[0], a[1], c[1], "nonsense"}}, a[1], c[0])
	b.wantAll(deadletter.Query{Before: second}, a...)
	b.wantAll(deadletter.Query{After: second}, c[0])
	b.wantAll(deadletter.Query{After: second.Add(time.Millisecond), States: every}, c[1])
	b.wantAll(deadletter.Query{Prefix: string(a[2][:20])}, a[2])
	b.wantAll(deadletter.Query{Prefix: string(a[2])}, a[2])
	b.wantAll(deadletter.Query{Prefix: string(c[1][:20])})
	groups, err := b.Groups(b.Context())
	b.ok(err)
	b.same("groups", groups, []string{"a", "c"})
}

func pages(b *bench) {
	want := b.put("g", 90)
	var got []deadletter.ID
	for from, n := "", 0; n == 0 || from != ""; n++ {
		p, err := b.List(b.Context(), deadletter.Query{Group: "g"}, from, 40)
		b.ok(err)
		for _, l := range p.Letters {
			got = append(got, l.ID)
		}
		from = p.Next
		if n == 0 { // one before, the last of the page, and a new one
			b.ok(b.Drop(b.Context(), want[5], "", ""))
			b.ok(b.Drop(b.Context(), want[39], "", ""))
			b.ok(b.Put(b.Context(), letter("g", 1000)))
		}
	}
	if want = append(want, letter("g", 1000).ID); !slices.Equal(got, want) {
		b.Errorf("%d letters, want %d, each once", len(got), len(want))
	}
}

func badQuestions(b *bench) {
	b.put("g", 3)
	for _, from := range []string{"x", strings.Repeat("0", 47), strings.Repeat("z", 48), strings.Repeat("f", 100_000), "'; DROP TABLE letters; --", "+" + strings.Repeat("0", 47), strings.Repeat("F", 48)} {
		if _, err := b.List(b.Context(), deadletter.Query{}, from, 0); err == nil {
			b.Errorf("page %.50q was taken", from)
		}
	}
	for _, q := range []deadletter.Query{{IDs: make([]deadletter.ID, 1001)}, {Prefix: "%"}, {Prefix: strings.Repeat("a", 33)}, {States: []deadletter.State{77}}} {
		if _, err := b.List(b.Context(), q, "", 0); err == nil {
			b.Errorf("query %+v was taken", q)
		}
		if _, err := b.Order(b.Context(), q, deadletter.Drive{Group: "g", Rate: 1}); err == nil {
			b.Errorf("an order of %+v was taken", q)
		}
	}
	for _, limit := range []int{-1, 1001} {
		if _, err := b.List(b.Context(), deadletter.Query{}, "", limit); err == nil {
			b.Errorf("a page of %d was taken", limit)
		}
	}
	for _, c := range []struct {
		group string
		n     int
		lease time.Duration
	}{{"", 1, time.Second}, {"g", 0, time.Second}, {"g", -1, time.Second}, {"g", 1, 0}, {"g", 1001, 1}} {
		if _, _, err := b.Take(b.Context(), c.group, c.n, c.lease); err == nil {
			b.Errorf("taking %+v was allowed", c)
		}
	}
}

func missing(b *bench) {
	id := letter("g", 1).ID
	_, err := b.Get(b.Context(), id)
	b.is(err, deadletter.ErrNotFound)
	_, err = b.Get(b.Context(), "no id\x00")
	b.is(err, deadletter.ErrNotFound)
	b.is(b.Drop(b.Context(), id, "", ""), deadletter.ErrNotFound)
	b.is(b.Resolve(b.Context(), id, deadletter.ResolvedAsDone, "", ""), deadletter.ErrNotFound)
	b.is(b.Stop(b.Context(), "no\x00drive", "", ""), deadletter.ErrNotFound)
	b.is(b.Settle(b.Context(), deadletter.Lease{Letter: deadletter.Letter{ID: id}, Token: 1}, done), deadletter.ErrLost)
	b.is(b.Extend(b.Context(), deadletter.Lease{Letter: deadletter.Letter{ID: id}, Token: 1}, time.Second), deadletter.ErrLost)
	taken, again, err := b.Take(b.Context(), "nobody", 1, time.Second)
	if len(taken) != 0 || again != 0 || err != nil {
		b.Errorf("%v, %v, %v", taken, again, err)
	}
	b.ok(b.Forget(b.Context(), id))
	groups, err := b.Groups(b.Context())
	if len(groups) != 0 || err != nil {
		b.Errorf("groups %v, %v", groups, err)
	}
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
	// An outcome that gets unknown while the letter is ordered keeps it from being taken.
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
	b.wantDrive(d.ID, deadletter.Drive{State: deadletter.Finished, Total: 1})
	taken, _ := b.take("g", 5)
	b.wantTaken(taken)
}

func counted(b *bench) {
	b.same("nothing", b.stats("").Letters, 0)
	b.put("a", 3)
	b.pass(time.Minute)
	c := b.put("c", 2, unknown)
	b.ok(b.Drop(b.Context(), c[0], "", ""))
	b.order("a", 1)
	b.take("a", 1)
	for group, want := range map[string]deadletter.Stats{
		"": {Letters: 4, ByState: map[deadletter.State]int{deadletter.Waiting: 1, deadletter.Ordered: 2, deadletter.Taken: 1, deadletter.Dropped: 1},
			ByReason: map[string]int{"attempts_exhausted": 3, deadletter.Unknown: 1}, Unresolved: 1, Put: 5, Oldest: b.get(c[1]).Kept},
		"a": {Letters: 3, ByState: map[deadletter.State]int{deadletter.Ordered: 2, deadletter.Taken: 1}, ByReason: map[string]int{"attempts_exhausted": 3}, Put: 3},
		"c": {Letters: 1, ByState: map[deadletter.State]int{deadletter.Waiting: 1, deadletter.Dropped: 1}, ByReason: map[string]int{deadletter.Unknown: 1}, Unresolved: 1, Put: 2, Oldest: b.get(c[1]).Kept},
	} {
		got := b.stats(group)
		if got.Bytes <= 0 {
			b.Errorf("%d bytes", got.Bytes)
		}
		got.Bytes = 0
		b.same("stats of "+group, got, want)
	}
}

func cancelled(b *bench) {
	id := b.put("g", 2)[0]
	d := b.order("g", 100)
	taken, _ := b.take("g", 1)
	ctx, cancel := context.WithCancel(b.Context())
	cancel()
	_, getErr := b.Get(ctx, id)
	_, listErr := b.List(ctx, deadletter.Query{}, "", 0)
	_, orderErr := b.Order(ctx, deadletter.Query{}, deadletter.Drive{Group: "g", Rate: 1})
	_, drivesErr := b.Drives(ctx, "")
	_, _, takeErr := b.Take(ctx, "g", 1, time.Minute)
	_, groupsErr := b.Groups(ctx)
	_, statsErr := b.Stats(ctx, "")
	_, sweepErr := b.Sweep(ctx)
	for n, err := range []error{
		b.Fail(ctx, id, deadletter.Failure{At: begun}), b.Forget(ctx, id), b.Put(ctx, letter("g", 7)), getErr, listErr, orderErr, drivesErr,
		b.Stop(ctx, d.ID, "", ""), takeErr, b.Extend(ctx, taken[0], time.Hour), b.Settle(ctx, taken[0], done),
		b.Resolve(ctx, id, deadletter.ResolvedAsDone, "", ""), b.Drop(ctx, id, "", ""), groupsErr, statsErr, sweepErr,
	} {
		if !errors.Is(err, context.Canceled) {
			b.Errorf("method %d: %v", n, err)
		}
	}
	b.wantDrive(d.ID, deadletter.Drive{State: deadletter.Driving, Total: 2, Left: 2})
	b.wantState(id, deadletter.Taken)
	if s := b.stats(""); s.Put != 2 {
		b.Errorf("%+v", s)
	}
}
