package m05

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"time"
)

func withBackoff(ctx context.Context, do func() (*http.Response, error)) (*http.Response, error) {
	delay := 50 * time.Millisecond
	for {
		resp, err := do()
		if err != nil {
			return nil, err
		}
		if resp.StatusCode != http.StatusServiceUnavailable && resp.StatusCode != http.StatusTooManyRequests {
			return resp, nil
		}
		if delay > 5*time.Second {
			return nil, fmt.Errorf("still %s", resp.Status)
		}
		select {
		case <-time.After(rand.N(delay)):
			delay *= 2
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func Feed(ctx context.Context, hc *http.Client, url string) ([]byte, error) {
	resp, err := withBackoff(ctx, func() (*http.Response, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return nil, err
		}
		return hc.Do(req)
	})
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return io.ReadAll(resp.Body)
}
