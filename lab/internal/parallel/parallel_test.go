package parallel

import (
	"runtime"
	"sync/atomic"
	"testing"
)

func never() bool { return false }

// Each piece is done once, whatever the number of workers, and told is called for each with how many
// are done.
func TestEachPieceIsDoneOnce(t *testing.T) {
	for _, workers := range []int{-1, 0, 1, 7, 5000} {
		var times [1000]atomic.Int64
		last := 0
		Run(len(times), workers, never, func(i int) {
			for range i % 7 {
				runtime.Gosched()
			}
			times[i].Add(1)
		}, func(i, done int) {
			if done != last+1 || times[i].Load() != 1 {
				t.Errorf("%d workers: told that %d are done after %d", workers, done, last)
			}
			last = done
		})
		for i := range times {
			if n := times[i].Load(); n != 1 || last != len(times) {
				t.Fatalf("%d workers: %d was done %d times, and %d were told", workers, i, n, last)
			}
		}
	}
	Run(0, 3, never, func(int) { t.Error("there is nothing to do") }, nil)
}

func TestNothingBeginsOnceItHasEnded(t *testing.T) {
	var over atomic.Bool
	var begun atomic.Int64
	Run(10_000, 4, over.Load, func(int) {
		begun.Add(1)
		over.Store(true)
	}, nil)
	if n := begun.Load(); n < 1 || n > 4 {
		t.Errorf("%d began", n)
	}
}
