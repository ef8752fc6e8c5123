package gabionhttp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/classify"
	"github.com/gabion-go/gabion/policy"
)

// flight is one attempt: what came of it, and what net/http was seen to do.
type flight struct {
	of     *exchange
	out    http.Request // what is sent: a copy of the caller's
	resp   *http.Response
	said   *KeyError // what the answer says of the key; nil if nothing
	unread bool      // the answer broke off before that was known
	tracer *tracer
	seen   sights
}

// sights is what a trace saw. A RoundTripper may use any goroutine.
type sights struct {
	asked atomic.Int32 // looked for a connection
	got   atomic.Int32 // had one
	wrote atomic.Int32 // wrote a request's headers, though perhaps no further than a buffer
}

func (c *exchange) flight() *flight {
	f := &c.first
	if c.begun.Swap(true) {
		f = new(flight)
	}
	f.of = c
	return f
}

// tracer is a trace with its hooks, made to be used again: the hooks are most of
// what an attempt would allocate.
type tracer struct {
	httptrace.ClientTrace
	to atomic.Pointer[sights]
}

var tracers = sync.Pool{New: func() any { return newTracer() }}

func newTracer() *tracer {
	t := new(tracer)
	t.GetConn = func(string) { t.see().asked.Add(1) }
	t.GotConn = func(httptrace.GotConnInfo) { t.see().got.Add(1) }
	t.WroteHeaders = func() { t.see().wrote.Add(1) }
	return t
}

// see returns where to count; after the attempt landed, that is nowhere.
func (t *tracer) see() *sights {
	if s := t.to.Load(); s != nil {
		return s
	}
	return new(sights)
}

// follow watches what becomes of a request with the context that it returns. A
// trace of the caller's is woven into ours, which then can't be used again; and
// only of net/http's own transport is it known when it is done with a trace.
func (f *flight) follow(ctx context.Context) context.Context {
	var t *tracer
	_, std := f.of.t.base().(*http.Transport)
	if std && httptrace.ContextClientTrace(ctx) == nil {
		t = tracers.Get().(*tracer)
		f.tracer = t
	} else {
		t = newTracer()
	}
	t.to.Store(&f.seen)
	return httptrace.WithClientTrace(ctx, &t.ClientTrace)
}

// errBroke stands for the failure that net/http wanted to hide by sending a keyed
// request again. What it was is not told; the request was written.
var errBroke = classify.Transient(errors.New("gabionhttp: the request was written and the connection broke, or HTTP/2 refused it"))

// guard keeps net/http from sending a keyed request again on its own. It takes the
// key for leave to do so whenever a reused connection breaks, once for every idle
// one it has, which no policy would see (ADR 4). What was never written it may
// send again: nobody else could know that.
func (f *flight) guard(out *http.Request) {
	again := out.GetBody
	if again == nil || !replayable(out.Header) {
		return
	}
	out.GetBody = func() (io.ReadCloser, error) {
		if f.seen.wrote.Load() > 0 {
			return nil, errBroke
		}
		return again()
	}
}

// land counts re-sends that nobody asked for. Where an answer came and the headers
// went out on every connection that was had, nobody will use the trace any more.
func (f *flight) land(err error) {
	wrote := f.seen.wrote.Load()
	if t := f.tracer; t != nil && err == nil && wrote > 0 && wrote == f.seen.got.Load() {
		t.to.Store(nil)
		f.tracer = nil
		tracers.Put(t)
	}
	if wrote > 1 {
		f.of.t.hidden.Add(int64(wrote - 1))
		f.of.t.Dependency.Resent(f.of.req.Context(), int(wrote-1))
	}
}

// answered says what an attempt's answer means.
func (f *flight) answered(now func() time.Time) policy.Outcome {
	var said gabion.KeyProblem
	if f.said != nil {
		said = f.said.Problem
	}
	o := outcomeOf(f.resp, said, f.of.rules, now)
	if f.unread {
		o.Effect = policy.UnknownEffect
	}
	if f.seen.wrote.Load() > 1 && o.Class != policy.Success { // the answer speaks of the last sending only
		o.Effect, o.Undone = policy.UnknownEffect, false
	}
	return o
}

// outcome says what an attempt's error means.
func (f *flight) outcome(err error) policy.Outcome {
	o := outcomeOfError(f.of.req, err)
	switch {
	case f.unsent():
		o.NeverSent, o.Effect = true, policy.NoEffect
	case o.NeverSent && f.repeated():
		o.NeverSent, o.Effect = false, policy.UnknownEffect
	case o.Class == policy.Unclassified && f.seen.wrote.Load() > 0:
		// The request was fit to be sent, and then its connection or stream ended. Most of
		// what net/http says of that over HTTP/2 has no type: "client connection force
		// closed" when another stream's write failed, "client connection lost".
		o.Class = policy.Network
	}
	if f.of.body.broken() {
		o.Class = policy.Ignored // the caller's reader failed, and not the dependency
	}
	return o
}

// timedOut makes a deadline of gabion's, which net/http reports by its cause, the
// deadline error that callers ask for. ctx is the attempt's.
func timedOut(ctx context.Context, err error) error {
	if anothers(ctx, err) {
		return classify.Transient(fmt.Errorf("gabionhttp: the connection was given up with another request: %v", err))
	}
	if why, ok := err.(policy.Reason); ok {
		return fmt.Errorf("%w (%w)", context.DeadlineExceeded, why)
	}
	return err
}

// anothers reports whether err tells the end of another request's context. A request
// that ends while its answer arrives takes the connection along, which net/http may
// have lent to the next request by then; that one is told why the first one ended.
func anothers(ctx context.Context, err error) bool {
	var below *gabion.Error
	if ctx.Err() != nil || errors.As(err, &below) {
		return false
	}
	_, ours := err.(policy.Reason)
	return ours || errors.Is(err, context.Canceled)
}

// unsent reports whether the request provably never left: net/http looked for a
// connection and never had one. That covers what no error's type tells, such as
// a TLS handshake that took too long, or a context that ended while dialling. With
// a connection in hand nothing is certain: HTTP/2 may write the headers while
// RoundTrip returns.
func (f *flight) unsent() bool {
	return f.seen.asked.Load() > 0 && f.seen.got.Load() == 0 && f.seen.wrote.Load() == 0
}

// repeated reports whether an error that says "never sent" speaks of a re-send by
// net/http: the request went out before on another connection, and only the dial
// for the next one failed.
func (f *flight) repeated() bool {
	wrote := f.seen.wrote.Load()
	return wrote > 1 || wrote == 1 && f.seen.asked.Load() > f.seen.got.Load()
}
