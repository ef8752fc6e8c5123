package m04

import (
	"context"
	"fmt"
	"math/rand"
	"net/http"
	"strings"
	"time"
)

type Client struct {
	http *http.Client
	base string
}

func (c *Client) newRequest(ctx context.Context, path, body string) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("X-Request-Id", fmt.Sprintf("%x", rand.Int63()))
	req.Header.Set("Idempotency-Key", fmt.Sprintf("%d-%d", time.Now().UnixNano(), rand.Int63()))
	return req, nil
}

func (c *Client) Create(ctx context.Context, body string) error {
	var err error
	for attempt := 1; attempt <= 3; attempt++ {
		var req *http.Request
		if req, err = c.newRequest(ctx, "/subscriptions", body); err != nil {
			return err
		}
		var resp *http.Response
		resp, err = c.http.Do(req)
		if err != nil {
			wait(ctx, attempt)
			continue
		}
		resp.Body.Close()
		if resp.StatusCode >= 500 {
			err = fmt.Errorf("status %d", resp.StatusCode)
			wait(ctx, attempt)
			continue
		}
		return nil
	}
	return err
}

func wait(ctx context.Context, n int) {
	select {
	case <-ctx.Done():
	case <-time.After(time.Duration(n)*time.Second + time.Duration(rand.Int63n(1e9))):
	}
}
