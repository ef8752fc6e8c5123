package m03

import (
	"math/rand/v2"
	"net/http"
	"time"
)

// Retrying sends each request up to three times.
type Retrying struct {
	Next http.RoundTripper
}

func (t *Retrying) RoundTrip(req *http.Request) (resp *http.Response, err error) {
	for i := 0; i < 3; i++ {
		resp, err = t.Next.RoundTrip(req)
		if err == nil && resp.StatusCode < 500 {
			return resp, nil
		}
		if i < 2 {
			if resp != nil {
				resp.Body.Close()
			}
			select {
			case <-req.Context().Done():
				return nil, req.Context().Err()
			case <-time.After(rand.N(time.Second)):
			}
		}
	}
	return resp, err
}
