package gabionhttp

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/gabion-go/gabion/internal/adapter"
	"github.com/gabion-go/gabion/internal/machine"
	"github.com/gabion-go/gabion/policy"
)

// What net/http may do within one attempt before the attempt is ended.
const (
	// maxHidden is how many times it may send again what may be repeated and has no body.
	// Pools rarely hold more than one or two connections that died unnoticed.
	maxHidden = 2

	// maxLooks is how many times it may look for a connection. It looks once for every
	// idle connection that turns out to be closed, and without end where each new HTTP/2
	// connection is refused.
	maxLooks = 16
)

// What net/http wanted to hide by sending the request again. What it was is not told; the request was written.
const (
	errBroke  = broken("gabionhttp: the request was written and the connection broke, or HTTP/2 refused it")
	errHidden = broken("gabionhttp: net/http sent the request 3 times, and each connection broke: an attempt does no more")
	errUnpaid = broken("gabionhttp: a reused connection broke, and the retry budget has nothing left to send the request again")
	errLooks  = broken("gabionhttp: net/http looked for a connection 16 times and none could be used")
)

// A broken connection that net/http gives no error of, or another one.
type broken string

func (e broken) Error() string { return string(e) }

// Outcome is that of an error that says the same by its type.
func (e broken) Outcome() policy.Outcome { return policy.Failed(policy.ClassNetwork) }

// sights is what a trace saw, and when it ends the attempt. A RoundTripper may use any
// goroutine.
type sights struct {
	traced atomic.Bool // a trace was asked for; before that nothing was seen

	mu      sync.Mutex
	tracer  *tracer  // nil until then, and once it may serve another attempt
	asked   int      // looked for a connection
	got     int      // had one
	wrote   int      // wrote a request's headers, though perhaps no further than a buffer
	conn    net.Conn // the last one had
	stopped error    // why the attempt was ended from here
}

// saw is a copy of the counts.
type saw struct {
	asked, got, wrote int
	stopped           error
}

func (s *sights) now() saw {
	if !s.traced.Load() {
		return saw{}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return saw{s.asked, s.got, s.wrote, s.stopped}
}

// tracer is a trace with its hooks, made to be used again: the hooks are most of
// what an attempt would allocate.
type tracer struct {
	httptrace.ClientTrace
	to   atomic.Pointer[httpAttempt] // nil after the attempt landed
	pool *sync.Pool                  // of those that serve others after that; nil means that it does not
}

var (
	tracers  = sync.Pool{New: func() any { return newTracer(false) }}
	heralded = sync.Pool{New: func() any { return newTracer(true) }} // of answers of 1xx: without that hook net/http bounds them
)

func newTracer(early bool) *tracer {
	t := new(tracer)
	if early {
		t.Got1xxResponse = func(status int, h textproto.MIMEHeader) error {
			if f := t.to.Load(); f != nil {
				return f.Context.Value(adapter.EarlyKey{}).(adapter.Early).Got1xx(status, h)
			}
			return nil
		}
	}
	t.GetConn = func(string) {
		if f := t.to.Load(); f != nil {
			f.looks()
		}
	}
	t.GotConn = func(info httptrace.GotConnInfo) {
		if f := t.to.Load(); f != nil {
			if !info.Reused {
				f.of.t.churns()
			}
			f.gets(info.Conn)
		}
	}
	t.WroteHeaders = func() {
		if f := t.to.Load(); f != nil {
			f.seen.mu.Lock()
			f.seen.wrote++
			f.seen.mu.Unlock()
		}
	}
	return t
}

// traceKey is the key by which contexts are asked for a trace. net/http has it for itself, so it is
// learned by letting it ask.
var traceKey = func() any {
	var ctx asked
	httptrace.ContextClientTrace(&ctx)
	return ctx.key
}()

// asked is a context that remembers what it was asked for.
type asked struct {
	context.Context
	key any
}

// Value implements context.Context.
func (a *asked) Value(key any) any { a.key = key; return nil }

// Value implements context.Context: an attempt is the context of its request, with a trace that is made when it is asked for.
func (f *httpAttempt) Value(key any) any {
	if key == traceKey {
		if t := f.trace(); t != nil {
			return t
		}
	}
	return f.Context.Value(key)
}

// trace watches what becomes of the request. It is nil once its hooks serve another attempt.
func (f *httpAttempt) trace() *httptrace.ClientTrace {
	s := &f.seen
	if !s.traced.Load() {
		s.follow(f.newTrace())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tracer == nil {
		return nil
	}
	return &s.tracer.ClientTrace
}

// newTrace makes a trace. One of the caller's is woven into ours, which then can't be used again; and
// only of net/http's own transport is it known when it is done with a trace.
func (f *httpAttempt) newTrace() *tracer {
	base := f.of.t.base()
	_, std := base.(*http.Transport)
	if !std {
		_, std = base.(adapter.Prompt)
	}
	_, early := f.Context.Value(adapter.EarlyKey{}).(adapter.Early)
	var t *tracer
	if std && f.theirs == nil {
		pool := &tracers
		if early {
			pool = &heralded
		}
		t = pool.Get().(*tracer)
		t.pool = pool
	} else {
		t = newTracer(early)
		httptrace.WithClientTrace(f.Context, &t.ClientTrace) // for what it does to ours
	}
	t.to.Store(f)
	return t
}

// follow uses t, unless another goroutine was faster.
func (s *sights) follow(t *tracer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.traced.Load() {
		s.tracer = t
		s.traced.Store(true)
	}
}

// spare lets another attempt use the trace.
func (s *sights) spare() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.tracer; t != nil && t.pool != nil {
		s.tracer = nil
		t.to.Store(nil)
		t.pool.Put(t)
	}
}

// looks ends an attempt for which net/http looks for a connection without end.
func (f *httpAttempt) looks() {
	s := &f.seen
	s.mu.Lock()
	s.asked++
	if s.asked > maxLooks && s.stopped == nil {
		s.stopped = errLooks
	}
	stopped := s.stopped != nil
	s.mu.Unlock()
	if stopped {
		f.stop()
	}
}

// gets is called with a connection before anything is written to it: the last chance to keep
// net/http from sending a request again. HTTP/2 looks at the context once more before it writes.
// HTTP/1 does not, but it can't write to a closed connection.
func (f *httpAttempt) gets(conn net.Conn) {
	s := &f.seen
	s.mu.Lock()
	wrote, before := s.wrote, s.conn
	s.got++
	s.conn = conn
	stopped := s.stopped
	s.mu.Unlock()
	if wrote == 0 && stopped == nil {
		return
	}
	if stopped == nil {
		if stopped = f.refuses(wrote, before); stopped == nil {
			return
		}
		s.mu.Lock()
		s.stopped = stopped
		s.mu.Unlock()
	}
	f.stop()
	if f.alone(conn) {
		conn.Close()
	}
}

// refuses says why net/http must not send a request again whose headers were written
// before, on that connection; nil means that it may.
func (f *httpAttempt) refuses(wrote int, before net.Conn) error {
	switch budget := f.of.t.Dependency.Stats().Budget; {
	case !f.harmless && !f.alone(before):
		return errBroke
	case !f.harmless:
		return nil // HTTP/1, which repeats this only if no byte of it got out
	case wrote > maxHidden:
		return errHidden
	case !budget.Off && budget.Level < int64(wrote): // this attempt's are not charged yet
		return errUnpaid
	}
	return nil
}

// stop ends the attempt's context: net/http sends nothing more for it.
func (f *httpAttempt) stop() {
	if e, ok := f.Context.Value(adapter.EnderKey{}).(adapter.Ender); ok {
		e.End()
	}
}

// alone reports whether conn has one request at a time, as HTTP/1 has it. It is no
// when in doubt.
func (f *httpAttempt) alone(conn net.Conn) bool {
	if conn == nil {
		return false
	}
	if c, ok := conn.(interface{ ConnectionState() tls.ConnectionState }); ok {
		return c.ConnectionState().NegotiatedProtocol != "h2"
	}
	base := f.of.t.base()
	for around, ok := base.(adapter.Around); ok; around, ok = base.(adapter.Around) {
		base = around.Inside()
	}
	if std, ok := base.(*http.Transport); ok {
		p := std.Protocols
		return p == nil || p.HTTP1() || !p.UnencryptedHTTP2()
	}
	return !f.of.t.http2.has(f.out.URL.Host)
}

// guard keeps net/http from sending a request with a body again on its own, once its
// headers were written: no policy would see it, and over HTTP/2 nothing bounds it
// (ADR 31). A request that was never written net/http may send again: no other layer knows that.
//
// What HTTP/2 did with a request net/http tells only where it has no second body, so a
// host that is known to speak it gets none.
func (f *httpAttempt) guard(out *http.Request) {
	f.harmless = f.of.safe || machine.IdempotentMethod(f.of.method()) || replayable(out.Header)
	again := out.GetBody
	if again == nil || out.Body == nil {
		return
	}
	if f.of.t.http2.has(out.URL.Host) {
		out.GetBody = nil
		return
	}
	out.GetBody = func() (io.ReadCloser, error) {
		f.seen.mu.Lock()
		wrote, conn := f.seen.wrote, f.seen.conn
		f.seen.mu.Unlock()
		if wrote > 0 && (standardReplays(out) || !f.alone(conn)) {
			return nil, errBroke
		}
		return again()
	}
}

// standardReplays reports whether net/http would send a request over HTTP/1 again also
// after some of it got out.
func standardReplays(req *http.Request) bool {
	switch req.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return true
	}
	return replayable(req.Header)
}

// land counts re-sends by net/http itself. Where an answer came and the headers
// went out on every connection that was had, the trace is no longer in use.
func (f *httpAttempt) land(resp *http.Response, err error) {
	s := f.seen.now()
	if err == nil && s.wrote > 0 && s.wrote == s.got {
		f.seen.spare()
	}
	if s.wrote > 1 {
		f.of.t.hidden.Add(int64(s.wrote - 1))
		adapter.Of(f.of.t.Dependency).Resent(f.of.from.Context(), s.wrote-1)
	}
	if err == nil {
		f.of.t.http2.note(f.out.URL.Host, resp.ProtoMajor == 2)
	}
}

// unsent reports whether the request provably never left: net/http looked for a
// connection and never had one. That covers what no error's type tells, such as
// a TLS handshake that took too long, or a context that ended while dialling. With
// a connection in hand nothing is certain: HTTP/2 may write the headers while
// RoundTrip returns.
func (s saw) unsent() bool { return s.asked > 0 && s.got == 0 && s.wrote == 0 }

// repeated reports whether an error that says "never sent" speaks of a re-send by
// net/http: the request went out before on another connection, and only the dial
// for the next one failed.
func (s saw) repeated() bool { return s.wrote > 1 || s.wrote == 1 && s.asked > s.got }

// refusedByHTTP2 reports whether err says that the server did not look at the request
// (RFC 9113, 8.7). With no second body net/http tells that by a text alone.
func refusedByHTTP2(err error) bool {
	text := err.Error()
	return strings.Contains(text, "http2: Transport: cannot retry err [") &&
		(strings.Contains(text, "; REFUSED_STREAM") || strings.Contains(text, "graceful shutdown GOAWAY"))
}

// speakers are hosts that were seen to speak HTTP/2.
type speakers struct {
	hosts sync.Map
	known atomic.Int32
}

// maxSpeakers bounds them. A host beyond is taken for one of HTTP/1, which costs proofs
// and no safety.
const maxSpeakers = 1000

func (s *speakers) has(host string) bool {
	if s.known.Load() == 0 {
		return false
	}
	_, ok := s.hosts.Load(host)
	return ok
}

// note remembers what host spoke last.
func (s *speakers) note(host string, http2 bool) {
	switch known := s.has(host); {
	case known == http2:
	case known:
		if _, was := s.hosts.LoadAndDelete(host); was {
			s.known.Add(-1)
		}
	case s.known.Load() < maxSpeakers:
		if _, was := s.hosts.LoadOrStore(host, true); !was {
			s.known.Add(1)
		}
	}
}
