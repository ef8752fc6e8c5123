package behaviour

import (
	"context"
	"testing"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/internal/testrace"
	"github.com/gabion-go/gabion/policy"
)

// What a successful call allocates.
func TestAllocationsOfASuccess(t *testing.T) {
	if testrace.Enabled {
		t.Skip("the race detector allocates")
	}
	plain := gabion.New("db", policy.Policy{})
	observed := gabion.New("db", policy.Policy{}, gabion.WithObserver(gabion.ObserverFunc(func(context.Context, gabion.Event) {})))
	everything := gabion.New("db", policy.Policy{
		Throttle: policy.Throttle{K: 2}, RateLimit: policy.RateLimit{Rate: 1e6, Burst: 1 << 20},
		Breaker: policy.Breaker{Failures: 5, Consecutive: 5, SlowRate: 1, InFlight: true}, Bulkhead: policy.Bulkhead{Limit: 10},
	})
	unused := func(context.Context) (int, error) { return 1, nil }
	used := func(ctx context.Context) (int, error) { ctx.Done(); return 1, nil }
	looked := func(ctx context.Context) (int, error) {
		if _, ok := ctx.Deadline(); ok && ctx.Err() == nil && gabion.Key(ctx) == "k" {
			return 1, nil
		}
		return 0, nil
	}
	key, op := gabion.WithKey("k"), gabion.WithOperation("op")
	cases := []struct {
		name string
		d    *gabion.Dependency
		work func(context.Context) (int, error)
		opts []gabion.CallOption
		most float64
	}{
		{"Done unused", plain, unused, nil, 1},
		{"with options, and looking at everything but Done", plain, looked, []gabion.CallOption{key, op}, 1},
		{"every layer on", everything, unused, nil, 1},
		{"Done used", plain, used, nil, 6},
		{"observed", observed, unused, nil, 3},
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	for _, c := range cases {
		got := testing.AllocsPerRun(500, func() { gabion.Do(ctx, c.d, c.work, c.opts...) })
		t.Logf("%s: %.0f", c.name, got)
		if got > c.most {
			t.Errorf("%s: %.0f allocations, want at most %.0f", c.name, got, c.most)
		}
	}
	run := func(context.Context) error { return nil }
	if got := testing.AllocsPerRun(500, func() { plain.Run(ctx, run) }); got > 2 { // one for the closure that adds a result
		t.Errorf("Run: %.0f allocations", got)
	}
}

// A refusal allocates its error and what a call always does.
func TestAllocationsOfARefusal(t *testing.T) {
	if testrace.Enabled {
		t.Skip("the race detector allocates")
	}
	for name, p := range map[string]policy.Policy{
		"serial": {Breaker: eager(time.Hour)},
		"hedged": {Breaker: eager(time.Hour), Safe: true, Hedge: policy.Hedge{Max: 1, Delay: time.Second}},
	} {
		d := gabion.New("db", p)
		d.Run(t.Context(), fails(errDown), gabion.WithoutRetry())
		work := func(context.Context) (int, error) { return 1, nil }
		if got := testing.AllocsPerRun(500, func() { gabion.Do(t.Context(), d, work) }); got > 1 {
			t.Errorf("%s: %.0f allocations", name, got)
		}
	}
}
