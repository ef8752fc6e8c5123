package layers

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/cenkalti/backoff/v5"
)

type remote interface {
	Count(ctx context.Context, bucket string) (int, error)
}

type client struct{ hc *http.Client }

func (c *client) Count(ctx context.Context, bucket string) (n int, err error) {
	for i := 0; i < 3; i++ {
		if n, err = c.count(ctx, bucket); err == nil {
			return n, nil
		}
		select {
		case <-time.After(rand.N(time.Second << i)):
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	return 0, err
}

func (c *client) count(ctx context.Context, bucket string) (int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodHead, "https://store.example/"+bucket, nil)
	if err != nil {
		return 0, err
	}
	resp, err := c.hc.Do(req)
	if err != nil {
		return 0, err
	}
	resp.Body.Close()
	if resp.StatusCode >= 500 {
		return 0, errors.New(resp.Status)
	}
	return int(resp.ContentLength), nil
}

type Usage struct{ store remote }

func NewUsage(hc *http.Client) *Usage { return &Usage{store: &client{hc: hc}} }

func (u *Usage) Total(ctx context.Context, buckets []string) (sum int, err error) {
	for _, b := range buckets {
		n, err := backoff.Retry(ctx, func() (int, error) {
			return u.store.Count(ctx, b)
		}, backoff.WithMaxTries(3))
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}
