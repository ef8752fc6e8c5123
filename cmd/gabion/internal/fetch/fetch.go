// Package fetch reads what a page of gabion, or an address of metrics, answers.
package fetch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"
)

// The bounds of an answer.
const (
	MaxBytes = 64 << 20
	MaxWait  = 30 * time.Second
)

// Get asks an address. The answer ends after MaxBytes and MaxWait; the caller closes it.
// Should says what to name instead when the address answers with anything but 200.
func Get(ctx context.Context, address, should string) (io.ReadCloser, error) {
	shown := address
	if u, err := url.Parse(address); err == nil {
		shown = u.Redacted() // it may have a password in it
	}
	ctx, cancel := context.WithTimeoutCause(ctx, MaxWait, fmt.Errorf("%s did not answer within %s", shown, MaxWait))
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		cancel()
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			err = context.Cause(ctx)
		}
		cancel()
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		resp.Body.Close()
		cancel()
		return nil, fmt.Errorf("%s answered %s: %s", shown, resp.Status, should)
	}
	return &answer{io.LimitReader(resp.Body, MaxBytes), resp.Body, cancel}, nil
}

// answer ends its request's time when it is closed.
type answer struct {
	io.Reader
	body   io.Closer
	cancel context.CancelFunc
}

// Close implements io.Closer.
func (a *answer) Close() error {
	defer a.cancel()
	return a.body.Close()
}
