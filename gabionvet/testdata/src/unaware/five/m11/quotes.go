// Package m11 asks for quotes.
//
// Mistake: the timeout that is meant for an attempt is made once, before the
// loop. After the first attempt timed out, the second and third have no time
// left and fail at once.
package m11

import (
	"context"
	"fmt"
	"io"
	"math/rand"
	"net/http"
	"time"
)

const attemptTimeout = 800 * time.Millisecond

type Quotes struct {
	client *http.Client
	url    string
}

func (q *Quotes) Quote(ctx context.Context, symbol string) ([]byte, error) {
	attemptCtx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()

	var lastErr error
	for i := 0; i < 3; i++ {
		body, err := q.once(attemptCtx, symbol)
		if err == nil {
			return body, nil
		}
		lastErr = err
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(time.Duration(rand.Int63n(int64(100*time.Millisecond) << i))):
		}
	}
	return nil, fmt.Errorf("quote %s: %w", symbol, lastErr)
}

func (q *Quotes) once(ctx context.Context, symbol string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, q.url+"/"+symbol, nil)
	if err != nil {
		return nil, err
	}
	resp, err := q.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s", resp.Status)
	}
	return io.ReadAll(io.LimitReader(resp.Body, 64<<10))
}
