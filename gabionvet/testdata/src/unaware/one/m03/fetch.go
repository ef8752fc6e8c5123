package m03

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand"
	"net/http"
	"time"
)

type Product struct{ SKU, Title string }

func Fetch(ctx context.Context, hc *http.Client, url string) (*Product, error) {
	var lastErr error
	for i := 0; i < 5; i++ {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return nil, err
		}
		resp, err := hc.Do(req)
		if err == nil && resp.StatusCode == 200 {
			defer resp.Body.Close()
			var p Product
			if err := json.NewDecoder(resp.Body).Decode(&p); err != nil {
				return nil, err
			}
			return &p, nil
		}
		if err != nil {
			lastErr = err
		} else {
			lastErr = fmt.Errorf("unexpected status %d", resp.StatusCode)
		}
		wait := time.Duration(rand.Int63n(int64(time.Second)))
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return nil, lastErr
}
