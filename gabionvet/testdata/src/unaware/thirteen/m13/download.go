package m13

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"
)

type Fetcher struct {
	hc      *http.Client
	timeout time.Duration
}

// open asks for a file. It gives up when the server does not answer within the timeout.
func (f *Fetcher) open(ctx context.Context, url string) (*http.Response, error) {
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := f.hc.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		resp.Body.Close()
		return nil, fmt.Errorf("%s: %s", url, resp.Status)
	}
	return resp, nil
}

func (f *Fetcher) Save(ctx context.Context, url, name string) error {
	resp, err := f.open(ctx, url)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	out, err := os.Create(name)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, resp.Body); err != nil {
		out.Close()
		return err
	}
	return out.Close()
}
