package anchor

import (
	"context"
	"strings"

	"github.com/gabion-go/gabion/lab/internal/parallel"
	"github.com/gabion-go/gabion/lab/internal/sim"
)

// replicate calls f for 0 to n-1, as many at once as there are processors, and
// returns what it returned in that order. When ctx ends, what has not begun does
// not begin.
func replicate[T any](ctx context.Context, n int, f func(i int) T) []T {
	out := make([]T, n)
	parallel.Run(n, 0, func() bool { return ctx.Err() != nil }, func(i int) { out[i] = f(i) }, nil)
	return out
}

// simulate runs a world once for each of n seeds and returns what take makes of
// each run.
func simulate[T any](ctx context.Context, w *sim.World, v values, n int, take func(*sim.Result) T) ([]T, error) {
	type taken struct {
		it     T
		broken []string
	}
	out := make([]T, n)
	for i, t := range replicate(ctx, n, func(i int) taken {
		r := sim.Run(w, uint64(v.count("seed")+i))
		return taken{take(r), r.Broken}
	}) {
		if len(t.broken) > 0 {
			return nil, brokenLaw(t.broken)
		}
		out[i] = t.it
	}
	return out, ctx.Err()
}

// brokenLaw is what a run says whose books don't balance: nothing that it measured
// means anything.
type brokenLaw []string

func (b brokenLaw) Error() string { return "a run broke its invariants: " + strings.Join(b, "; ") }

func mean[T int | int64 | float64](xs []T) float64 {
	sum := 0.0
	for _, x := range xs {
		sum += float64(x)
	}
	return sum / float64(len(xs))
}

// pick returns one number of each.
func pick[T any](all []T, f func(*T) float64) []float64 {
	xs := make([]float64, len(all))
	for i := range all {
		xs[i] = f(&all[i])
	}
	return xs
}
