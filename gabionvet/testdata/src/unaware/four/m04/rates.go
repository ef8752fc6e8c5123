// Package p04 reads exchange rates from the central bank's feed.
package m04

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

type Rates map[string]float64

type Options struct {
	Base   string
	PerTry time.Duration // how long one request may take
	Total  time.Duration // how long a caller may be kept waiting
	Tries  int
}

type Feed struct {
	Options
	http *http.Client
}

func New(o Options) *Feed {
	if o.PerTry <= 0 {
		o.PerTry = 1500 * time.Millisecond
	}
	if o.Total <= 0 {
		o.Total = 8 * time.Second
	}
	if o.Tries <= 0 || o.Tries > 4 {
		o.Tries = 4
	}
	return &Feed{Options: o, http: &http.Client{}}
}

// Latest returns today's rates of a currency.
func (f *Feed) Latest(ctx context.Context, currency string) (Rates, error) {
	ctx, cancel := context.WithTimeout(ctx, f.PerTry)
	defer cancel()
	return f.persist(ctx, func(ctx context.Context) (Rates, error) {
		return f.fetch(ctx, "/latest?base="+url.QueryEscape(currency))
	})
}

// On returns the rates of an earlier day. The archive is slow on a cold cache.
func (f *Feed) On(ctx context.Context, day time.Time, currency string) (Rates, error) {
	ctx, cancel := context.WithTimeout(ctx, f.Total)
	defer cancel()
	return f.persist(ctx, func(ctx context.Context) (Rates, error) {
		ctx, cancel := context.WithTimeout(ctx, f.PerTry)
		defer cancel()
		return f.fetch(ctx, "/"+day.Format(time.DateOnly)+"?base="+url.QueryEscape(currency))
	})
}

// persist asks again after failures that are over soon, while ctx lasts.
func (f *Feed) persist(ctx context.Context, get func(context.Context) (Rates, error)) (Rates, error) {
	var failures []error
	for n := range f.Tries {
		if n > 0 {
			select {
			case <-time.After(rand.N(150 * time.Millisecond << n)):
			case <-ctx.Done():
				return nil, errors.Join(append(failures, ctx.Err())...)
			}
		}
		rates, err := get(ctx)
		if err == nil {
			return rates, nil
		}
		failures = append(failures, err)
		if !passing(err) {
			break
		}
	}
	return nil, errors.Join(failures...)
}

func (f *Feed) fetch(ctx context.Context, path string) (Rates, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, f.Base+path, nil)
	if err != nil {
		return nil, err
	}
	resp, err := f.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, statusError(resp.StatusCode)
	}
	var answer struct{ Rates Rates }
	if err := json.NewDecoder(io.LimitReader(resp.Body, 1<<20)).Decode(&answer); err != nil {
		return nil, fmt.Errorf("rates: %w", err)
	}
	return answer.Rates, nil
}

type statusError int

func (e statusError) Error() string { return "rates: " + http.StatusText(int(e)) }

func passing(err error) bool {
	var status statusError
	if errors.As(err, &status) {
		return status == http.StatusBadGateway || status == http.StatusGatewayTimeout
	}
	var lost *url.Error
	return errors.As(err, &lost) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, io.ErrUnexpectedEOF)
}
