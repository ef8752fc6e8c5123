package bulkhead_test

import (
	"os"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/gabion-go/gabion/internal/bulkhead"
)

// meeting makes two goroutines start together, round after round. Many workers seldom hit
// a window of a few instructions, and the next worker repairs what was lost. Two that meet hit it
// often, and no third worker repairs it.
type meeting struct{ here, there atomic.Int64 }

// meet waits until both have come to the round, and then for a delay of its own, since
// the window may be at any distance.
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
// GABION_SOAK=1 looks for rarer ones. TestInterleaved does not depend on luck.
func meetings() int {
	if os.Getenv("GABION_SOAK") != "" {
		return 200_000
	}
	return 500
}

func TestReleaseThatMeetsAJoinHandsOver(t *testing.T) {
	for _, fair := range []bool{false, true} {
		b := bulkhead.New(1, 1, fair)
		held, _ := b.TryAcquire("a", 0)
		var stay *bulkhead.Waiter
		lost := 0
		rounds(
			func() { b.Release(held, 0) },
			func() { stay, _ = b.Join(nil, bulkhead.Normal, "b") },
			func() {
				var ok bool
				if held, ok = b.Leave(stay); !ok {
					lost++
					held, _ = b.TryAcquire("a", 0)
				}
			})
		if lost > 0 {
			t.Errorf("fair %v: %d joiners missed the slot, and nothing else will hand it over", fair, lost)
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
			b := bulkhead.New(1, 0, c.fair)
			var one, two bulkhead.Slot
			wrong := 0
			second := func() { two, _ = b.TryAcquire("b", 0) }
			if c.join {
				second = func() {
					w, _ := b.Join(nil, bulkhead.Normal, "b")
					two, _ = b.Granted(w)
				}
			}
			rounds(func() { one, _ = b.TryAcquire("a", 0) }, second, func() {
				if one.Held() == two.Held() {
					wrong++
				}
				b.Release(one, 0)
				b.Release(two, 0)
			})
			if wrong > 0 {
				t.Errorf("%d times not exactly one had the slot", wrong)
			}
		})
	}
}
