package m05

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"time"
)

var errGaveUp = errors.New("refund: gave up")

func Refund(ctx context.Context, hc *http.Client, url string, body []byte) error {
	for attempt := 0; attempt < 4; attempt++ {
		req, err := http.NewRequestWithContext(ctx, "POST", url, bytes.NewReader(body))
		if err != nil {
			return err
		}
		req.Header.Set("Idempotency-Key", requestID())
		resp, err := hc.Do(req)
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode < 300 {
				return nil
			}
			if resp.StatusCode < 500 {
				return errors.New(resp.Status)
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second << attempt):
		}
	}
	return errGaveUp
}
