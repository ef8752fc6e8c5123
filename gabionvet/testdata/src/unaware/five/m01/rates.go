// Package m01 fetches exchange rates.
//
// Mistake: the sync.Once keeps the first failure. A rates server that is down
// for a second at the first call is down for this process for good.
package m01

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
)

type Rates struct {
	client *http.Client
	url    string

	once  sync.Once
	table map[string]float64
	err   error
}

func (r *Rates) Table(ctx context.Context) (map[string]float64, error) {
	r.once.Do(func() {
		r.table, r.err = r.load(ctx)
	})
	return r.table, r.err
}

func (r *Rates) load(ctx context.Context) (map[string]float64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := r.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("rates: %s", resp.Status)
	}
	var table map[string]float64
	if err := json.NewDecoder(resp.Body).Decode(&table); err != nil {
		return nil, err
	}
	return table, nil
}
