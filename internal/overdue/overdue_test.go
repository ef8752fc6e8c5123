package overdue_test

import (
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion/internal/overdue"
)

type waiter struct {
	place overdue.Place
	since time.Time
	after atomic.Int64 // how long it waited; zero means that it was not told
	times atomic.Int64
}

func (w *waiter) Overdue() {
	w.after.Store(int64(time.Since(w.since)))
	w.times.Add(1)
}

func TestWhoWaitsIsToldInTimeAndWhoLeavesIsNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const stays = time.Hour
		var list overdue.List
		r := rand.New(rand.NewPCG(1, 2))
		var all []*waiter
		var lasts []time.Duration
		for range 500 {
			time.Sleep(time.Duration(r.IntN(3000)) * time.Microsecond)
			w := &waiter{since: time.Now()}
			list.Add(&w.place, w)
			all = append(all, w)
			lasts = append(lasts, stays)
			if d := time.Duration(r.IntN(20000)) * time.Microsecond; r.IntN(3) > 0 {
				lasts[len(lasts)-1] = d
				time.AfterFunc(d, func() { list.Remove(&w.place) })
			}
		}
		time.Sleep(time.Second)
		for i, w := range all {
			after, least := time.Duration(w.after.Load()), overdue.Soon/2
			switch {
			case after == 0 && lasts[i] > overdue.Soon:
				t.Errorf("%d, which stayed for %v, was not told", i, lasts[i])
			case after != 0 && (after < least || after > overdue.Soon || after > lasts[i]), w.times.Load() > 1:
				t.Errorf("%d, which stayed for %v, was told %d times, after %v", i, lasts[i], w.times.Load(), after)
			}
		}
	})
}

// An empty list has no timer that rings, and begins again.
func TestAListThatIsEmptyRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var list overdue.List
		for range 3 {
			w := &waiter{since: time.Now()}
			list.Add(&w.place, w)
			time.Sleep(time.Minute)
			if w.times.Load() != 1 {
				t.Fatal("it was told", w.times.Load(), "times")
			}
		}
	})
}
