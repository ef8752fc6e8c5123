package shadow

import (
	"context"
	"math/rand/v2"
	"net/http"
	"time"
)

func Head(ctx context.Context, hc *http.Client, url string) (http.Header, error) {
	var err error
	for i := range 5 {
		req, rerr := http.NewRequestWithContext(ctx, http.MethodHead, url, nil)
		if rerr != nil {
			return nil, rerr
		}
		resp, err := hc.Do(req)
		if err == nil {
			resp.Body.Close()
			return resp.Header, nil
		}
		time.Sleep(rand.N(100 * time.Millisecond << i))
	}
	return nil, err
}
