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
// each, no budget, no key. It differs from what people write in one thing: ctx,
// by which the demo ends it when the run is over.
func newHand(url string) client {
	transport := newTransport()
	web := &http.Client{Transport: transport, Timeout: handTimeout}
	charge := func(ctx context.Context, o Order) result {
		var last result
		for range handTries {
			req, err := newRequest(ctx, url, o)
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
	return client{
		name: "hand-written", charge: charge, close: transport.CloseIdleConnections,
		says: "for i := 0; i < 5; i++ { post with a timeout of 1 s; done unless an error or 5xx; sleep 200 ms }",
	}
}
