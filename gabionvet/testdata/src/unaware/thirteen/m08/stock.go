package m08

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"
)

type api struct {
	base string
	hc   *http.Client
}

func (a *api) get(ctx context.Context, path string, out any) (err error) {
	for n := 0; n < 4; n++ {
		if err = a.once(ctx, path, out); err == nil {
			return nil
		}
		pause(ctx, n)
	}
	return err
}

func (a *api) once(ctx context.Context, path string, out any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, a.base+path, nil)
	if err != nil {
		return err
	}
	resp, err := a.hc.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode >= 500 {
		return fmt.Errorf("stock: %s", resp.Status)
	}
	return json.NewDecoder(resp.Body).Decode(out)
}

func pause(ctx context.Context, n int) {
	select {
	case <-time.After(rand.N(100 * time.Millisecond << n)):
	case <-ctx.Done():
	}
}

type Warehouse struct{ api *api }

type Level struct {
	SKU   string
	Count int
}

func (w *Warehouse) Level(ctx context.Context, sku string) (Level, error) {
	var l Level
	var err error
	for i := 0; i < 3; i++ {
		if err = w.api.get(ctx, "/levels/"+sku, &l); err == nil {
			break
		}
		pause(ctx, i)
	}
	return l, err
}
