// Package failsafego is docs/migrate/failsafe-go.md: the same client with failsafe-go and
// with gabion.
package failsafego

import (
	"net/http"
	"time"

	"github.com/failsafe-go/failsafe-go/circuitbreaker"
	"github.com/failsafe-go/failsafe-go/failsafehttp"
	"github.com/failsafe-go/failsafe-go/timeout"

	"github.com/gabion-go/gabion/examples/migrate/shop"
)

// Before is the client with failsafe-go.
func Before(base string, wire http.RoundTripper) shop.Client {
	retry := failsafehttp.NewRetryPolicyBuilder().
		WithMaxAttempts(3).
		WithBackoff(100*time.Millisecond, time.Second).
		WithJitterFactor(0.25).
		Build()
	breaker := circuitbreaker.NewBuilder[*http.Response]().
		HandleIf(func(resp *http.Response, err error) bool { return err != nil || resp.StatusCode >= 500 }).
		WithFailureRateThreshold(0.5, 20, 10*time.Second).
		WithDelay(5 * time.Second).
		Build()
	attempt := timeout.New[*http.Response](time.Second)

	client := &http.Client{Transport: failsafehttp.NewRoundTripper(wire, retry, breaker, attempt)}
	return shop.HTTP{Base: base, Doer: client}
}
