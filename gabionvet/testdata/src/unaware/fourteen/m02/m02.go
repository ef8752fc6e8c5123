package m02

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"time"
)

var errQuoteRejected = errors.New("quote rejected")

type quoteClient struct {
	hc             *http.Client
	base           string
	attempts       int
	attemptTimeout time.Duration
}

type quoteOption func(*quoteClient)

func withAttemptTimeout(d time.Duration) quoteOption {
	return func(c *quoteClient) { c.attemptTimeout = d }
}

func newQuoteClient(base string, opts ...quoteOption) *quoteClient {
	c := &quoteClient{hc: &http.Client{Timeout: 10 * time.Second}, base: base, attempts: 3, attemptTimeout: time.Second}
	for _, o := range opts {
		o(c)
	}
	return c
}

func (c *quoteClient) Quote(ctx context.Context, sku string) (cents int64, err error) {
	// WRONG: the per-attempt timeout starts once for all attempts; after one slow answer every retry is dead before it is sent
	actx, cancel := context.WithTimeout(ctx, c.attemptTimeout)
	defer cancel()
	for i := range c.attempts {
		if i > 0 {
			if perr := quotePause(ctx, i); perr != nil {
				return 0, errors.Join(err, perr)
			}
		}
		if cents, err = c.fetch(actx, sku); err == nil || errors.Is(err, errQuoteRejected) {
			return cents, err
		}
	}
	return 0, fmt.Errorf("quote %s after %d attempts: %w", sku, c.attempts, err)
}

// RIGHT
func (c *quoteClient) QuoteEach(ctx context.Context, sku string) (cents int64, err error) {
	attempt := func() (int64, error) {
		actx, cancel := context.WithTimeout(ctx, c.attemptTimeout)
		defer cancel()
		return c.fetch(actx, sku)
	}
	for i := range c.attempts {
		if i > 0 {
			if perr := quotePause(ctx, i); perr != nil {
				return 0, errors.Join(err, perr)
			}
		}
		if cents, err = attempt(); err == nil || errors.Is(err, errQuoteRejected) {
			return cents, err
		}
	}
	return 0, fmt.Errorf("quote %s after %d attempts: %w", sku, c.attempts, err)
}

func quotePause(ctx context.Context, n int) error {
	t := time.NewTimer(time.Duration(n)*100*time.Millisecond + rand.N(100*time.Millisecond))
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *quoteClient) fetch(ctx context.Context, sku string) (int64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+"/quotes/"+url.PathEscape(sku), nil)
	if err != nil {
		return 0, err
	}
	resp, err := c.hc.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 == 4 && resp.StatusCode != http.StatusTooManyRequests {
		return 0, fmt.Errorf("%w: %s", errQuoteRejected, resp.Status)
	}
	if resp.StatusCode != http.StatusOK {
		return 0, errors.New(resp.Status)
	}
	var out struct {
		Cents int64 `json:"cents"`
	}
	err = json.NewDecoder(io.LimitReader(resp.Body, 1<<20)).Decode(&out)
	return out.Cents, err
}
