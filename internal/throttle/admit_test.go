package throttle

import (
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gabion-go/gabion/internal/chance"
	"github.com/gabion-go/gabion/internal/clock"
)

// history is a throttle that keeps each bucket there ever was.
type history struct {
	width            int64
	newest           int64
	requests, accept map[int64]int64
}

func (h *history) at(now clock.Instant) int64 {
	h.newest = max(h.newest, int64(math.Floor(float64(now)/float64(h.width))))
	return h.newest
}

func (h *history) probability(now clock.Instant, k float64) float64 {
	var requests, accepts float64
	for b := h.at(now) - buckets + 1; b <= h.newest; b++ {
		requests += float64(h.requests[b])
		accepts += float64(h.accept[b])
	}
	if over := requests - max(k, 0)*accepts; over > 0 {
		return over / (requests + 1)
	}
	return 0
}

// admitted plays bursts of requests and accepts, with any K, and compares every single
// answer with the history's.
func admitted(t *testing.T, script []byte) {
	const width = 60
	throttle := Make(buckets * width)
	h := &history{width: width, newest: math.MinInt64, requests: map[int64]int64{}, accept: map[int64]int64{}}
	now := clock.Instant(-3000)
	ks := []float64{2, 2, 2, 2, 2, 1.5, 1.1, 0, -1, math.Inf(1)}
	k := 2.0
	for i := 0; i+1 < len(script); i += 2 {
		op, arg := script[i], int(script[i+1])
		switch op % 16 {
		case 0:
			now += clock.Instant(arg / 4)
		case 1:
			now += clock.Instant(arg * arg / 64)
		case 2:
			k = ks[arg%len(ks)]
		case 3, 4, 5, 6:
			for range arg {
				throttle.Accept(now, now)
			}
			h.accept[h.at(now)] += int64(arg)
		case 7:
			for range arg / 8 {
				throttle.Request(now)
			}
			h.requests[h.at(now)] += int64(arg / 8)
		case 8:
			then := now - clock.Instant(arg)
			b := int64(math.Floor(float64(then) / width))
			if throttle.Forget(then, now) {
				h.requests[b]--
			} else if h.at(now); b > h.newest-buckets && h.requests[b] > 0 {
				t.Fatalf("step %d: nothing forgotten at %d of %d", i/2, then, h.requests[b])
			}
		default:
			for n := range arg / 2 {
				k := k
				if op == 255 && n%3 == 0 {
					k = 1.5 // two in use at once, as while rules change
				}
				want := h.probability(now, k)
				if got := throttle.Admit(now, k); got != want {
					t.Fatalf("step %d at %d, K = %v: %v, want %v", i/2, now, k, got, want)
				}
				h.requests[h.newest]++
			}
		}
		if got, want := throttle.Probability(now, k), h.probability(now, k); got != want {
			t.Fatalf("step %d at %d, K = %v: %v at the end, want %v", i/2, now, k, got, want)
		}
	}
}

func FuzzAdmit(f *testing.F) {
	f.Add([]byte{3, 200, 9, 200, 9, 200, 9, 200, 9, 250})
	f.Fuzz(func(t *testing.T, script []byte) { admitted(t, script[:min(len(script), 900)]) })
}

func TestAdmitAgreesWithHistory(t *testing.T) {
	for seed := range uint64(100) {
		script := make([]byte, 600)
		for i := range script {
			script[i] = byte(chance.Bits(seed, uint64(i), 0, 0) >> 32)
		}
		admitted(t, script)
	}
}

func TestAdmitRejectsFromTheFirstRequestTooMany(t *testing.T) {
	type step struct {
		now  clock.Instant
		k    float64
		free int // requests that are let through
	}
	for _, c := range []struct {
		name  string
		steps []step // after the last of them the next request may be rejected
	}{
		{"at once", []step{{0, 2, 401}}},
		{"K falls", []step{{0, 2, 301}, {0, 1.5, 0}}},
		{"K grows", []step{{0, 1.5, 301}, {0, 2, 100}}},
		{"the window turns", []step{{0, 2, 301}, {10 * s, 2, 100}}},
		{"the accepts are forgotten", []step{{0, 2, 1}, {110 * s, 2, 200}, {120 * s, 2, 0}}},
	} {
		throttle := Make(2 * time.Minute)
		for range 200 {
			throttle.Accept(0, 0)
		}
		var last step
		for i, st := range c.steps {
			for n := range st.free {
				if p := throttle.Admit(st.now, st.k); p != 0 {
					t.Fatalf("%s: step %d, request %d: %v, want 0", c.name, i, n, p)
				}
			}
			last = st
		}
		if p := throttle.Admit(last.now, last.k); p <= 0 {
			t.Errorf("%s: %v after the last, want more than 0", c.name, p)
		}
	}
}

// Once as many requests have ended as the accepts allow, every request that begins gets a
// probability above 0. Before as many have begun, none does.
func TestConcurrentAdmitsKeepTheLimit(t *testing.T) {
	const callers, accepted, k = 4, 300, 2
	rounds := 500
	if testing.Short() {
		rounds = 100
	}
	for range rounds {
		throttle := Make(2 * time.Minute)
		for range accepted {
			throttle.Accept(0, 0)
		}
		var begun, ended atomic.Int64
		var all sync.WaitGroup
		for g := range callers {
			all.Go(func() {
				for range 200 + 40*g {
					before := ended.Load()
					begun.Add(1)
					p := throttle.Admit(0, k)
					if p == 0 && before > k*accepted {
						t.Errorf("let through after %d", before)
					}
					if others := begun.Load() - 1; p > 0 && others <= k*accepted {
						t.Errorf("%v before %d", p, others)
					}
					ended.Add(1)
				}
			})
		}
		all.Wait()
		if t.Failed() {
			return
		}
	}
}
