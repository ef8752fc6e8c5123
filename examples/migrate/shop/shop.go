// Package shop is the small shop that every program of examples/migrate calls: the
// client that a program makes of it, a server that fails on request, and the questions that are put
// to both programs of a migration.
package shop

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
)

// Client is what a program knows of the shop. It must be safe for concurrent use.
type Client interface {
	// Price asks for a price with a GET.
	Price(ctx context.Context, item string) (string, error)

	// Charge charges an order with a POST. The key is sent as its Idempotency-Key, if it
	// is not empty.
	Charge(ctx context.Context, order, key string) error
}

// OnRequest is what a Price is while the shop can't be asked, for programs that have a
// fallback.
const OnRequest = "on request"

// HTTP is a Client of any http.Client: the part of a program that does not change.
type HTTP struct {
	Base string // the shop's URL, without a slash at its end
	Doer interface {
		Do(*http.Request) (*http.Response, error)
	}
}

// Price implements Client.
func (h HTTP) Price(ctx context.Context, item string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, h.Base+"/price/"+item, nil)
	if err != nil {
		return "", err
	}
	return Answer(h.Doer.Do(req))
}

// Charge implements Client.
func (h HTTP) Charge(ctx context.Context, order, key string) error {
	req, err := NewCharge(ctx, h.Base, order, key)
	if err != nil {
		return err
	}
	_, err = Answer(h.Doer.Do(req))
	return err
}

// NewCharge makes the request of a Charge.
func NewCharge(ctx context.Context, base, order, key string) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/charges/"+order, bytes.NewReader([]byte("5 EUR")))
	if err == nil && key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	return req, err
}

// StatusError is an answer other than 200.
type StatusError struct {
	Code       int
	RetryAfter string // the header
	Body       string
}

// Error says the status and what the shop wrote.
func (e *StatusError) Error() string { return fmt.Sprintf("%d: %s", e.Code, e.Body) }

// Answer reads and closes an answer. One other than 200 is a *StatusError.
func Answer(resp *http.Response, err error) (string, error) {
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<16))
	if err != nil {
		return "", err
	}
	if resp.StatusCode != http.StatusOK {
		return "", &StatusError{Code: resp.StatusCode, RetryAfter: resp.Header.Get("Retry-After"), Body: string(body)}
	}
	return string(body), nil
}
