package sdk

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
	"time"
)

// client is what the matrix compares: an SDK and the ways to use it.
type client struct {
	name  string
	reads bool // work that may be done twice
	open  func(t *testing.T, w *world, how int) (call, func())
}

// troubles are what every client meets. The load takes 8 s.
var troubles = []trouble{
	{name: "3 s of errors", down: func(at time.Duration) bool { return at >= 2*time.Second && at < 5*time.Second }},
	{name: "10 % errors", errors: 0.1},
	{name: "30 % errors", errors: 0.3},
	{name: "throttled", rate: 15},
}

// result is what came of a load, or of several.
type result struct {
	calls, lost, twice, sent int
	took                     time.Duration
}

func (r result) String() string {
	return fmt.Sprintf("%d lost, %d twice, %d sent in %v", r.lost, r.twice, r.sent, r.took.Round(100*time.Millisecond))
}

func (r *result) add(o result) {
	r.calls += o.calls
	r.lost += o.lost
	r.twice += o.twice
	r.sent += o.sent
	r.took += o.took
}

// waits is how long the caller of a call waits for it.
const waits = 10 * time.Second

// play makes a load. An open one is 20 calls a second for 8 s. A closed one is 8 callers
// with 20 calls each, and a third of a second between them.
func play(t *testing.T, c *client, tr trouble, closed bool, how int, seed uint64) (r result) {
	synctest.Test(t, func(t *testing.T) {
		cryptotest.SetGlobalRandom(t, seed)
		w := newWorld(tr, seed)
		run, end := c.open(t, w, how)
		w.begun = time.Now()
		var mu sync.Mutex
		once := func(n int) {
			ctx, cancel := context.WithTimeout(numbered(t.Context(), n), waits)
			defer cancel()
			err := run(ctx, n)
			mu.Lock()
			defer mu.Unlock()
			r.calls++
			if err != nil {
				r.lost++
			}
		}
		var wg sync.WaitGroup
		if closed {
			for caller := range 8 {
				wg.Go(func() {
					time.Sleep(time.Duration(caller) * 40 * time.Millisecond)
					for i := range 20 {
						once(i*8 + caller)
						time.Sleep(330 * time.Millisecond)
					}
				})
			}
		} else {
			for n := range 160 {
				wg.Go(func() { once(n) })
				time.Sleep(50 * time.Millisecond)
			}
		}
		wg.Wait()
		r.took, r.twice, r.sent = time.Since(w.begun), w.twice(), w.sent
		end()
	})
	return r
}

func clients() (all []*client) {
	for _, s := range subjects() {
		all = append(all, &client{s.name, s.reads, s.open})
	}
	return append(all, cacheGet(), cacheIncr(), rpc(), rows())
}

func TestMatrix(t *testing.T) {
	const seeds = 3
	for _, c := range clients() {
		t.Run(c.name, func(t *testing.T) {
			begun := time.Now()
			for _, tr := range troubles {
				for _, closed := range []bool{false, true} {
					var sum [4]result
					for _, how := range []int{alone, paged, asIs} {
						for seed := range uint64(seeds) {
							sum[how].add(play(t, c, tr, closed, how, seed))
						}
					}
					t.Logf("%-14s closed %-5v: alone %v | page %v | zero %v", tr.name, closed, sum[alone], sum[paged], sum[asIs])
				}
			}
			t.Log(time.Since(begun))
		})
	}
}
