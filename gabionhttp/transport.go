package gabionhttp

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/classify"
	"github.com/gabion-go/gabion/policy"
)

// The headers that a Transport writes besides [HeaderDeadline].
const (
	HeaderKey     = "Idempotency-Key"   // the call's key, the same on every attempt
	HeaderAttempt = "X-Request-Attempt" // 1 for the first; only to internal dependencies
)

// Transport is an http.RoundTripper that sends every request through a
// dependency's policy. It works under any client or SDK that lets its transport be
// set; turn that client's own retries off, or both layers multiply.
//
// A request is repeated if its failure is transient and repeating it is safe: GET,
// HEAD, OPTIONS, TRACE, PUT and DELETE are; other methods only with an
// idempotency key, or when the attempt provably never left. What an answer means
// is decided by its status (policy.HTTP adjusts that), Retry-After is obeyed on 429
// and 503, and marks that say not to retry are honoured.
//
// When attempts are used up and the last brought an answer, RoundTrip returns that
// answer, readable, without an error; [Verdict] tells what gabion thought of it.
// Attempt timeout and call deadline end at the response headers; the body has limits of
// its own (docs/http.md, "Streams") and must be closed, as always.
//
// A Transport is safe for concurrent use. Its fields must not change after its
// first use.
//
// In tests with testing/synctest make it inside the bubble, with its Dependency and a
// Base of its own: connections belong to the bubble that opened them, too.
type Transport struct {
	// Dependency is who is called. It must not be nil.
	Dependency *gabion.Dependency

	// Base sends the requests. Nil means http.DefaultTransport.
	Base http.RoundTripper

	// Partition names whose breaker a request concerns. Nil means the URL's host, with
	// its port if the URL names one, so that two hosts behind one Transport never share
	// a breaker. [gabion.Dependency.Breaker] wants the same name.
	Partition func(*http.Request) string

	// Operation names what a request does, for events; a route template, not a
	// path. Nil means the method.
	Operation func(*http.Request) string

	// Headers are the headers in which the time that is left travels to an internal
	// dependency, as [SetTimeLeft] writes them. Nil means [HeaderDeadline] alone.
	// None of them reaches an external dependency.
	Headers []string

	// KeyRetention is for how long the server remembers an idempotency key, as it
	// declares. A keyed request of an unsafe method whose key is older than nine
	// tenths of that is not sent; see [gabion.WithKeyRetention]. Zero means that
	// nothing is known and every key is sent.
	KeyRetention time.Duration

	// KeyMadeAt says when a request's key was made, or first sent. Nil, and a zero
	// time, mean what the key itself says, if it is a UUID of version 7.
	KeyMadeAt func(*http.Request) time.Time

	// HedgeKeyed lets keyed requests of unsafe methods be hedged, where the policy
	// hedges. It declares that the server can tell two requests with one key that
	// arrive at once: one does the work, and the other waits for the same answer or
	// gets a 409 that says so. Zero means that such requests are not hedged, unless
	// the policy says Safe.
	HedgeKeyed bool

	hidden atomic.Int64
}

// Hidden returns how many times net/http sent a request again behind the policy's
// back, because a reused connection died before the answer began. These re-sends
// are charged to the retry budget, so that they slow down the retries that can be
// held back.
func (t *Transport) Hidden() int64 { return t.hidden.Load() }

// CloseIdleConnections closes those of Base.
func (t *Transport) CloseIdleConnections() {
	if c, ok := t.base().(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

func (t *Transport) base() http.RoundTripper {
	if t.Base == nil {
		return http.DefaultTransport
	}
	return t.Base
}

// RoundTrip implements http.RoundTripper. It never changes req.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if t.Dependency == nil {
		closeBody(req)
		return nil, errors.New("gabionhttp: Transport has no Dependency")
	}
	c := exchange{t: t, req: req}
	c.learn(&t.Dependency.Rules().Policy)
	if err := c.learnKey(); err != nil {
		closeBody(req)
		why := &gabion.Error{Dependency: t.Dependency.Name(), Reason: gabion.Invalid, Err: err}
		c.tell(why, 0, 0)
		return nil, why
	}
	done := false
	defer func() {
		if !done { // also when somebody's function panicked
			c.body.close()
		}
	}()
	if hasBody(req) {
		c.body = new(body)
		if err := c.body.hold(req, replayLimit(c.rules)); err != nil {
			return nil, c.unread(err)
		}
	}
	var opts [maxOptions]gabion.CallOption
	f, attempt, err := gabion.Open(req.Context(), t.Dependency, c.send, opts[:c.options(&opts)]...)
	if attempt == nil {
		return nil, c.failed(err)
	}
	done = true
	return c.deliver(f, attempt, err), nil
}

func closeBody(req *http.Request) {
	if req.Body != nil {
		req.Body.Close()
	}
}

// exchange is one call of a Transport.
type exchange struct {
	t       *Transport
	req     *http.Request // the caller's
	rules   *policy.HTTP  // never changes
	margin  time.Duration
	ours    bool         // the dependency is internal
	safe    bool         // the policy says so of everything
	key     string       // the caller's
	strayed bool         // a redirect led to another host than the key's
	body    *body        // nil means none
	status  atomic.Int32 // of the last attempt's answer, if that was a failure

	// The first attempt and the answer's body are part of their exchange, since
	// most calls have one of each.
	begun  atomic.Bool
	first  flight
	answer responseBody
}

func (c *exchange) learn(p *policy.Policy) {
	c.rules, c.margin, c.ours, c.safe = &p.HTTP, max(p.Timeout.HopMargin, 0), p.Trust == policy.Internal, p.Safe
}

// unread is how a call ends whose body could not be had before anything was sent:
// the caller's reader failed, or the caller gave up while it kept us waiting.
func (c *exchange) unread(err error) error {
	why := gabion.Canceled
	if c.req.Context().Err() == context.DeadlineExceeded {
		why = gabion.CallTimeout
	}
	e := &gabion.Error{Dependency: c.t.Dependency.Name(), Reason: why, Effect: gabion.NoEffect, Err: err}
	c.tell(e, 0, 0)
	return e
}

// safeMethods can be repeated by what they mean (RFC 9110, 9.2.2).
var safeMethods = map[string]bool{
	"": true, http.MethodGet: true, http.MethodHead: true, http.MethodOptions: true, http.MethodTrace: true,
	http.MethodPut: true, http.MethodDelete: true,
}

// maxOptions is how many options a call of a Transport can have.
const maxOptions = 10

// options fills opts and returns how many there are.
func (c *exchange) options(opts *[maxOptions]gabion.CallOption) int {
	opts[0], opts[1] = gabion.ClassifyWith(judge), gabion.DiscardWith(drop)
	opts[2], opts[3] = gabion.WithPartition(c.partition()), gabion.WithOperation(c.operation())
	opts[4] = gabion.WithKey(c.key)
	n := 5
	add := func(o gabion.CallOption) { opts[n] = o; n++ }
	safe := safeMethods[c.req.Method]
	if safe || c.declared() {
		add(gabion.WithIdempotent())
	}
	if !c.body.repeatable() || !safe && !c.safe && !c.t.HedgeKeyed {
		add(gabion.WithoutHedge())
	}
	if repeatedAbove(c.req.Header) {
		add(gabion.WithoutRetry())
	}
	if c.t.KeyRetention > 0 {
		add(gabion.WithKeyRetention(c.t.KeyRetention))
		if c.t.KeyMadeAt != nil {
			add(gabion.WithKeyMadeAt(c.t.KeyMadeAt(c.req)))
		}
	}
	return n
}

// declared reports whether the caller says as net/http has it that the request may
// be repeated: by the name of a key without a value.
func (c *exchange) declared() bool {
	return !c.strayed && c.key == "" && replayable(c.req.Header)
}

func (c *exchange) partition() string {
	if c.t.Partition != nil {
		return c.t.Partition(c.req)
	}
	if c.req.URL == nil {
		return ""
	}
	return c.req.URL.Host
}

func (c *exchange) operation() string {
	switch {
	case c.t.Operation != nil:
		return c.t.Operation(c.req)
	case c.req.Method == "":
		return http.MethodGet
	}
	return c.req.Method
}

// send is one attempt.
func (c *exchange) send(ctx context.Context) (*flight, error) {
	f := c.flight()
	ctx = f.follow(ctx)
	f.out = *c.req.WithContext(ctx) // the copy that this makes stays on the stack
	out := &f.out
	if err := c.address(ctx, out); err != nil {
		return f, err
	}
	if err := c.body.attach(out); err != nil {
		return f, classify.NotSent(err)
	}
	if ctx.Err() != nil { // net/http would not even look for a connection, which is what proves it elsewhere
		closeBody(out)
		c.status.Store(0)
		return f, classify.NotSent(timedOut(ctx, context.Cause(ctx)))
	}
	f.guard(out)
	resp, err := c.roundTrip(out)
	f.land(err)
	if err != nil {
		c.status.Store(0)
		if c.body.broken() {
			return f, err
		}
		return f, timedOut(ctx, err)
	}
	if resp.Request == nil {
		resp.Request = out
	}
	f.resp = resp
	f.peek(resp)
	return f, nil
}

// errNoTime says that a hop has no time to pass on. It is permanent, since another
// attempt has no more, and says nothing about the dependency.
var errNoTime = classify.Permanent(classify.NotSent(
	fmt.Errorf("gabionhttp: no time is left for the next hop: %w", context.DeadlineExceeded)))

// address writes the headers of one attempt on a copy of the caller's. What an
// earlier hop wrote there was for us and goes no further: vendors would learn our
// internals, and others would be told of time that is spent.
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
	return h[HeaderDeadline] != nil || h[HeaderAttempt] != nil || // both are written as they are looked up
		slices.ContainsFunc(t.Headers, func(name string) bool { return h[http.CanonicalHeaderKey(name)] != nil })
}

func (t *Transport) unmark(h http.Header) {
	h.Del(HeaderDeadline)
	h.Del(HeaderAttempt)
	for _, name := range t.Headers {
		h.Del(name)
	}
}

// judge says what an attempt brought, and whether its request could be sent again.
func judge(result any, err error) policy.Outcome {
	f, _ := result.(*flight)
	if f == nil {
		return classify.Error(err)
	}
	var o policy.Outcome
	if err == nil {
		o = f.answered(time.Now)
	} else {
		o = f.outcome(err)
	}
	o = f.decided(o, err)
	if o.Class != policy.Success {
		o.Fixed = f.of.body.fixed()
		if f.resp != nil {
			f.of.status.Store(int32(f.resp.StatusCode))
		}
	}
	return o
}

func drop(result any) {
	if f, _ := result.(*flight); f != nil {
		discard(f.resp)
	}
}

// failed adds the last answer's status to the error of a call whose last attempt
// brought one: the answer is gone, drained before the retry that was then not made.
func (c *exchange) failed(err error) error {
	e, ok := errors.AsType[*gabion.Error](err)
	if !ok {
		return err
	}
	if code := int(c.status.Load()); code != 0 {
		e.Err = because(&StatusError{Code: code}, e.Err) // the latter is why the wait for the retry ended
	}
	if inVain(e) && e.Err != nil {
		e.Err = retried{e.Err}
	}
	c.tell(e, 0, 0)
	return err
}

// because adds what ended the call, if anything did, to what the answer was.
func because(answer, end error) error {
	if end == nil {
		return answer
	}
	return fmt.Errorf("%w (%w)", answer, end)
}

// StatusError is the failure of an answer that is no longer there.
type StatusError struct{ Code int }

// Outcome is what the answer meant. A success that somebody called a failure is one of
// which the status says nothing.
func (e *StatusError) Outcome() policy.Outcome {
	if o := byStatus(e.Code); o.Class != policy.Success {
		return o
	}
	return policy.Outcome{Class: policy.ServerError, Effect: policy.UnknownEffect}
}

// Error reads "503 Service Unavailable".
func (e *StatusError) Error() string { return fmt.Sprintf("%d %s", e.Code, http.StatusText(e.Code)) }
