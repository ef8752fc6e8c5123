package m02

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand"
	"net/http"
	"time"

	"github.com/google/uuid"
)

type Client struct {
	http *http.Client
	url  string
}

func (c *Client) newRequest(ctx context.Context, body []byte) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, "POST", c.url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", uuid.NewString())
	return req, nil
}

func (c *Client) Send(ctx context.Context, body []byte) error {
	for attempt := 0; attempt < 3; attempt++ {
		req, err := c.newRequest(ctx, body)
		if err != nil {
			return err
		}
		resp, err := c.http.Do(req)
		if err == nil {
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			if resp.StatusCode < 500 {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Duration(rand.Intn(200)) * time.Millisecond):
		}
	}
	return errors.New("payment provider is not available")
}
