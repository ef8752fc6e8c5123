package m13

import (
	"context"
	"io"
	"math/rand/v2"
	"net/http"
	"time"
)

type Quotes struct{ hc *http.Client }

func (q *Quotes) get(ctx context.Context, url string) (b []byte, err error) {
	for i := 0; i < 3; i++ {
		if b, err = q.read(ctx, url); err == nil || ctx.Err() != nil {
			return b, err
		}
		sleep(ctx, rand.N(50*time.Millisecond<<i))
	}
	return nil, err
}

func (q *Quotes) read(ctx context.Context, url string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := q.hc.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return io.ReadAll(resp.Body)
}

func (q *Quotes) Best(ctx context.Context, symbol string) (b []byte, err error) {
	for n := range 4 {
		b, err = q.get(ctx, "https://quotes.example.com/"+symbol)
		if err == nil || ctx.Err() != nil {
			break
		}
		sleep(ctx, rand.N(200*time.Millisecond<<n))
	}
	return b, err
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
