package gabionhttp

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"slices"
	"strconv"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/classify"
	"github.com/gabion-go/gabion/policy"
)

// send is one attempt.
func (c *exchange) send(ctx context.Context) (*httpAttempt, error) {
	f := c.nextAttempt()
	f.Context, f.theirs = ctx, httptrace.ContextClientTrace(ctx)
	f.out = *c.from.WithContext(f) // the copy that this makes stays on the stack
	out := &f.out
	if len(c.ways) > 0 {
		if err := c.aim(out, gabion.EndpointOf(ctx)); err != nil {
			return f, err
		}
	}
	if err := c.address(ctx, out); err != nil {
		return f, err
	}
	if err := c.body.attach(out); err != nil {
		return f, classify.NotSent(err)
	}
	if f.guard(out); (c.body != nil || !f.harmless) && ctx.Err() != nil { // net/http would not even look for a connection, which is what proves it elsewhere
		closeBody(out)
		c.status.Store(0)
		return f, classify.NotSent(timedOut(ctx, context.Cause(ctx)))
	}
	resp, err := c.roundTrip(out)
	if (resp == nil) == (err == nil) {
		err = notOne(resp, err)
	}
	f.land(resp, err)
	if why := f.seen.now().stopped; err != nil && why != nil {
		c.status.Store(0)
		return f, why
	}
	if err != nil {
		c.heed()
		c.status.Store(0)
		if c.body.broken() {
			return f, err
		}
		return f, timedOut(ctx, noTLS(err))
	}
	if resp.Request == nil {
		resp.Request = out
	}
	if resp, err = f.learnRPC(resp); err != nil {
		resp.Body.Close()
		c.status.Store(0)
		return f, timedOut(ctx, err)
	}
	f.resp = resp
	c.meter.tellLeft(ctx, resp.Header)
	if f.peek(resp); f.google != nil && c.meter.quotas != nil {
		gabion.TellLeft(ctx, f.google.told...)
	}
	return f, nil
}

// notOne is for a Base that returns both or neither of an answer and an error.
func notOne(resp *http.Response, err error) error {
	if resp == nil {
		return errors.New("gabionhttp: Base returned neither an answer nor an error")
	}
	if resp.Body != nil {
		resp.Body.Close()
	}
	return err
}

// noTLS says what http.Client says of a server that answers TLS with HTTP: it looks at
// the error itself, and not at what wraps it.
func noTLS(err error) error {
	if plain, ok := errors.AsType[tls.RecordHeaderError](err); ok && string(plain.RecordHeader[:]) == "HTTP/" {
		return answeredPlain{err}
	}
	return err
}

type answeredPlain struct{ error }

// Error reads as http.ErrSchemeMismatch does.
func (answeredPlain) Error() string { return http.ErrSchemeMismatch.Error() }

// Is finds http.ErrSchemeMismatch.
func (answeredPlain) Is(target error) bool { return target == http.ErrSchemeMismatch }

// Unwrap returns what TLS said.
func (a answeredPlain) Unwrap() error { return a.error }

// errNoTime says that a hop has no time to pass on. It is permanent, since another
// attempt has no more, and says nothing about the dependency.
var errNoTime = classify.Permanent(classify.NotSent(
	fmt.Errorf("gabionhttp: no time is left for the next hop: %w", context.DeadlineExceeded)))

// address writes the headers of one attempt on a copy of the caller's. What an earlier hop wrote
// there was for us and goes no further: vendors would learn our internals, and others would get a
// time that is spent.
func (c *exchange) address(ctx context.Context, out *http.Request) error {
	key := gabion.Key(ctx)
	add := key != "" && (c.strayed || !keyed(out.Header))
	if !add && !c.strayed && !c.ours && !c.t.marked(out.Header) {
		return nil
	}
	out.Header = out.Header.Clone()
	if out.Header == nil {
		out.Header = make(http.Header)
	}
	c.t.unmark(out.Header)
	if c.strayed {
		for _, name := range keyHeaders {
			delete(out.Header, name)
		}
	}
	if add {
		out.Header.Set(HeaderKey, key)
	}
	if !c.ours {
		return nil
	}
	out.Header.Set(HeaderAttempt, strconv.Itoa(gabion.AttemptNumber(ctx)))
	if c.priority != policy.PriorityNormal {
		out.Header[HeaderPriority] = priorityTexts[c.priority]
	}
	deadline, ok := ctx.Deadline()
	if !ok {
		return nil
	}
	if !SetTimeLeft(out.Header, NextHop(0, time.Until(deadline), c.margin), c.t.Headers...) {
		return errNoTime
	}
	return nil
}

// marked reports whether h has headers that only hops of ours may see.
func (t *Transport) marked(h http.Header) bool {
	return h[HeaderDeadline] != nil || h[HeaderAttempt] != nil || h[HeaderPriority] != nil || // all are written as they are looked up
		slices.ContainsFunc(t.Headers, func(name string) bool { return h[http.CanonicalHeaderKey(name)] != nil })
}

func (t *Transport) unmark(h http.Header) {
	h.Del(HeaderDeadline)
	h.Del(HeaderAttempt)
	h.Del(HeaderPriority)
	for _, name := range t.Headers {
		h.Del(name)
	}
}
