package limit

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"time"
)

type API struct{ hc *http.Client }

func (a *API) do(req *http.Request) (*http.Response, error) {
	for n := 0; n < 5; n++ {
		resp, err := a.hc.Do(req)
		if err != nil {
			return nil, err
		}
		switch resp.StatusCode {
		case http.StatusTooManyRequests, http.StatusServiceUnavailable:
			io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		default:
			return resp, nil
		}
		wait := time.Duration(n+1) * 500 * time.Millisecond
		select {
		case <-time.After(wait + rand.N(wait)):
		case <-req.Context().Done():
			return nil, req.Context().Err()
		}
	}
	return nil, fmt.Errorf("%s: still refused", req.URL)
}

func (a *API) Items(ctx context.Context) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, "GET", "https://api.example/items", nil)
	if err != nil {
		return nil, err
	}
	return a.do(req)
}
