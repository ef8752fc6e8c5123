package behaviour_test

import (
	"context"
	"fmt"
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

// Go: go test -run xxx -bench Endpoints -cpu 2 ./internal/behaviour
func BenchmarkEndpoints(b *testing.B) {
	names := []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"}
	for _, mode := range []policy.EndpointMode{policy.EndpointsEqual, policy.EndpointsOrdered} {
		for _, n := range []int{0, 1, 3, 10} {
			b.Run(fmt.Sprintf("%s/%d", mode, n), func(b *testing.B) {
				d := gabion.New("payments", ways(mode, names[:n]...))
				work := func(context.Context) error { return nil }
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						_ = d.Run(b.Context(), work)
					}
				})
			})
		}
	}
}
