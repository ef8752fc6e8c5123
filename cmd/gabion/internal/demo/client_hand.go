package demo

import (
	"context"
	"net/http"
	"time"

	"github.com/gabion-go/gabion"
)

// The hand-written loop, as it stands in many programs.
const (
	handTries   = 5
	handWait    = 200 * time.Millisecond
	handTimeout = time.Second
)

// newHand is the loop that people write: five tries, a fixed wait, a timeout for
// each, no budget, and no key.
func newHand(url string, seen gabion.Observer) client { return handWritten(url, "loop", false, seen) }

// newKeyedHand is the same loop with the order's name as its key.
func newKeyedHand(url string, seen gabion.Observer) client {
	return handWritten(url, "keyed loop", true, seen)
}

// handWritten differs from what people write in two things: ctx, by which the demo
// ends it when the run is over, and a transport that counts for the live page.
func handWritten(url, name string, keyed bool, seen gabion.Observer) client {
	transport := newTransport()
	counts := count(name, transport, seen)
	web := &http.Client{Transport: counts, Timeout: handTimeout}
	loop := func(ctx context.Context, o Order) result {
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
	charge := func(ctx context.Context, o Order) result {
		return counts.call(ctx, func(ctx context.Context) result { return loop(ctx, o) })
	}
	says := "for i := 0; i < 5; i++ { post with a timeout of 1 s; done unless an error or 5xx; sleep 200 ms }"
	if keyed {
		says = "the same loop, with the order as Idempotency-Key"
	}
	return client{name: name, keyed: keyed, setup: "by hand", charge: charge, close: transport.CloseIdleConnections, says: says}
}
