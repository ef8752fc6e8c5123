package pages

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"time"
)

func Page(ctx context.Context, hc *http.Client, url string) ([]byte, error) {
	err := errors.New("no attempt")
	for i := 0; i < 5 && err != nil; i++ {
		var req *http.Request
		if req, err = http.NewRequestWithContext(ctx, "GET", url, nil); err != nil {
			return nil, err
		}
		var resp *http.Response
		if resp, err = hc.Do(req); err != nil {
			time.Sleep(rand.N(time.Second << i))
			continue
		}
		defer resp.Body.Close()
		if resp.StatusCode >= 500 {
			err = errors.New(resp.Status)
			time.Sleep(rand.N(time.Second << i))
			continue
		}
		return io.ReadAll(resp.Body)
	}
	return nil, err
}
