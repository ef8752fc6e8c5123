// Package m09 reads feeds that others publish.
//
// Mistake: the whole answer is read, whatever its size. A feed that never ends
// takes the memory of the process.
package m09

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"
)

type Reader struct {
	client *http.Client
}

func (r *Reader) Feed(ctx context.Context, url string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := r.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("feed %s: %s", url, resp.Status)
	}
	return io.ReadAll(resp.Body)
}
