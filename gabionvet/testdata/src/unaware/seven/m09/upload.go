package m09

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"
)

func Upload(ctx context.Context, hc *http.Client, url string, r io.Reader) error {
	last := errors.New("no attempt")
	for i := 0; i < 3; i++ {
		req, err := http.NewRequestWithContext(ctx, http.MethodPut, url, io.NopCloser(r))
		if err != nil {
			return err
		}
		resp, err := hc.Do(req)
		if err != nil {
			last = err
		} else {
			resp.Body.Close()
			if resp.StatusCode < 300 {
				return nil
			}
			last = errors.New(resp.Status)
		}
		t := time.NewTimer(time.Duration(i+1) * time.Second)
		select {
		case <-ctx.Done():
			t.Stop()
			return ctx.Err()
		case <-t.C:
		}
	}
	return last
}
