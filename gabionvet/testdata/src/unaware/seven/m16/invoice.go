package m16

import (
	"context"
	"fmt"
	"net/http"
	"time"
)

func Invoice(ctx context.Context, hc *http.Client, url string) (*http.Response, error) {
	var last error
	for i := 0; i < 4; i++ {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return nil, err
		}
		resp, err := hc.Do(req)
		if err != nil {
			last = err
		} else if resp.StatusCode == http.StatusOK {
			return resp, nil
		} else {
			resp.Body.Close()
			last = fmt.Errorf("status %d", resp.StatusCode)
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(time.Duration(i+1) * time.Second):
		}
	}
	return nil, last
}
