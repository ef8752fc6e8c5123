package m10

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"time"
)

type sender struct {
	hc *http.Client
}

func (s *sender) deliver(ctx context.Context, url, id string, payload *bytes.Buffer) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, io.TeeReader(payload, io.Discard))
	if err != nil {
		return err
	}
	req.Header.Set("Idempotency-Key", id)
	return s.send(ctx, req)
}

func (s *sender) send(ctx context.Context, req *http.Request) error {
	var last error
	for i := 0; i < 5; i++ {
		resp, err := s.hc.Do(req)
		if err == nil {
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			if resp.StatusCode < 500 {
				return nil
			}
			err = errors.New(resp.Status)
		}
		last = err
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
		}
	}
	return last
}
