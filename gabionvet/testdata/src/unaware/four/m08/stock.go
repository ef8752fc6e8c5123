// Package p08 answers whether a product is in stock.
package m08

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/gabionhttp"
	"github.com/gabion-go/gabion/policy"
)

type Levels interface {
	Level(ctx context.Context, sku string) (int, error)
}

type Stock struct {
	levels  Levels
	history *warehouse
	fresh   *gabion.Dependency
	reports *gabion.Dependency
}

func New(base string) *Stock {
	client := &http.Client{Transport: &patient{next: http.DefaultTransport, tries: 4}}
	return &Stock{
		levels:  &warehouse{base: base, http: client},
		history: &warehouse{base: base + "/archive", http: client},
		fresh: gabion.New("warehouse", policy.Policy{
			Timeout: policy.Timeout{Call: 6 * time.Second, Attempt: 2 * time.Second},
		}),
		reports: gabion.New("warehouse-archive", policy.Policy{
			Timeout: policy.Timeout{Call: 20 * time.Second},
			Retry:   policy.Retry{Attempts: 1},
		}),
	}
}

// Available reports whether n pieces can be sold right now.
func (s *Stock) Available(ctx context.Context, sku string, n int) (bool, error) {
	level, err := gabion.Do(ctx, s.fresh, func(ctx context.Context) (int, error) {
		return s.levels.Level(ctx, sku)
	}, gabion.WithIdempotent(), gabion.WithOperation("level"))
	if err != nil {
		return false, fmt.Errorf("stock of %s: %w", sku, err)
	}
	return level >= n, nil
}

// Yesterday returns what was in stock at midnight.
func (s *Stock) Yesterday(ctx context.Context, sku string) (int, error) {
	return gabion.Do(ctx, s.reports, func(ctx context.Context) (int, error) {
		return s.history.Level(ctx, sku)
	}, gabion.WithOperation("history"))
}

type warehouse struct {
	base string
	http *http.Client
}

func (w *warehouse) Level(ctx context.Context, sku string) (int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, w.base+"/levels/"+url.PathEscape(sku), nil)
	if err != nil {
		return 0, err
	}
	resp, err := w.http.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return 0, &gabionhttp.StatusError{Code: resp.StatusCode}
	}
	var answer struct{ Pieces int }
	err = json.NewDecoder(io.LimitReader(resp.Body, 1<<16)).Decode(&answer)
	return answer.Pieces, err
}

// patient is a transport for restarts of the warehouse's gateway. It is for requests
// without a body.
type patient struct {
	next  http.RoundTripper
	tries int
}

func (p *patient) RoundTrip(req *http.Request) (*http.Response, error) {
	for n := 1; ; n++ {
		resp, err := p.next.RoundTrip(req)
		if req.Method != http.MethodGet || n == p.tries || !restarting(resp, err) {
			return resp, err
		}
		if resp != nil {
			_, _ = io.CopyN(io.Discard, resp.Body, 4<<10)
			resp.Body.Close()
		}
		t := time.NewTimer(rand.N(50 * time.Millisecond << n))
		select {
		case <-t.C:
		case <-req.Context().Done():
			t.Stop()
			return nil, req.Context().Err()
		}
	}
}

func restarting(resp *http.Response, err error) bool {
	return err != nil || resp.StatusCode == http.StatusBadGateway || resp.StatusCode == http.StatusGatewayTimeout
}
