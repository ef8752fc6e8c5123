package anchor

import (
	"context"
	"math"
	"slices"
	"sort"
	"time"

	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/internal/chance"
)

// jitterModel is the distribution of the wait before one retry, by package backoff
// and the draws of production, compared with its formula.
var jitterModel = model{
	name: "jitter",
	says: "the waits of a backoff at one retry against its distribution function",
	settings: []setting{
		{"kind", "full", "the backoff's shape", oneOf("full", "equal", "decorrelated", "exponential", "linear", "constant")},
		{"base", "100ms", "its base", span(time.Microsecond, aDay)},
		{"cap", "30s", "its cap", span(time.Microsecond, aDay)},
		{"retry", "1", "which retry; 1 is the first", whole(1, 60)},
		{"draws", "20000", "calls that wait for it", whole(1, 10_000_000)},
		seeded,
	},
	run: func(_ context.Context, v values) ([]Figure, error) {
		b := backoff.Backoff{Base: v.duration("base"), Cap: v.duration("cap")}
		if err := b.Kind.UnmarshalText([]byte(v.word("kind"))); err != nil {
			return nil, err
		}
		waits := make([]float64, v.count("draws"))
		for i := range waits {
			prev := time.Duration(0)
			for try := range v.count("retry") {
				prev = b.Delay(try, prev, chance.U(uint64(v.count("seed")), uint64(i), uint64(try), chance.Backoff))
			}
			waits[i] = prev.Seconds() * 1e3
		}
		slices.Sort(waits)
		f := waitOf(b, v.count("retry"))
		return []Figure{
			{"mean_ms", mean(waits)},
			{"least_ms", waits[0]},
			{"most_ms", waits[len(waits)-1]},
			{"ks", distance(waits, f)},
		}, nil
	},
}

// waiting is a distribution of waits in milliseconds.
type waiting struct {
	low, high float64
	atMost    func(x float64) float64 // share of waits
}

// waitOf returns the distribution of the wait before a retry, from the formulas of
// Brooker 2015.
func waitOf(b backoff.Backoff, retry int) waiting {
	base, limit := b.Base.Seconds()*1e3, b.Cap.Seconds()*1e3
	grown := min(limit, math.Ldexp(base, retry-1))
	switch b.Kind {
	case backoff.EqualJitter:
		return uniform(grown/2, grown)
	case backoff.DecorrelatedJitter:
		return decorrelated(base, limit, retry)
	case backoff.Exponential:
		return uniform(grown, grown)
	case backoff.Linear:
		grown = min(limit, base*float64(retry))
		return uniform(grown, grown)
	case backoff.Constant:
		return uniform(min(limit, base), min(limit, base))
	}
	return uniform(0, grown)
}

func uniform(low, high float64) waiting {
	return waiting{low, high, func(x float64) float64 { return within(x, low, high) }}
}

// within returns the share of a uniform distribution that is at most x.
func within(x, low, high float64) float64 {
	switch {
	case x < low:
		return 0
	case x >= high:
		return 1
	}
	return (x - low) / (high - low)
}

// decorrelated reckons the distribution of min(cap, U(base, 3·previous)) from that
// of the wait before, for which four hundred of its quantiles stand.
func decorrelated(base, limit float64, retry int) (w waiting) {
	previous := []float64{base}
	w.low, w.high = min(base, limit), base
	for r := range retry {
		if r > 0 {
			previous = w.quantiles(400)
		}
		w.high = min(limit, float64(3*w.high))
		w.atMost = func(x float64) float64 {
			if x >= limit {
				return 1
			}
			sum := 0.0
			for _, p := range previous {
				sum += within(x, base, float64(3*p))
			}
			return sum / float64(len(previous))
		}
	}
	return w
}

// quantiles returns the middles of n equal shares. All that is cut off at the cap
// is at the cap.
func (w *waiting) quantiles(n int) []float64 {
	xs := make([]float64, n)
	for i := range xs {
		p, low, high := (float64(i)+0.5)/float64(n), w.low, w.high
		for range 40 {
			if x := (low + high) / 2; w.atMost(x) >= p {
				high = x
			} else {
				low = x
			}
		}
		xs[i] = high
	}
	return xs
}

// distance is the statistic of Kolmogorov and Smirnov, looked at in 200 places and
// just outside of the ends: the largest difference between the share of waits up to
// there and what it should be. Of n waits that follow the distribution it is above
// 1.95/√n less than once in a thousand times.
func distance(sorted []float64, w waiting) float64 {
	const places, outside = 200, 1e-5 // whole nanoseconds are not farther off
	worst := 0.0
	look := func(x float64) {
		share := float64(sort.SearchFloat64s(sorted, x)) / float64(len(sorted))
		worst = max(worst, math.Abs(share-w.atMost(x)))
	}
	look(w.low - outside)
	for i := range places {
		if w.high > w.low {
			look(w.low + float64((w.high-w.low)*(float64(i)+0.5))/places)
		}
	}
	look(w.high + outside)
	return worst
}
