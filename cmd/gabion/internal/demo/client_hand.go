package demo

import (
	"context"
	"net/http"
	"time"
)

// The hand-written loop, as it stands in many programs.
const (
	handTries   = 5
	handWait    = 200 * time.Millisecond
	handTimeout = time.Second
)

// newHand is the loop that people write: five tries, a fixed wait, a timeout for
// each, no budget, and no key.
func newHand(url string) client { return handWritten(url, "loop", false) }

// newKeyedHand is the same loop with the order's name as its key.
func newKeyedHand(url string) client { return handWritten(url, "keyed loop", true) }

// handWritten differs from what people write in one thing: ctx, by which the demo
// ends it when the run is over.
func handWritten(url, name string, keyed bool) client {
	transport := newTransport()
	web := &http.Client{Transport: transport, Timeout: handTimeout}
	charge := func(ctx context.Context, o Order) result {
		var last result
		for range handTries {
			req, err := newRequest(ctx, url, o, keyed)
			if err != nil {
				return result{reason: why(err)}
			}
			resp, err := web.Do(req)
			last = verdict(resp, err)
			finish(resp)
			if err == nil && resp.StatusCode < 500 {
				break
			}
			if !pause(handWait, ctx.Done()) {
				break
			}
		}
		return last
	}
	says := "for i := 0; i < 5; i++ { post with a timeout of 1 s; done unless an error or 5xx; sleep 200 ms }"
	if keyed {
		says = "the same loop, with the order as Idempotency-Key"
	}
	return client{name: name, keyed: keyed, setup: "by hand", charge: charge, close: transport.CloseIdleConnections, says: says}
}
