package transport

import (
	"context"
	"io"
	"net/http"
	"time"
)

type Crawler struct{ timeout time.Duration }

func (c *Crawler) client() *http.Client {
	tr := &http.Transport{}
	return &http.Client{Transport: tr, Timeout: c.timeout}
}

func (c *Crawler) Fetch(ctx context.Context, url string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := c.client().Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return io.ReadAll(resp.Body)
}
