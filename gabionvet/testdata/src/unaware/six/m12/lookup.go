// Package m12 looks a name up with several attempts.
//
// Mistake: what is retried is decided by the words of the error. The words of
// another version, proxy or language are others, and "timeout" is also in the
// text of errors that are permanent.
package m12

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"
)

func Lookup(ctx context.Context, client *http.Client, url string) ([]byte, error) {
	var err error
	for attempt := 0; attempt < 3; attempt++ {
		var body []byte
		body, err = get(ctx, client, url)
		if err == nil {
			return body, nil
		}
		if !strings.Contains(err.Error(), "timeout") && !strings.Contains(err.Error(), "connection refused") {
			return nil, err
		}
		timer := time.NewTimer(rand.N(200 * time.Millisecond << attempt))
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil, ctx.Err()
		case <-timer.C:
		}
	}
	return nil, err
}

func get(ctx context.Context, client *http.Client, url string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("lookup: %s", resp.Status)
	}
	return io.ReadAll(io.LimitReader(resp.Body, 1<<20))
}
