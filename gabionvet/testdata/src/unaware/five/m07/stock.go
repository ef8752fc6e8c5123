// Package m07 asks for stock behind a circuit breaker.
//
// Mistake: the breaker is made in each call, so it has never seen a failure
// and never opens.
package m07

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/sony/gobreaker"
)

type Stock struct {
	client *http.Client
	base   string
}

func (s *Stock) breaker() *gobreaker.CircuitBreaker {
	return gobreaker.NewCircuitBreaker(gobreaker.Settings{
		Name:    "stock",
		Timeout: 30 * time.Second,
	})
}

func (s *Stock) Reserve(ctx context.Context, sku string) error {
	_, err := s.breaker().Execute(func() (interface{}, error) {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodPut, s.base+"/reservations/"+sku, nil)
		if err != nil {
			return nil, err
		}
		resp, err := s.client.Do(req)
		if err != nil {
			return nil, err
		}
		defer resp.Body.Close()
		if resp.StatusCode >= 300 {
			return nil, fmt.Errorf("reserve %s: %s", sku, resp.Status)
		}
		return nil, nil
	})
	return err
}
