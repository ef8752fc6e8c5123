package demo

import (
	"context"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/policy"
)

// counted tells the live page of a client that is not built on gabion: each request
// that goes out, and each call that ends. It changes neither.
type counted struct {
	http.RoundTripper
	name string
	to   gabion.Observer // nil: no live page
	born time.Time
}

// countedCalls numbers the calls of all such clients.
var countedCalls atomic.Uint64

// countedCall is a call under way.
type countedCall struct {
	id    uint64
	sent  atomic.Int32
	code  atomic.Pointer[string]
	began time.Time
}

type countedKey struct{}

// count makes what counts a client's requests and calls.
func count(name string, base http.RoundTripper, to gabion.Observer) *counted {
	return &counted{base, name, to, time.Now()}
}

// call counts a call around charge.
func (c *counted) call(ctx context.Context, charge func(context.Context) result) result {
	if c.to == nil {
		return charge(ctx)
	}
	one := &countedCall{id: 1<<40 + countedCalls.Add(1), began: time.Now()} // away from the numbers of gabion's calls
	r := charge(context.WithValue(ctx, countedKey{}, one))
	e := gabion.Event{Kind: policy.KindReturned, Attempt: uint8(one.sent.Load()), Took: time.Since(one.began), Code: one.last()}
	switch {
	case r.ok:
	case ctx.Err() != nil:
		e.Reason = policy.Canceled
	default:
		e.Reason, e.Effect = policy.AttemptsExhausted, policy.UnknownEffect
	}
	c.tell(ctx, one, e)
	return r
}

// RoundTrip implements http.RoundTripper.
func (c *counted) RoundTrip(req *http.Request) (*http.Response, error) {
	one, ok := req.Context().Value(countedKey{}).(*countedCall)
	if !ok {
		return c.RoundTripper.RoundTrip(req)
	}
	n, began := uint8(one.sent.Add(1)), time.Now()
	c.tell(req.Context(), one, gabion.Event{Kind: policy.KindAttemptSent, Attempt: n, Left: policy.NoDeadline, Code: one.last()})
	resp, err := c.RoundTripper.RoundTrip(req)
	e := gabion.Event{Kind: policy.KindAttemptSettled, Attempt: n, Took: time.Since(began)}
	e.Class, e.Code = classOf(resp, err)
	if e.Class != policy.ClassSuccess {
		e.Effect = policy.UnknownEffect
	}
	one.code.Store(&e.Code)
	c.tell(req.Context(), one, e)
	return resp, err
}

// classOf says what an answer of the provider is.
func classOf(resp *http.Response, err error) (policy.Class, string) {
	switch {
	case err != nil && why(err) == "timeout":
		return policy.ClassTimeout, ""
	case err != nil:
		return policy.ClassNetwork, ""
	case resp.StatusCode == http.StatusTooManyRequests:
		return policy.ClassThrottled, "429"
	case resp.StatusCode >= 500:
		return policy.ClassServer, strconv.Itoa(resp.StatusCode)
	case resp.StatusCode >= 400:
		return policy.ClassClient, strconv.Itoa(resp.StatusCode)
	}
	return policy.ClassSuccess, strconv.Itoa(resp.StatusCode)
}

// last is the status of the last answer.
func (one *countedCall) last() string {
	if code := one.code.Load(); code != nil {
		return *code
	}
	return ""
}

func (c *counted) tell(ctx context.Context, one *countedCall, e gabion.Event) {
	e.Dependency, e.Operation, e.Call, e.At = c.name, "charge", one.id, policy.Instant(time.Since(c.born))
	c.to.Observe(ctx, e)
}
