package deadlettertest

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gabion-go/gabion/messages/deadletter"
	"github.com/gabion-go/gabion/policy"
)

var boundCases = []oneCase{
	{"a letter that is too large is refused", deadletter.Options{MaxPayload: 1000}, tooLarge},
	{"a full store refuses, and takes again what it has", deadletter.Options{MaxLetters: 3}, full},
	{"a store that is full by bytes refuses", deadletter.Options{MaxBytes: 1000}, fullBytes},
	{"what is done or dropped makes room first", deadletter.Options{MaxLetters: 3}, makesRoom},
	{"a full store that may drops the oldest, and says so before", deadletter.Options{MaxLetters: 3, Overflow: deadletter.DropOldest}, dropsOldest},
	{"Dropping runs before its letters are removed", deadletter.Options{MaxLetters: 3, Overflow: deadletter.DropOldest}, toldBefore},
	{"each group is reported, with what it loses", deadletter.Options{MaxBytes: 2000, Overflow: deadletter.DropOldest}, toldByGroup},
	{"of letters of one moment no more go than have to", deadletter.Options{MaxLetters: 3, Overflow: deadletter.DropOldest}, dropsFew},
	{"a panic in Dropping removes nothing from the store", deadletter.Options{MaxLetters: 1, Overflow: deadletter.DropOldest}, toldInVain},
	{"when many put at once, exactly what goes is reported", deadletter.Options{MaxLetters: 20, Overflow: deadletter.DropOldest}, toldOnce},
	{"letters that are taken are not dropped for room", deadletter.Options{MaxLetters: 2, Overflow: deadletter.DropOldest}, keepsTaken},
	{"what is done or dropped for long is swept", deadletter.Options{Retention: time.Hour}, swept},
	{"failures of messages that never became letters are swept", deadletter.Options{Retention: time.Hour}, sweptFailures},
	{"failures of many messages that are no letters are bounded", deadletter.Options{MaxLetters: 3}, boundedFailures},
	{"redrives that are over for long are swept", deadletter.Options{Retention: time.Hour}, sweptDrives},
	{"nothing that waits is ever swept", deadletter.Options{Retention: time.Second}, keptWaiting},
}

func tooLarge(b *bench) {
	l := letter("g", 1)
	l.Payload = make([]byte, 2000)
	b.is(b.Put(b.Context(), l), deadletter.ErrTooLarge)
	l.Payload, l.Position = nil, strings.Repeat("x", 2000)
	b.is(b.Put(b.Context(), l), deadletter.ErrTooLarge)
	b.wantAll(deadletter.Query{})
}

func full(b *bench) {
	ids := b.put("g", 3)
	b.is(b.Put(b.Context(), letter("g", 3)), deadletter.ErrFull)
	b.ok(b.Put(b.Context(), letter("g", 2)))
	b.ok(b.Fail(b.Context(), ids[0], deadletter.Failure{At: begun, Message: "x"}))
	b.wantAll(deadletter.Query{}, ids...)
	b.wantNotices(0)
}

// wantNotices checks the number of notices of letters that go.
func (b *bench) wantNotices(want int) {
	b.Helper()
	if len(b.notices) != want || want == 0 && len(b.events) != 0 {
		b.Errorf("%d notices, want %d: %+v %v", len(b.notices), want, b.notices, b.events)
	}
}

func fullBytes(b *bench) {
	n := 0
	for ; n < 100; n++ {
		if err := b.Put(b.Context(), letter("g", n)); errors.Is(err, deadletter.ErrFull) {
			break
		} else if err != nil {
			b.Fatal(err)
		}
	}
	s := b.stats("")
	if n < 3 || n > 20 || s.Bytes > 1000 || s.Letters != n {
		b.Errorf("%d letters, %+v", n, s)
	}
}

func makesRoom(b *bench) {
	ids := b.put("g", 3)
	b.ok(b.Drop(b.Context(), ids[1], "", ""))
	b.pass(time.Second)
	b.ok(b.Drop(b.Context(), ids[0], "", ""))
	b.ok(b.Put(b.Context(), letter("g", 3)))
	_, err := b.Get(b.Context(), ids[1])
	b.is(err, deadletter.ErrNotFound)
	b.wantState(ids[0], deadletter.Dropped)
	b.ok(b.Put(b.Context(), letter("g", 0))) // needs no room of its own
	b.is(b.Put(b.Context(), letter("g", 4)), deadletter.ErrFull)
	if s := b.stats(""); s.Letters != 3 {
		b.Errorf("%+v", s)
	}
}

func dropsOldest(b *bench) {
	ids := b.put("g", 3)
	oldest := b.get(ids[0]).Kept
	b.ok(b.Put(b.Context(), letter("g", 3)))
	b.wantNotices(1)
	if b.notices[0].Letters != 1 || b.notices[0].Bytes <= 0 || !b.notices[0].Before.Equal(oldest) {
		b.Errorf("%+v", b.notices)
	}
	b.wantAll(deadletter.Query{}, ids[1], ids[2], letter("g", 3).ID)
}

func keepsTaken(b *bench) {
	ids := b.put("g", 2)
	b.order("g", 1000)
	b.pass(time.Second)
	b.take("g", 2)
	b.is(b.Put(b.Context(), letter("g", 3)), deadletter.ErrFull)
	b.wantState(ids[0], deadletter.Taken)
	b.wantState(ids[1], deadletter.Taken)
	b.wantNotices(0)
}

func toldBefore(b *bench) {
	ids := b.put("g", 3)
	var seen []string
	b.told = func(by string) {
		b.wantAll(deadletter.Query{}, ids...)
		seen = append(seen, by)
	}
	b.pass(time.Hour)
	b.ok(b.Put(b.Context(), letter("g", 3)))
	b.same("who was told", seen, []string{"Dropping", "Stream"})
	b.wantAll(deadletter.Query{}, ids[1], ids[2], letter("g", 3).ID)
	if len(b.events) != 1 {
		b.Fatalf("events %v", b.events)
	}
	e := b.events[0]
	if e.Kind != policy.KindLettersLost || e.Dependency != "g" || e.Count != 1 || e.Numbers.Bytes != b.notices[0].Bytes ||
		e.Numbers.Waited != time.Hour+3*time.Millisecond {
		b.Errorf("event %v %+v", e, e.Numbers)
	}
}

func toldByGroup(b *bench) {
	b.put("g", 2)
	b.pass(time.Second)
	b.put("f", 1)
	big := letter("g", 9)
	big.Payload = make([]byte, 1850)
	b.ok(b.Put(b.Context(), big))
	b.wantAll(deadletter.Query{}, big.ID)
	b.wantNotices(1)
	n := b.notices[0]
	if g, f := n.Groups["g"], n.Groups["f"]; n.Letters != 3 || g.Letters != 2 || f.Letters != 1 || len(n.Groups) != 2 || g.Bytes+f.Bytes != n.Bytes ||
		!g.Oldest.Equal(begun) || !f.Oldest.Equal(begun.Add(time.Second+2*time.Millisecond)) || !n.Before.Equal(f.Oldest) {
		b.Errorf("%+v", n)
	}
	var lost []string
	for _, e := range b.events {
		lost = append(lost, fmt.Sprint(e.Dependency, e.Count))
	}
	b.same("lost", lost, []string{"f1", "g2"})
}

func dropsFew(b *bench) {
	for n := range 4 {
		b.ok(b.Put(b.Context(), letter("g", n)))
	}
	if got := b.all(deadletter.Query{}, 0); len(got) != 3 {
		b.Errorf("%d letters are left", len(got))
	}
	b.wantNotices(1)
	if n := b.notices[0]; n.Letters != 1 {
		b.Errorf("%+v", n)
	}
}

func toldInVain(b *bench) {
	b.told = func(by string) { panic(by) }
	b.put("g", 3)
	b.wantNotices(2)
	b.wantAll(deadletter.Query{}, letter("g", 2).ID)
}

func toldOnce(b *bench) {
	var told, at atomic.Int64
	b.told = func(by string) {
		if at.Add(1) > 1 {
			b.Error("two tell at once")
		}
		for range 100 {
			runtime.Gosched() // so that others may come
		}
		if by == "Stream" {
			told.Add(b.events[len(b.events)-1].Count)
		}
		at.Add(-1)
	}
	b.put("g", 20)
	var all sync.WaitGroup
	for n := range 40 {
		all.Go(func() {
			if err := b.Put(b.Context(), letter("h", n)); err != nil {
				b.Error(err)
			}
		})
	}
	all.Wait()
	const few = 8 // may get past the bounds, where transactions at once count what the others do not see
	if left := b.stats("").Letters; left < 20 || left > 20+few || left+int(told.Load()) != 60 {
		b.Errorf("%d letters are left of 60, and %d were told of", left, told.Load())
	}
}

func (b *bench) wantSwept(want int) {
	b.Helper()
	n, err := b.Sweep(b.Context())
	b.ok(err)
	if n != want {
		b.Errorf("%d were swept, want %d", n, want)
	}
}

func swept(b *bench) {
	ids := b.put("g", 3)
	b.ok(b.Drop(b.Context(), ids[0], "", ""))
	b.pass(time.Hour - time.Second)
	b.wantSwept(0)
	b.pass(2 * time.Second)
	b.wantSwept(1)
	b.wantSwept(0)
	_, err := b.Get(b.Context(), ids[0])
	b.is(err, deadletter.ErrNotFound)
	if s := b.stats("g"); s.Put != 3 || s.Letters != 2 || s.ByState[deadletter.Dropped] != 0 {
		b.Errorf("%+v", s)
	}
}

func sweptFailures(b *bench) {
	l := letter("g", 1)
	b.ok(b.Fail(b.Context(), l.ID, deadletter.Failure{At: begun, Message: "x"}))
	b.pass(30 * time.Minute)
	b.ok(b.Fail(b.Context(), l.ID, deadletter.Failure{At: begun.Add(time.Minute), Message: "y"}))
	b.pass(45 * time.Minute)
	b.wantSwept(0)
	b.pass(45 * time.Minute)
	b.wantSwept(1)
	b.ok(b.Put(b.Context(), l))
	if got := b.get(l.ID); len(got.Failures) != 0 {
		b.Errorf("%v", got.Failures)
	}
}

func boundedFailures(b *bench) {
	for n := range 6 {
		b.ok(b.Fail(b.Context(), letter("g", n).ID, deadletter.Failure{At: begun, Message: "x"}))
		b.pass(time.Second)
		if n == 1 {
			b.ok(b.Forget(b.Context(), letter("g", n).ID))
		}
	}
	for n, want := range []int{0, 0, 0, 1} {
		b.ok(b.Put(b.Context(), letter("g", n)))
		if got := len(b.get(letter("g", n).ID).Failures); got != want {
			b.Errorf("letter %d has %d failures, want %d", n, got, want)
		}
		b.ok(b.Drop(b.Context(), letter("g", n).ID, "", ""))
	}
}

func sweptDrives(b *bench) {
	b.put("g", 1)
	old := b.order("g", 1)
	taken, _ := b.take("g", 1)
	b.ok(b.Settle(b.Context(), taken[0], failed("no")))
	b.ended("g")
	b.put("h", 1)
	long := b.order("h", 1)
	b.pass(2 * time.Hour)
	b.put("i", 1)
	next := b.order("i", 1)
	_, err := b.Sweep(b.Context())
	b.ok(err)
	all, err := b.Drives(b.Context(), "")
	b.ok(err)
	if len(all) != 2 || all[0].ID != next.ID || all[1].ID != long.ID {
		b.Errorf("%v without %s", all, old.ID)
	}
}

func keptWaiting(b *bench) {
	ids := b.put("g", 3)
	b.order("g", 1)
	b.take("g", 1)
	b.put("h", 1)
	b.pass(1000 * time.Hour)
	b.wantSwept(0)
	for _, id := range ids {
		b.get(id)
	}
}
