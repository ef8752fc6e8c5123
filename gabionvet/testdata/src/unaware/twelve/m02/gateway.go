package m02

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

type request struct {
	method, path string
	payload      any
}

type Gateway struct {
	url  string
	user string
	pass string
	http *http.Client
}

type Payment struct {
	Invoice string `json:"invoice"`
	Cents   int64  `json:"cents"`
	IBAN    string `json:"iban"`
}

func (g *Gateway) Pay(ctx context.Context, p Payment) error {
	return g.send(ctx, request{http.MethodPost, "/payments", p})
}

func (g *Gateway) send(ctx context.Context, r request) error {
	var last error
	for n := range 4 {
		if n > 0 {
			t := time.NewTimer(time.Duration(n) * 250 * time.Millisecond)
			select {
			case <-t.C:
			case <-ctx.Done():
				t.Stop()
				return ctx.Err()
			}
		}
		hr, err := g.build(ctx, r)
		if err != nil {
			return err
		}
		resp, err := g.http.Do(hr)
		if err != nil {
			last = err
			continue
		}
		resp.Body.Close()
		if resp.StatusCode < 500 {
			return check(resp.StatusCode)
		}
		last = check(resp.StatusCode)
	}
	return last
}

func (g *Gateway) build(ctx context.Context, r request) (*http.Request, error) {
	raw, err := json.Marshal(r.payload)
	if err != nil {
		return nil, err
	}
	hr, err := http.NewRequestWithContext(ctx, r.method, g.url+r.path, bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	hr.SetBasicAuth(g.user, g.pass)
	if r.method == http.MethodPost {
		hr.Header.Set("Idempotency-Key", nonce())
	}
	return hr, nil
}

func nonce() string {
	b := make([]byte, 16)
	if _, err := rand.Read(b); err != nil {
		panic(err)
	}
	return hex.EncodeToString(b)
}

func check(status int) error {
	if status >= 300 {
		return fmt.Errorf("gateway answered %d", status)
	}
	return nil
}
