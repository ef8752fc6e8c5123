package m06

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"net/http"
	"time"
)

type Forecast struct {
	Temp float64
	Rain float64
}

type Weather struct {
	url string
	hc  *http.Client
}

var errUnavailable = errors.New("weather: not available")

func (w *Weather) Forecast(ctx context.Context, city string) (f Forecast, err error) {
	for n := 0; n < 4; n++ {
		if n > 0 {
			select {
			case <-time.After(rand.N(time.Duration(n) * 200 * time.Millisecond)):
			case <-ctx.Done():
				return f, ctx.Err()
			}
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, w.url+"?city="+city, nil)
		if err != nil {
			return f, err
		}
		resp, err := w.hc.Do(req)
		if err != nil {
			continue
		}
		if resp.StatusCode == http.StatusServiceUnavailable || resp.StatusCode == http.StatusBadGateway {
			continue
		}
		err = json.NewDecoder(resp.Body).Decode(&f)
		resp.Body.Close()
		return f, err
	}
	return f, errUnavailable
}
