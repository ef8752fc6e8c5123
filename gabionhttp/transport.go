package gabionhttp

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/internal/adapter"
	"github.com/gabion-go/gabion/internal/machine"
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
// and 503, and marks that say not to retry are honoured. Answers of gRPC, gRPC-Web and streams
// of Connect are read by the code that they tell in headers, trailers or their last frame.
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

	// Base sends the requests. Nil means a copy of http.DefaultTransport, made at the
	// first use, that keeps as many idle connections to a host as the policy's bulkhead
	// lets calls out; http.DefaultTransport itself where it is no *http.Transport.
	Base http.RoundTripper

	// Partition names whose breaker a request concerns. Nil means the URL's host, so
	// that two hosts behind one Transport never share a breaker: in lower case, without
	// a dot at its end, and with its port unless that is 80 for http or 443 for https.
	// [gabion.Dependency.Breaker] wants the same name.
	Partition func(*http.Request) string

	// Operation names what a request does, for events; a route template, not a
	// path. Nil means the method, or "OTHER" for one that RFC 9110 and RFC 5789 do not
	// know.
	Operation func(*http.Request) string

	// Cost says what a request is thought to use, by calling use for units of the policy's quotas; the money follows
	// from the policy's prices. Nil means what the quotas say. [CostOfModel] is one. It is asked only where there are quotas.
	Cost func(req *http.Request, use func(unit string, amount float64))

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

	// KeyHosts are hosts that share their idempotency keys, with their port unless it is
	// the scheme's own: "api.example.com", "eu.example.com:8443". A redirect from one to
	// another takes the key along. To any other host a request with a key is not
	// redirected, unless it becomes a GET, which needs none: see [ErrKeyRedirected].
	KeyHosts []string

	// HedgeKeyed lets keyed requests of unsafe methods be hedged, where the policy
	// hedges. It declares that the server can tell two requests with one key that
	// arrive at once: one does the work, and the other waits for the same answer or
	// gets a 409 that says so. Zero means that such requests are not hedged, unless
	// the policy says Safe.
	HedgeKeyed bool

	hidden atomic.Int64
	http2  speakers
	pool   pool
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

// RoundTrip implements http.RoundTripper. It never changes req.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if t.Dependency == nil {
		closeBody(req)
		return nil, errors.New("gabionhttp: Transport has no Dependency")
	}
	c := new(exchange)
	c.t, c.req, c.from = t, req, req
	of := adapter.Of(t.Dependency)
	c.learn(of.PolicyInForce())
	c.own()
	err := c.learnKey()
	if err == nil {
		err = c.learnClassifier(of)
	}
	if err != nil {
		closeBody(req)
		why := &gabion.Error{Dependency: t.Dependency.Name(), Reason: policy.Invalid, Err: err}
		c.tell(why, 0, 0)
		return nil, why
	}
	done := false
	defer func() {
		if !done { // also when a user's function panicked
			c.body.close()
			c.over()
		}
	}()
	if hasBody(req) {
		c.body = &c.first.sole
		c.body.most = max(c.call, 0)
		if err := c.body.hold(req, replayLimit(c.rules), !c.serial); err != nil {
			return nil, c.unread(err)
		}
		if c.from == req && c.body.live() { // such an attempt may be left behind
			c.copy()
		}
	}
	var usual [usualOptions]gabion.CallOption
	f, attempt, err := gabion.Open(c.cancelable(), t.Dependency, c.send, c.costs(c.options(usual[:0]))...)
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
	t        *Transport
	req      *http.Request // the caller's, who may use it again once RoundTrip returned and the answer's body is closed
	from     *http.Request // what attempts are made from: req, or a copy of it
	rules    *policy.HTTP  // never changes
	codes    *policy.GRPC  // never changes
	margin   time.Duration
	call     time.Duration     // the policy's
	ours     bool              // the dependency is internal
	ways     []policy.Endpoint // never changes
	shared   bool              // they know each other's keys
	meter    meter
	safe     bool // the policy says so of everything
	serial   bool // no two attempts are out at once, so that none outlives the call
	priority policy.Priority
	key      string             // the caller's
	asked    classifier         // nil means that the status and the error alone decide
	strayed  bool               // a redirect led to another host than the key's
	body     *body              // nil means none
	quit     context.CancelFunc // of the call, where the request has a Cancel; else nil
	live     <-chan struct{}    // closed at the end of that
	attended atomic.Bool        // Cancel has a goroutine
	status   atomic.Int32       // of the last attempt's answer, if that was a failure, with gRPC's code above it

	// The first attempt and the answer's body are part of their exchange, since
	// most calls have one of each.
	begun  atomic.Bool
	first  httpAttempt
	answer responseBody
}

func (c *exchange) learn(p *policy.Policy) {
	c.call = p.Timeout.Call
	c.codes, c.rules, c.margin, c.ours, c.safe = &p.GRPC, &p.HTTP, max(p.Timeout.HopMargin, 0), p.Trust == policy.Internal, p.Safe
	c.priority, c.ways, c.shared, c.meter = gabion.PriorityOf(c.req.Context()), p.Endpoints.List, p.Endpoints.SharedKeys, meterOf(p)
	c.serial = p.Hedge.Max <= 0 || len(c.req.Trailer) > 0 || // which are set while the body is read, one at a time
		!machine.HedgeableMethod(c.method(), c.safe) && !c.t.HedgeKeyed
}

// own makes a copy of the caller's request where attempts may outlive the call, or
// where something in it has to change.
func (c *exchange) own() {
	_, odd := oddKey(c.req.Header)
	if !c.serial || odd {
		c.copy()
	}
	if odd {
		plainKeys(c.from.Header)
	}
}

func (c *exchange) copy() {
	from := *c.req
	from.Header = c.req.Header.Clone()
	if from.URL != nil {
		u := *from.URL
		from.URL = &u
	}
	c.from = &from
}

// unread is how a call ends whose body could not be had before anything was sent:
// the caller's reader failed, or the caller gave up while it kept us waiting.
func (c *exchange) unread(err error) error {
	why := policy.Canceled
	if err == policy.CallTimeout || c.req.Context().Err() == context.DeadlineExceeded {
		why = policy.CallTimeout
	}
	if err == policy.CallTimeout { //nolint:errorlint // the machine answers with the reason itself
		err = fmt.Errorf("the request body did not come in time: %w", context.DeadlineExceeded)
	}
	e := &gabion.Error{Dependency: c.t.Dependency.Name(), Reason: why, Effect: policy.NoEffect, Err: err}
	c.tell(e, 0, 0)
	return e
}

// usualOptions is how many options nearly all calls of a Transport have at most.
const usualOptions = 8

// soon is how long a body may take to be read without a difference to the call's time.
const soon = time.Millisecond

// options appends those of the call to opts.
func (c *exchange) options(opts []gabion.CallOption) []gabion.CallOption {
	opts = append(opts, gabion.WithClassify(judge), gabion.WithDiscard(drop),
		gabion.WithPartition(c.partition()), gabion.WithOperation(c.operation()))
	if len(c.ways) > 0 && c.req.Response != nil {
		opts = append(opts, c.endpoint(c.ways))
	}
	if c.priority != policy.PriorityNormal {
		opts = append(opts, gabion.WithPriority(c.priority))
	}
	if c.key != "" {
		opts = append(opts, gabion.WithKey(c.key))
	}
	if machine.IdempotentMethod(c.method()) || c.declared() {
		opts = append(opts, gabion.WithIdempotent())
	}
	if c.serial || !c.body.repeatable() {
		opts = append(opts, gabion.WithoutHedge())
	}
	if repeatedAbove(c.req.Header) {
		opts = append(opts, gabion.WithoutRetry())
	}
	if c.body != nil && c.body.waited > soon && c.call > 0 {
		opts = append(opts, gabion.WithTimeout(max(c.call-c.body.waited, soon)))
	}
	if c.t.KeyRetention != 0 {
		opts = append(opts, gabion.WithKeyRetention(c.t.KeyRetention))
		if c.t.KeyMadeAt != nil {
			opts = append(opts, gabion.WithKeyMadeAt(c.t.KeyMadeAt(c.req)))
		}
	}
	return opts
}

// method is the request's, which is GET when it names none.
func (c *exchange) method() string {
	if c.req.Method == "" {
		return http.MethodGet
	}
	return c.req.Method
}

// declared reports whether the caller says as net/http has it that the request may
// be repeated: by the name of a key without a value.
func (c *exchange) declared() bool {
	return !c.strayed && c.key == "" && replayable(c.from.Header)
}

func (c *exchange) partition() string {
	if c.t.Partition != nil {
		return c.t.Partition(c.req)
	}
	if c.req.URL == nil || len(c.ways) > 0 && c.req.Response == nil { // its host is only a word for the endpoints
		return ""
	}
	return hostOf(c.req.URL.Scheme, c.req.URL.Host)
}

func (c *exchange) operation() string {
	if c.t.Operation != nil {
		return c.t.Operation(c.req)
	}
	switch method := c.method(); method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch,
		http.MethodDelete, http.MethodConnect, http.MethodOptions, http.MethodTrace:
		return method
	}
	return "OTHER" // clients of a proxy may invent any number of them
}

func drop(result any) {
	if f, _ := result.(*httpAttempt); f != nil {
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
	if answer := unpacked(c.status.Load()); answer != nil {
		e.Err = because(answer, e.Err) // the latter is why the wait for the retry ended
	}
	c.explain(e)
	if inVain(e) && e.Err != nil {
		e.Err = retried{e.Err}
	}
	c.tell(e, 0, 0)
	c.awaitClient()
	return err
}

// awaitClient lets an http.Client with a Timeout see that this has passed: it closes
// Cancel then. It has the same deadline as its context, and would miss it if the call
// came back a moment before.
func (c *exchange) awaitClient() {
	at, ok := c.req.Context().Deadline()
	if c.req.Cancel == nil || !ok || time.Until(at) > time.Millisecond {
		return
	}
	timer := time.NewTimer(10 * time.Millisecond)
	defer timer.Stop()
	select {
	case <-c.req.Cancel:
	case <-timer.C:
	}
}

// explain says which body it was that could not be sent again.
func (c *exchange) explain(why *gabion.Error) {
	switch fixed := why.Reason == policy.BodyNotRewindable && c.body != nil; {
	case !fixed:
	case why.Err == nil:
		why.Err = c.body.whyFixed()
	default:
		why.Err = because(why.Err, c.body.whyFixed())
	}
}

// because adds what ended the call, if anything did, to what the answer was.
func because(answer, end error) error {
	if end == nil {
		return answer
	}
	return fmt.Errorf("%w (%w)", answer, end)
}
