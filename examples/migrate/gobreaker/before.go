// Package gobreaker is docs/migrate/gobreaker-backoff.md: the same client with
// sony/gobreaker and cenkalti/backoff, and with gabion.
package gobreaker

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/sony/gobreaker/v2"

	"github.com/gabion-go/gabion/examples/migrate/shop"
)

type before struct {
	base    string
	http    *http.Client
	breaker *gobreaker.CircuitBreaker[string]
}

// Before is the client with gobreaker and backoff.
func Before(base string, wire http.RoundTripper) shop.Client {
	return &before{
		base: base,
		http: &http.Client{Transport: wire, Timeout: time.Second},
		breaker: gobreaker.NewCircuitBreaker[string](gobreaker.Settings{
			Name:     "shop",
			Interval: 10 * time.Second,
			Timeout:  5 * time.Second,
			ReadyToTrip: func(c gobreaker.Counts) bool {
				return c.Requests >= 20 && float64(c.TotalFailures) >= 0.5*float64(c.Requests)
			},
		}),
	}
}

// Price implements shop.Client.
func (b *before) Price(ctx context.Context, item string) (string, error) {
	return b.do(ctx, func() (*http.Request, error) {
		return http.NewRequestWithContext(ctx, http.MethodGet, b.base+"/price/"+item, nil)
	})
}

// Charge implements shop.Client.
func (b *before) Charge(ctx context.Context, order, key string) error {
	_, err := b.do(ctx, func() (*http.Request, error) { return shop.NewCharge(ctx, b.base, order, key) })
	return err
}

func (b *before) do(ctx context.Context, request func() (*http.Request, error)) (string, error) {
	waits := backoff.NewExponentialBackOff()
	waits.InitialInterval, waits.MaxInterval = 100*time.Millisecond, time.Second

	return backoff.Retry(ctx, func() (string, error) {
		answer, err := b.breaker.Execute(func() (string, error) {
			req, err := request()
			if err != nil {
				return "", err
			}
			return shop.Answer(b.http.Do(req))
		})
		if errors.Is(err, gobreaker.ErrOpenState) {
			return "", backoff.Permanent(err)
		}
		if failed, ok := errors.AsType[*shop.StatusError](err); ok {
			if failed.Code < 500 && failed.Code != http.StatusTooManyRequests {
				return "", backoff.Permanent(err)
			}
			if seconds, err := strconv.Atoi(failed.RetryAfter); err == nil {
				return "", backoff.RetryAfter(seconds)
			}
		}
		return answer, err
	}, backoff.WithBackOff(waits), backoff.WithMaxTries(3))
}
