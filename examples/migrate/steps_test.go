package main

import (
	"context"
	"net/http"
	"testing"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/examples/migrate/retryablehttp"
	"github.com/gabion-go/gabion/examples/migrate/shop"
	"github.com/gabion-go/gabion/gabionhttp"
)

// The first step can be shipped by itself: all is as before.
func TestTheFirstStepChangesNothing(t *testing.T) {
	for _, m := range migrations {
		if m.before == nil || m.real {
			continue
		}
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			for _, q := range shop.Questions {
				want := said[m.name][q.Name]
				if want == "" || q.Long && q.Name != hour {
					continue
				}
				says := inVirtualTime(t, q, func(base string, wire http.RoundTripper) shop.Client { return m.before(base, watching(wire)) })
				if !alike(says, want) {
					t.Errorf("%s: %s, want %s", q.Name, says, want)
				}
			}
		})
	}
}

// Two layers that both retry multiply.
func TestTwoLayersOfRetries(t *testing.T) {
	q := shop.Question{Ask: func(ctx context.Context, s *shop.Server, c shop.Client) string {
		s.Plan(shop.Step{Status: http.StatusServiceUnavailable})
		c.Price(ctx, "tea")
		return shop.Attempts(s)
	}}
	both := inVirtualTime(t, q, func(base string, wire http.RoundTripper) shop.Client {
		dependency := gabion.New("shop", retryablehttp.Policy, gabion.WithSeed(1))
		return retryablehttp.Before(base, &gabionhttp.Transport{Dependency: dependency, Base: wire})
	})
	if both != "5 attempts" {
		t.Errorf("%s, want 5 attempts", both)
	}
}
