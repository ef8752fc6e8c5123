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

// admitted plays bursts of requests and accepts on any shards, with any K, and
// compares every single answer with the history's.
func admitted(t *testing.T, shards int, script []byte) {
	const width = 60
	throttle := Make(buckets*width, shards)
	h := &history{width: width, newest: math.MinInt64, requests: map[int64]int64{}, accept: map[int64]int64{}}
	now := clock.Instant(-3000)
	ks := []float64{2, 2, 2, 2, 2, 1.5, 1.1, 0, -1, math.Inf(1)}
	k := 2.0
	for i := 0; i+2 < len(script); i += 3 {
		op, arg, shard := script[i], int(script[i+1]), uint32(script[i+2])
		if shard < 128 {
			shard = 0 // one is busier than the others
		}
		switch op % 16 {
		case 0:
			now += clock.Instant(arg / 4)
		case 1:
			now += clock.Instant(arg * arg / 64)
		case 2:
			k = ks[arg%len(ks)]
		case 3, 4, 5, 6:
			for range arg {
				throttle.Accept(now, now, shard)
			}
			h.accept[h.at(now)] += int64(arg)
		case 7:
			for range arg / 8 {
				throttle.Request(now, shard)
			}
			h.requests[h.at(now)] += int64(arg / 8)
		case 8:
			then := now - clock.Instant(arg)
			b := int64(math.Floor(float64(then) / width))
			if throttle.Forget(then, now, shard) {
				h.requests[b]--
			} else if h.at(now); b > h.newest-buckets && h.requests[b] > 0 {
				t.Fatalf("step %d: nothing forgotten at %d of %d", i/3, then, h.requests[b])
			}
		default:
			for n := range arg / 2 {
				k := k
				if op == 255 && n%3 == 0 {
					k = 1.5 // two in use at once, as while rules change
				}
				want := h.probability(now, k)
				if got := throttle.Admit(now, shard+uint32(n*arg%2), k); got != want {
					t.Fatalf("step %d at %d, K = %v: %v, want %v", i/3, now, k, got, want)
				}
				h.requests[h.newest]++
			}
		}
		if got, want := throttle.Probability(now, k), h.probability(now, k); got != want {
			t.Fatalf("step %d at %d, K = %v: %v at the end, want %v", i/3, now, k, got, want)
		}
	}
}

func FuzzAdmit(f *testing.F) {
	f.Add(1, []byte{3, 200, 0, 9, 200, 0, 9, 200, 0, 9, 200, 0, 9, 250, 200})
	f.Fuzz(func(t *testing.T, shards int, script []byte) {
		admitted(t, 1<<(shards&3), script[:min(len(script), 900)])
	})
}

func TestAdmitAgreesWithHistory(t *testing.T) {
	for seed := range uint64(100) {
		script := make([]byte, 600)
		for i := range script {
			script[i] = byte(chance.Bits(seed, uint64(i), 0, 0) >> 32)
		}
		admitted(t, 1<<(seed%3), script)
	}
}

func TestAdmitRejectsFromTheFirstRequestTooMany(t *testing.T) {
	type step struct {
		now    clock.Instant
		k      float64
		shards []uint32 // that the requests go to in turn
		free   int      // requests that are let through
	}
	for _, c := range []struct {
		name  string
		steps []step // after the last of them the next request may be rejected
	}{
		{"one shard", []step{{0, 2, []uint32{0}, 401}}},
		{"four shards alike", []step{{0, 2, []uint32{0, 1, 2, 3}, 401}}},
		{"all on one of four", []step{{0, 2, []uint32{2}, 401}}},
		{"mostly on one of four", []step{{0, 2, []uint32{1, 1, 1, 0}, 401}}},
		{"one of four and then another", []step{{0, 2, []uint32{1}, 390}, {0, 2, []uint32{0}, 11}}},
		{"K falls", []step{{0, 2, []uint32{0}, 301}, {0, 1.5, []uint32{0}, 0}}},
		{"K grows", []step{{0, 1.5, []uint32{0}, 301}, {0, 2, []uint32{0}, 100}}},
		{"the window turns", []step{{0, 2, []uint32{0, 1}, 301}, {10 * s, 2, []uint32{0, 1}, 100}}},
		{"the accepts are forgotten", []step{{0, 2, []uint32{0}, 1}, {110 * s, 2, []uint32{0}, 200}, {120 * s, 2, []uint32{0}, 0}}},
	} {
		throttle := Make(2*time.Minute, 4)
		for range 200 {
			throttle.Accept(0, 0, 1)
		}
		var last step
		for i, st := range c.steps {
			for n := range st.free {
				if p := throttle.Admit(st.now, st.shards[n%len(st.shards)], st.k); p != 0 {
					t.Fatalf("%s: step %d, request %d: %v, want 0", c.name, i, n, p)
				}
			}
			last = st
		}
		for shard := range uint32(4) {
			if p := throttle.Admit(last.now, shard, last.k); p <= 0 {
				t.Errorf("%s: %v after the last, want more than 0", c.name, p)
			}
		}
	}
}

// Where there is room for many, one who sums up lets others go without.
func TestAdmitSparesOthersTheSum(t *testing.T) {
	for _, c := range []struct {
		name    string
		accepts int
		want    bool
	}{
		{"plenty is left", 200, true},
		{"just enough for all shards", 33, true}, // 66 less the one that asks, and 64 are shared
		{"too little for all shards", 31, false},
		{"nothing is left", 0, false},
	} {
		throttle := Make(2*time.Minute, 4)
		for range c.accepts {
			throttle.Accept(0, 0, 0)
		}
		throttle.Admit(0, 0, 2)
		if got := throttle.sent.Spend(0, 3, math.Float64bits(2)); got != c.want {
			t.Errorf("%s: spared %v", c.name, got)
		}
	}
}

// Whoever begins after the dependency's due was used up is told so, and whoever
// ends before is let through, wherever the allowances were in being made.
func TestConcurrentAdmitsKeepTheLimit(t *testing.T) {
	const callers, accepted, k = 4, 300, 2
	rounds := 500
	if testing.Short() {
		rounds = 100
	}
	for range rounds {
		throttle := Make(2*time.Minute, callers)
		for i := range uint32(accepted) {
			throttle.Accept(0, 0, i)
		}
		var begun, ended atomic.Int64
		var all sync.WaitGroup
		for g := range uint32(callers) {
			all.Go(func() {
				for range 200 + 40*g {
					before := ended.Load()
					begun.Add(1)
					p := throttle.Admit(0, g, k)
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
