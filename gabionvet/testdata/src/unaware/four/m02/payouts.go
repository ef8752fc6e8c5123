// Package p02 sends payouts to sellers through the bank's transfer API.
package m02

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	mrand "math/rand/v2"
	"net/http"
	"net/url"
	"time"
)

type Transfer struct {
	ID    string `json:"reference"`
	IBAN  string `json:"iban"`
	Cents int64  `json:"cents"`
}

type Confirmation struct {
	Number string `json:"number"`
}

type Bank struct {
	base   string
	secret string
	http   *http.Client
}

func NewBank(base, secret string) *Bank {
	return &Bank{base: base, secret: secret, http: &http.Client{Timeout: 10 * time.Second}}
}

// Send transfers money to a seller.
func (b *Bank) Send(ctx context.Context, t Transfer) (Confirmation, error) {
	var conf Confirmation
	err := b.repeat(ctx, func() error {
		req, err := b.request(ctx, "/transfers", t)
		if err != nil {
			return err
		}
		return b.do(req, &conf)
	})
	return conf, err
}

// Recall takes back a transfer that was not booked yet.
func (b *Bank) Recall(ctx context.Context, t Transfer) error {
	return b.repeat(ctx, func() error {
		req, err := b.request(ctx, "/transfers/"+url.PathEscape(t.ID)+"/recall", struct{}{})
		if err != nil {
			return err
		}
		req.Header.Set("Idempotency-Key", "recall-"+t.ID)
		return b.do(req, nil)
	})
}

// request prepares what all calls of the bank have in common.
func (b *Bank) request(ctx context.Context, path string, in any) (*http.Request, error) {
	payload, err := json.Marshal(in)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, b.base+path, bytes.NewReader(payload))
	if err != nil {
		return nil, err
	}
	req.SetBasicAuth("payouts", b.secret)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Request-Id", rand.Text())
	req.Header.Set("Idempotency-Key", rand.Text())
	return req, nil
}

var errTryAgain = errors.New("no answer from the bank")

func (b *Bank) do(req *http.Request, out any) error {
	resp, err := b.http.Do(req)
	if err != nil {
		return fmt.Errorf("%w: %w", errTryAgain, err)
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusOK, http.StatusCreated, http.StatusAccepted:
	case http.StatusBadGateway, http.StatusGatewayTimeout:
		return fmt.Errorf("%w: %s", errTryAgain, resp.Status)
	default:
		return fmt.Errorf("bank: %s", resp.Status)
	}
	if out == nil {
		return nil
	}
	return json.NewDecoder(io.LimitReader(resp.Body, 1<<20)).Decode(out)
}

// repeat runs f up to three times, for as long as the caller waits.
func (b *Bank) repeat(ctx context.Context, f func() error) error {
	wait := 250 * time.Millisecond
	for try := 1; ; try++ {
		err := f()
		if try == 3 || ctx.Err() != nil || !errors.Is(err, errTryAgain) {
			return err
		}
		select {
		case <-time.After(mrand.N(wait)):
			wait *= 2
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		}
	}
}
