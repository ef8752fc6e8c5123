// Package mistakes holds what a rule must find, and what it must not, beyond the pages.
package mistakes

import (
	"context"
	"io"
	"net/http"
	"time"
)

type store interface {
	Save(ctx context.Context) error
}

// A channel that says that the program ends is a bound.
func untilTheEnd(s store, quit chan struct{}, tick chan struct{}) {
	for {
		select {
		case <-quit:
			return
		case <-tick:
			if err := s.Save(context.Background()); err != nil {
				continue
			}
			return
		}
	}
}

// A loop that consumes is no retry, nor is one that waits for a state.
func consumes(s store, done func() bool) error {
	for {
		if err := s.Save(context.Background()); err != nil {
			time.Sleep(time.Second)
			continue
		}
		if done() {
			return nil
		}
	}
}

// Write closes the body.
func copies(c *http.Client, req *http.Request, w io.Writer) error {
	resp, err := c.Do(req)
	if err != nil {
		return err
	}
	return resp.Write(w)
}

//gabion:ignore G125 // want `G190: this comment ignores nothing, since it has no reason`
var _ = 0

//gabion:ignore G125 there was a call // want `G191: G125 finds nothing here any more`
var _ = 1

//gabion:ignore G199 who knows // want `G191: there is no rule G199`
var _ = 2

//gabion:ignore G012 a rule of gabion lint
var _ = 3

// A client of one's own may be for this one answer: draining would save no connection.
func login(ctx context.Context, t http.RoundTripper) error {
	c := &http.Client{Transport: t, Timeout: time.Second}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://a.example", nil)
	if err != nil {
		return err
	}
	resp, err := c.Do(req)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}
