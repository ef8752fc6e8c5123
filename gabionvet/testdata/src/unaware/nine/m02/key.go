package key

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"
)

func retry[T any](ctx context.Context, n int, f func(context.Context) (T, error)) (v T, err error) {
	for i := range n {
		if v, err = f(ctx); err == nil {
			return v, nil
		}
		select {
		case <-ctx.Done():
			return v, ctx.Err()
		case <-time.After(rand.N(time.Duration(i+1) * time.Second)):
		}
	}
	return v, err
}

type gateway struct{ hc *http.Client }

func (g gateway) build(ctx context.Context, body string) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, "POST", "https://pay.example/v1/charges", strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Idempotency-Key", uuid.NewString())
	return req, nil
}

func (g gateway) send(ctx context.Context, body string) (string, error) {
	req, err := g.build(ctx, body)
	if err != nil {
		return "", err
	}
	resp, err := g.hc.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	if resp.StatusCode >= 500 {
		return "", errors.New(resp.Status)
	}
	return resp.Header.Get("Location"), nil
}

func (g gateway) Charge(ctx context.Context, body string) (string, error) {
	return retry(ctx, 3, func(ctx context.Context) (string, error) { return g.send(ctx, body) })
}
