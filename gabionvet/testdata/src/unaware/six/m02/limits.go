// Package m02 waits as long as a server asks.
//
// Mistake: the error of Atoi is dropped. Retry-After may be a date, which
// becomes a wait of 0: the server is asked again at once, in a hot loop.
package m02

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"
)

func Fetch(ctx context.Context, client *http.Client, url string) ([]byte, error) {
	for attempt := 0; attempt < 5; attempt++ {
		body, wait, err := fetch(ctx, client, url)
		if err != nil {
			return nil, err
		}
		if body != nil {
			return body, nil
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil, ctx.Err()
		case <-timer.C:
		}
	}
	return nil, fmt.Errorf("fetch %s: too many requests", url)
}

func fetch(ctx context.Context, client *http.Client, url string) ([]byte, time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, 0, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, 0, err
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusOK:
		body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
		return body, 0, err
	case http.StatusTooManyRequests:
		seconds, _ := strconv.Atoi(resp.Header.Get("Retry-After"))
		return nil, time.Duration(seconds) * time.Second, nil
	default:
		return nil, 0, fmt.Errorf("fetch: %s", resp.Status)
	}
}
