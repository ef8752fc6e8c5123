package behaviour_test

import (
	"context"
	"testing"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/internal/testrace"
	"github.com/gabion-go/gabion/policy"
)

// A call that goes to endpoints allocates where it goes, beside its context. One without endpoints allocates what it did.
func TestEndpointsCostOneAllocation(t *testing.T) {
	testrace.Serial(t)
	for _, c := range []struct {
		p    policy.Policy
		want float64
	}{{policy.Policy{}, 1}, {ways(policy.EndpointsEqual, "a", "b", "c"), 2}, {ways(policy.EndpointsOrdered, "a", "b"), 2}} {
		d := gabion.New("payments", c.p)
		work := func(context.Context) error { return nil }
		if got := testing.AllocsPerRun(1000, func() { _ = d.Run(t.Context(), work) }); got != c.want {
			t.Errorf("%d endpoints: %v allocations, want %v", len(c.p.Endpoints.List), got, c.want)
		}
	}
}

// Go: go test -run xxx -bench Endpoints ./internal/behaviour
func BenchmarkEndpoints(b *testing.B) {
	for name, p := range map[string]policy.Policy{"none": {}, "equal": ways(policy.EndpointsEqual, "a", "b", "c"), "ordered": ways(policy.EndpointsOrdered, "a", "b")} {
		b.Run(name, func(b *testing.B) {
			d := gabion.New("payments", p)
			work := func(context.Context) error { return nil }
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					_ = d.Run(b.Context(), work)
				}
			})
		})
	}
}
