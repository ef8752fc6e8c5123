package bulkhead_test

import (
	"os"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/gabion-go/gabion/internal/bulkhead"
)

// meeting makes two goroutines start together, round after round. A crowd of
// workers seldom hits a window of a few instructions, and the next one who comes
// along heals what was lost; two who meet hit it often, and nobody else is there.
type meeting struct{ here, there atomic.Int64 }

// meet waits until both have come to the round, then a little longer, since
// nobody knows at which distance the window lies.
func meet(mine, other *atomic.Int64, round, delay int) {
	mine.Store(int64(round))
	for spins := 0; other.Load() < int64(round); spins++ {
		if spins > 1000 {
			runtime.Gosched()
		}
	}
	for range delay {
		other.Load()
	}
}

// rounds runs a and b at the same time, then check alone, again and again.
func rounds(a, b, check func()) {
	n := meetings()
	var start, end meeting
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		for i := 1; i <= n; i++ {
			meet(&start.there, &start.here, i, i/29%31)
			b()
			meet(&end.there, &end.here, i, 0)
		}
	}()
	for i := 1; i <= n; i++ {
		meet(&start.here, &start.there, i, i%29)
		a()
		meet(&end.here, &end.there, i, 0)
		check() // b cannot begin before a comes to the next round
	}
	<-gone
}

// meetings is how often two meet. Each of the mistakes that were tried goes wrong
// in one of a hundred meetings or more, and under the race detector in one of two;
// GABION_SOAK=1 looks for rarer ones. TestInterleavedShelves does not depend on luck.
func meetings() int {
	if os.Getenv("GABION_SOAK") != "" {
		return 200_000
	}
	return 500
}

func TestReleaseThatMeetsAJoinHandsOver(t *testing.T) {
	for _, fair := range []bool{false, true} {
		b := bulkhead.New(1, 1, fair, 1)
		held, _ := b.TryAcquire(0, "a")
		var stay *bulkhead.Waiter
		lost := 0
		rounds(
			func() { b.Release(held) },
			func() { stay, _ = b.Join(nil, bulkhead.Normal, "b") },
			func() {
				var ok bool
				if held, ok = b.Leave(stay); !ok {
					lost++
					held, _ = b.TryAcquire(0, "a")
				}
			})
		if lost > 0 {
			t.Errorf("fair %v: %d joiners missed the slot, and nobody else will hand it over", fair, lost)
		}
	}
}

func TestLastSlotHasOneTaker(t *testing.T) {
	for _, c := range []struct {
		fact string
		fair bool
		join bool
	}{
		{"two that try", false, false},
		{"two that try a fair one", true, false},
		{"one that tries, one that joins", false, true},
	} {
		t.Run(c.fact, func(t *testing.T) {
			b := bulkhead.New(1, 0, c.fair, 1)
			var one, two bulkhead.Slot
			wrong := 0
			second := func() { two, _ = b.TryAcquire(0, "b") }
			if c.join {
				second = func() {
					w, _ := b.Join(nil, bulkhead.Normal, "b")
					two, _ = b.Granted(w)
				}
			}
			rounds(func() { one, _ = b.TryAcquire(0, "a") }, second, func() {
				if one.Held() == two.Held() {
					wrong++
				}
				b.Release(one)
				b.Release(two)
			})
			if wrong > 0 {
				t.Errorf("%d times not exactly one had the slot", wrong)
			}
		})
	}
}

// shelved returns a bulkhead of eight with two shelves, seven slots out, and the
// eighth, which is from a shelf.
func shelved(b *bulkhead.Bulkhead) (last bulkhead.Slot) {
	for range 7 {
		b.TryAcquire(0, "")
	}
	b.OpenShelves()
	last, _ = b.TryAcquire(0, "")
	return last
}

// The last slot goes back to a shelf, or is on one.
func TestShelvesThatMeetOthers(t *testing.T) {
	var b *bulkhead.Bulkhead
	var last, one, two bulkhead.Slot
	try := func(shard uint32) func() {
		return func() { one, _ = b.TryAcquire(shard, "") }
	}
	release := func() { b.Release(last) }
	join := func() {
		w, _ := b.Join(nil, bulkhead.Normal, "")
		two, _ = b.Granted(w)
		if w != nil && !two.Held() {
			two, _ = b.Leave(w)
		}
	}
	var stay *bulkhead.Waiter
	for _, c := range []struct {
		fact   string
		before func()
		a, b   func()
		after  func() bool
	}{
		{"a release and one that joins", func() {}, release, func() { stay, _ = b.Join(nil, bulkhead.Normal, "") },
			func() bool { one, _ = b.Leave(stay); return one.Held() }},
		{"two that try", release, try(0), func() { two, _ = b.TryAcquire(1, "") },
			func() bool { return one.Held() != two.Held() }},
		{"one that tries, one that joins", release, try(0), join,
			func() bool { return one.Held() != two.Held() }},
		{"one that tries, and a shrink", release, try(0), func() { b.Resize(7, 1) },
			func() bool { two, _ = b.TryAcquire(1, ""); return !two.Held() }},
		{"one that tries, and fairness", release, try(0), func() { b.SetFair(true) },
			func() bool { two, _ = b.TryAcquire(1, ""); return one.Held() && !two.Held() }},
		{"a release and fairness", func() {}, release, func() { b.SetFair(true) },
			func() bool { one, _ = b.TryAcquire(1, ""); return one.Held() && b.Stats().InUse == 8 }},
		{"a release and shelves that open", func() { b.Stats() }, release, func() { b.OpenShelves() },
			func() bool { one, _ = b.TryAcquire(1, ""); return one.Held() && b.Stats().InUse == 8 }},
		{"a release, one that tries, and shelves that may not open", func() { b.Stats() }, func() { release(); try(1)() }, func() { b.OpenShelves() },
			func() bool { return one.Held() }},
		{"shelves that open and one that joins", func() { b.Stats() }, func() { b.OpenShelves() }, func() { stay, _ = b.Join(nil, bulkhead.Normal, "") },
			func() bool { release(); one, _ = b.Leave(stay); return one.Held() }},
		{"a release and a look at the numbers", func() {}, release, func() { b.Stats() },
			func() bool { return b.Stats().InUse == 7 }},
	} {
		t.Run(c.fact, func(t *testing.T) {
			wrong := 0
			prepare := func() {
				b = bulkhead.New(8, 1, false, 2)
				one, two, stay = bulkhead.Slot{}, bulkhead.Slot{}, nil
				last = shelved(b)
				c.before()
			}
			prepare()
			rounds(c.a, c.b, func() {
				if !c.after() {
					wrong++
				}
				prepare()
			})
			if wrong > 0 {
				t.Errorf("went wrong %d times", wrong)
			}
		})
	}
}
