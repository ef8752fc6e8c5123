package m13

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

type Config struct {
	Base    string
	Timeout time.Duration
	Retries int
}

type Client struct {
	cfg Config
	hc  *http.Client
}

func New(cfg Config) *Client {
	return &Client{cfg: cfg, hc: &http.Client{Timeout: cfg.Timeout}}
}

// Get reads path into out. It is done within five seconds, with up to three tries.
func (c *Client) Get(ctx context.Context, path string, out any) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	var err error
	for i := 0; i < 3; i++ {
		if err = c.once(ctx, path, out); err == nil {
			return nil
		}
		if i < 2 {
			wait(ctx, time.Duration(i+1)*100*time.Millisecond)
		}
	}
	return err
}

func (c *Client) once(ctx context.Context, path string, out any) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.cfg.Base+path, nil)
	if err != nil {
		return err
	}
	resp, err := c.hc.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode >= 500 {
		return fmt.Errorf("%s: %s", path, resp.Status)
	}
	return json.NewDecoder(resp.Body).Decode(out)
}

func wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
