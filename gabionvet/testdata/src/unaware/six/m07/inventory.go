// Package m07 counts what is in a warehouse.
//
// Mistake: two layers try again, each three times: nine calls to a server that
// is down.
package m07

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"
)

type Warehouse struct {
	client *http.Client
	base   string
}

func (w *Warehouse) Count(ctx context.Context, skus []string) (int, error) {
	var err error
	for attempt := 1; attempt <= 3; attempt++ {
		var n int
		n, err = w.count(ctx, skus)
		if err == nil {
			return n, nil
		}
		if stop := pause(ctx, 500*time.Millisecond); stop != nil {
			return 0, stop
		}
	}
	return 0, err
}

func (w *Warehouse) count(ctx context.Context, skus []string) (int, error) {
	n := 0
	for _, sku := range skus {
		ok, err := w.has(ctx, sku)
		if err != nil {
			return 0, err
		}
		if ok {
			n++
		}
	}
	return n, nil
}

func (w *Warehouse) has(ctx context.Context, sku string) (bool, error) {
	var err error
	for attempt := 1; attempt <= 3; attempt++ {
		var status int
		status, err = w.head(ctx, sku)
		if err == nil && status < 500 {
			return status == http.StatusOK, nil
		}
		if err == nil {
			err = fmt.Errorf("has %s: %d", sku, status)
		}
		if stop := pause(ctx, 100*time.Millisecond); stop != nil {
			return false, stop
		}
	}
	return false, err
}

func (w *Warehouse) head(ctx context.Context, sku string) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodHead, w.base+"/skus/"+sku, nil)
	if err != nil {
		return 0, err
	}
	resp, err := w.client.Do(req)
	if err != nil {
		return 0, err
	}
	resp.Body.Close()
	return resp.StatusCode, nil
}

func pause(ctx context.Context, most time.Duration) error {
	timer := time.NewTimer(rand.N(most))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
