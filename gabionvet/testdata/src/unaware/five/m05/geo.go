// Package m05 looks addresses up.
//
// Mistake: the jitter comes from a source with a constant seed. Every process
// draws the same waits, so all of them come back at the same moments.
package m05

import (
	"context"
	"fmt"
	"io"
	"math/rand"
	"net/http"
	"time"
)

var jitter = rand.New(rand.NewSource(1))

func Lookup(ctx context.Context, client *http.Client, url string) ([]byte, error) {
	var last error
	wait := 100 * time.Millisecond
	for attempt := 0; attempt < 4; attempt++ {
		if attempt > 0 {
			timer := time.NewTimer(time.Duration(jitter.Int63n(int64(wait))))
			select {
			case <-ctx.Done():
				timer.Stop()
				return nil, ctx.Err()
			case <-timer.C:
			}
			wait *= 2
		}
		body, again, err := lookup(ctx, client, url)
		if err == nil {
			return body, nil
		}
		last = err
		if !again {
			break
		}
	}
	return nil, last
}

func lookup(ctx context.Context, client *http.Client, url string) (body []byte, again bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, false, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, true, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, resp.StatusCode >= 500, fmt.Errorf("lookup: %s", resp.Status)
	}
	body, err = io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	return body, true, err
}
