// Package p01 talks to the refund API of the card acquirer.
package m01

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"time"
)

const maxTries = 3

type Refund struct {
	ID       string `json:"id"`
	ChargeID string `json:"charge_id"`
	Cents    int64  `json:"cents"`
}

type Receipt struct {
	Number string `json:"number"`
	State  string `json:"state"`
}

type Client struct {
	base  string
	token string
	http  *http.Client
}

func New(base, token string) *Client {
	return &Client{base: base, token: token, http: &http.Client{Timeout: 8 * time.Second}}
}

// Create asks for a refund. The acquirer deduplicates by the refund's own ID.
func (c *Client) Create(ctx context.Context, r Refund) (Receipt, error) {
	payload, err := json.Marshal(r)
	if err != nil {
		return Receipt{}, fmt.Errorf("encode refund %s: %w", r.ID, err)
	}
	var out Receipt
	err = c.send(ctx, http.MethodPost, "/v2/refunds", bytes.NewReader(payload), r.ID, &out)
	return out, err
}

// Get reads a refund back.
func (c *Client) Get(ctx context.Context, id string) (Receipt, error) {
	var out Receipt
	err := c.send(ctx, http.MethodGet, "/v2/refunds/"+url.PathEscape(id), nil, "", &out)
	return out, err
}

// Explain uploads the case file of a disputed refund, which is JSON. It is not repeated
// here: the back office tries again from its own list.
func (c *Client) Explain(ctx context.Context, id string, file io.Reader) error {
	return c.once(ctx, http.MethodPost, "/v2/refunds/"+url.PathEscape(id)+"/explanation", file, "", nil)
}

func (c *Client) send(ctx context.Context, method, path string, body io.Reader, key string, out any) error {
	var last error
	for n := range maxTries {
		if n > 0 {
			if err := pause(ctx, n); err != nil {
				return errors.Join(err, last)
			}
		}
		last = c.once(ctx, method, path, body, key, out)
		var lost *lostError
		if last == nil || !errors.As(last, &lost) {
			return last
		}
	}
	return fmt.Errorf("%s %s: gave up after %d tries: %w", method, path, maxTries, last)
}

func (c *Client) once(ctx context.Context, method, path string, body io.Reader, key string, out any) error {
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, body)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+c.token)
	req.Header.Set("Content-Type", "application/json")
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return err
		}
		return &lostError{err}
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode == http.StatusBadGateway || resp.StatusCode == http.StatusGatewayTimeout:
		return &lostError{fmt.Errorf("acquirer: %s", resp.Status)}
	case resp.StatusCode >= 300:
		return fmt.Errorf("acquirer: %s", resp.Status)
	case out == nil:
		return nil
	}
	return json.NewDecoder(io.LimitReader(resp.Body, 1<<20)).Decode(out)
}

// lostError is a failure that another try may cure.
type lostError struct{ error }

func (e *lostError) Unwrap() error { return e.error }

func pause(ctx context.Context, n int) error {
	t := time.NewTimer(rand.N(200 * time.Millisecond << n))
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
