package m04

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"
)

func WithRetry[T any](ctx context.Context, max int, op func(context.Context) (T, error)) (T, error) {
	var zero T
	var last error
	for i := 0; i < max; i++ {
		v, err := op(ctx)
		if err == nil {
			return v, nil
		}
		last = err
		select {
		case <-ctx.Done():
			return zero, ctx.Err()
		case <-time.After(rand.N(time.Duration(1<<i) * 100 * time.Millisecond)):
		}
	}
	return zero, last
}

type Label struct{ Tracking string }

type Shipping struct{ hc *http.Client }

func (s *Shipping) createLabel(ctx context.Context, order string) (Label, error) {
	var l Label
	b, _ := json.Marshal(map[string]string{"order": order})
	req, err := http.NewRequestWithContext(ctx, "POST", "https://ship.example.com/labels", bytes.NewReader(b))
	if err != nil {
		return l, err
	}
	resp, err := s.hc.Do(req)
	if err != nil {
		return l, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != 201 {
		return l, fmt.Errorf("label: %s", resp.Status)
	}
	return l, json.NewDecoder(resp.Body).Decode(&l)
}

func (s *Shipping) Label(ctx context.Context, order string) (Label, error) {
	return WithRetry(ctx, 3, func(ctx context.Context) (Label, error) {
		return s.createLabel(ctx, order)
	})
}
