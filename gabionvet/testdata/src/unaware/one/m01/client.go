package m01

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand"
	"net/http"
	"time"
)

type Client struct {
	http *http.Client
	base string
}

type Payment struct {
	OrderID string
	Cents   int64
}

func retry(ctx context.Context, attempts int, f func() error) error {
	var err error
	for i := 0; i < attempts; i++ {
		if err = f(); err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Duration(rand.Int63n(int64(100*time.Millisecond) << i))):
		}
	}
	return fmt.Errorf("giving up after %d attempts: %w", attempts, err)
}

func (c *Client) Charge(ctx context.Context, p Payment) error {
	data, err := json.Marshal(p)
	if err != nil {
		return err
	}
	return retry(ctx, 4, func() error {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+"/charges", bytes.NewReader(data))
		if err != nil {
			return err
		}
		resp, err := c.http.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode >= 500 {
			return fmt.Errorf("charge: %s", resp.Status)
		}
		return nil
	})
}
