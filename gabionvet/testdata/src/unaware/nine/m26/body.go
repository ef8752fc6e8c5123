package body

import (
	"context"
	"encoding/csv"
	"io"
	"net/http"
	"time"
)

type source struct{ hc *http.Client }

func (s *source) open(ctx context.Context, url string) (io.ReadCloser, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := s.hc.Do(req)
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}

func (s *source) Rows(ctx context.Context, url string) ([][]string, error) {
	b, err := s.open(ctx, url)
	if err != nil {
		return nil, err
	}
	defer b.Close()
	return csv.NewReader(b).ReadAll()
}
