package m14

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"time"
)

type Catalog struct {
	hc  *http.Client
	url string
}

func (c *Catalog) get(ctx context.Context, path string) (*http.Response, error) {
	var last error
	for i := 0; i < 3; i++ {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url+path, nil)
		if err != nil {
			return nil, err
		}
		resp, err := c.hc.Do(req)
		if err == nil && resp.StatusCode < 500 {
			return resp, nil
		}
		if err == nil {
			resp.Body.Close()
			err = errors.New(resp.Status)
		}
		last = err
		if !pause(ctx, i) {
			return nil, ctx.Err()
		}
	}
	return nil, last
}

func (c *Catalog) Item(ctx context.Context, id string) (*http.Response, error) {
	var last error
	for i := 0; i < 4; i++ {
		resp, err := c.get(ctx, "/items/"+id)
		if err == nil {
			return resp, nil
		}
		last = err
		if !pause(ctx, i) {
			return nil, ctx.Err()
		}
	}
	return nil, last
}

func pause(ctx context.Context, i int) bool {
	t := time.NewTimer(time.Duration(i)*time.Second + rand.N(time.Second))
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
