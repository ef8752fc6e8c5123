package sim

import (
	"math"
	"testing"
	"time"

	"github.com/gabion-go/gabion/lab/internal/draw"
)

// shares are how often each key is asked for, by package math.
func shares(n int, s float64) []float64 {
	p, sum := make([]float64, n), 0.0
	for k := range p {
		p[k] = math.Pow(float64(k+1), -s)
		sum += p[k]
	}
	for k := range p {
		p[k] /= sum
	}
	return p
}

// cached is a world whose calls have a cache.
func cached(t testing.TB, rate float64, duration time.Duration, c Cache, v Service, faults ...Fault) *World {
	w := steady(tries(t, 1), rate, duration, v, faults...)
	w.edge().Cache = &c
	return w
}

func hitRate(n *Counts) float64 {
	return float64(n.Hits) / float64(n.Hits+n.Joined+n.Calls)
}

// Che, Tung and Wang, "Hierarchical Web caching systems", 2002: an answer stays for the time t in
// which as many keys are asked for as there is room for, Σ 1-exp(-p t) = size, and is found
// with Σ p (1-exp(-p t)).
func che(p []float64, size int) float64 {
	low, high := 0.0, 1e12
	for range 200 {
		t, held := (low+high)/2, 0.0
		for _, x := range p {
			held += 1 - math.Exp(-x*t)
		}
		if held < float64(size) {
			low = t
		} else {
			high = t
		}
	}
	hits := 0.0
	for _, x := range p {
		hits += x * (1 - math.Exp(-x*low))
	}
	return hits
}

func TestACacheOfTheLastUsedAgreesWithChe(t *testing.T) {
	for _, c := range []struct {
		keys, size int
		s          float64
	}{{10_000, 1000, 0.8}, {10_000, 100, 1.1}, {1000, 500, 0}} {
		for _, cold := range []bool{false, true} {
			w := cached(t, 1000, 300*time.Second, Cache{Keys: draw.NewZipf(c.keys, c.s), Size: c.size, Cold: cold}, Service{})
			w.Warmup = 60 * time.Second
			w.Cuts = []time.Duration{w.Warmup}
			n := &play(t, w).Phases[1].Edges[0]
			near(t, "hits", hitRate(n), che(shares(c.keys, c.s), c.size), 0.01)
		}
	}
}

// An answer that may be used for T is found by λT of the 1+λT that ask from one call to the next.
func TestACacheForgetsAfterItsTime(t *testing.T) {
	const keys, rate, ttl = 1000, 200.0, 20.0
	want := 0.0
	for _, p := range shares(keys, 0.9) {
		want += p * (p * rate * ttl) / (1 + p*rate*ttl)
	}
	w := cached(t, rate, 600*time.Second, Cache{Keys: draw.NewZipf(keys, 0.9), TTL: ttl * time.Second}, Service{})
	w.Cuts = []time.Duration{60 * time.Second}
	near(t, "hits", hitRate(&play(t, w).Phases[1].Edges[0]), want, 0.01)
}

// A cache that is down keeps nothing, and is empty afterwards: the first request for each key is a
// miss then, and nothing else is. Of n requests that is Σ 1-(1-p)^n.
func TestACacheThatWasDownIsCold(t *testing.T) {
	const keys, requests = 5000, 10_000
	all := 0.0
	for _, p := range shares(keys, 0.9) {
		all += 1 - math.Pow(1-p, requests)
	}
	for _, c := range []struct {
		fact                string
		share               float64
		during, after       float64
		duringTol, afterTol float64
	}{{"all of it", 0, 5000, all, 0, 0.02}, {"a quarter of the keys", 0.25, 1250, all / 4, 0.2, 0.12}} {
		t.Run(c.fact, func(t *testing.T) {
			w := cached(t, 1000, 20*time.Second, Cache{Keys: draw.NewZipf(keys, 0.9)}, Service{}, Fault{Kind: CacheDown, At: 5 * time.Second, For: 5 * time.Second, Share: c.share})
			w.Fleets[0].Even = true
			w.Cuts = []time.Duration{5 * time.Second, 10 * time.Second}
			r := play(t, w)
			is(t, "calls while it is warm", r.Phases[0].Edges[0].Calls, 0)
			near(t, "calls while it is down", float64(r.Phases[1].Edges[0].Calls), c.during, c.duringTol)
			near(t, "calls afterwards", float64(r.Phases[2].Edges[0].Calls), c.after, c.afterTol)
		})
	}
}

// One key, asked for once in 10 ms, whose work takes a second. Who asks in the instant of the
// answer is the last who misses.
func TestCallsForTheSameAreOneWhereTheyAreCollapsed(t *testing.T) {
	for _, c := range []struct {
		fact     string
		collapse bool
		faults   []Fault
		calls    int64
		good     int64
	}{
		{"all who come within the second call", false, nil, 101, 999},
		{"one calls, and the others wait for it", true, nil, 1, 999},
		{"they fail as it does, and the next one calls", true, []Fault{{Kind: Errors, Status: 500, For: 1500 * ms}}, 2, 898},
	} {
		t.Run(c.fact, func(t *testing.T) {
			w := cached(t, 100, 10*time.Second, Cache{Keys: draw.NewZipf(1, 0), Cold: true, Collapse: c.collapse}, Service{Time: draw.Constant(time.Second)}, c.faults...)
			w.Fleets[0].Even = true
			r := play(t, w)
			is(t, "calls", r.Edges[0].Calls, c.calls)
			is(t, "good", r.Fleets[0].Good, c.good)
			is(t, "with an answer", r.Edges[0].Calls+r.Edges[0].Hits+r.Edges[0].Joined, r.Fleets[0].Offered)
			if d := r.Fleets[0].Answered.Max(); d != time.Second {
				t.Errorf("the longest took %v", d)
			}
		})
	}
}

// Clients that give up before an answer is there don't put it into the cache: it never gets warm.
func TestWhatComesTooLateIsNotKept(t *testing.T) {
	w := cached(t, 100, 10*time.Second, Cache{Keys: draw.NewZipf(1, 0), Cold: true}, Service{Time: draw.Constant(time.Second)})
	w.edge().Rules = tries(t, 1, attemptTimeout(500*ms))
	r := play(t, w)
	is(t, "hits", r.Edges[0].Hits, 0)
	is(t, "good", r.Fleets[0].Good, 0)
}
