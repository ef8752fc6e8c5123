package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"syscall"
	"time"
)

// client is one way to call the provider.
type client struct {
	name   string
	says   string // how it is built, for people
	keyed  bool   // it sends the order's name as the idempotency key
	setup  string // where its settings are from, in a word or two
	charge func(ctx context.Context, o Order) result
	close  func()

	// hidden counts requests that net/http sent again by itself, where the client
	// knows; nil where it does not.
	hidden func() int64
}

// result is what a client told its caller about one call.
type result struct {
	ok     bool
	reason string // why not; "" when ok
	denies bool   // it said that nothing can have happened
}

// newTransport returns a client's own connection pool. It is large enough that no request queues
// for a connection.
func newTransport() *http.Transport {
	return roads.lead(&http.Transport{
		DialContext:         (&net.Dialer{Timeout: time.Second}).DialContext,
		MaxIdleConns:        256,
		MaxIdleConnsPerHost: 256,
		IdleConnTimeout:     30 * time.Second,
	})
}

// roads lead from the clients to the providers. A test has others, on which time is virtual.
var roads = struct {
	listen func() (net.Listener, error)
	lead   func(*http.Transport) *http.Transport
}{
	func() (net.Listener, error) { return net.Listen("tcp", "127.0.0.1:0") },
	func(t *http.Transport) *http.Transport { return t },
}

// body is the request body of an order.
func body(o Order) []byte {
	b, _ := json.Marshal(payment{Number: o.Number, Amount: o.Amount}) // two ints always marshal
	return b
}

// newRequest makes the request that charges an order. With a key it is the order's
// name, so that a provider that honours keys charges once, however often it is sent.
func newRequest(ctx context.Context, url string, o Order, keyed bool) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body(o)))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	if keyed {
		req.Header.Set(keyHeader, o.ID())
	}
	return req, nil
}

// verdict reads the last answer as the shop does: 201 means charged.
func verdict(resp *http.Response, err error) result {
	switch {
	case err != nil:
		return result{reason: why(err)}
	case resp.StatusCode != http.StatusCreated:
		return result{reason: strconv.Itoa(resp.StatusCode)}
	}
	return result{ok: true}
}

// finish reads and closes the body, so that the connection can be used again.
func finish(resp *http.Response) {
	if resp == nil {
		return
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10)) // a cut body costs the connection, nothing else
	_ = resp.Body.Close()
}

// why names an error for the table of reasons.
func why(err error) string {
	var timeout interface{ Timeout() bool }
	switch {
	case errors.Is(err, context.Canceled):
		return "canceled"
	case errors.As(err, &timeout) && timeout.Timeout():
		return "timeout"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "reset"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "refused"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "broken off"
	}
	return "other"
}
