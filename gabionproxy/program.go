package gabionproxy

import (
	"cmp"
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptrace"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gabion-go/gabion/config"
	"github.com/gabion-go/gabion/gabionhttp"
	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/internal/h1"
	"github.com/gabion-go/gabion/policy"
)

// program is what stands behind an ingress. It gets each request once at most: its client
// knows best whether to send it again.
type program struct {
	proxy *Proxy
	url   *url.URL
	send  http.RoundTripper
	pass  httputil.ReverseProxy
	h2c   bool
	times bool     // it learns how much time is left
	own   []string // headers that the proxy writes or goes by

	trusted peers
	keyed   bool // some of its routes have keys
}

func (p *Proxy) program(c config.ProxyIngress) (*program, error) {
	to, err := url.Parse(c.To)
	if err != nil {
		return nil, err
	}
	trusted, err := readPeers(c.Trusted)
	if err != nil {
		return nil, err
	}
	send := newUpstream(nil, to)
	if t, ok := send.(*h1.Transport); ok {
		t.Once = keyed
	}
	g := &program{proxy: p, url: to, send: followed(p.options.Telemetry, "", send), times: c.Deadlines, trusted: trusted, keyed: c.Idempotency.Store != ""}
	g.own = slices.Concat(keyHeaders, leftHeaders, []string{gabionhttp.HeaderPriority,
		http.CanonicalHeaderKey(c.Idempotency.ScopeHeader), http.CanonicalHeaderKey(c.Admission.TenantHeader)})
	if g.keyed {
		g.own = append(g.own, leadAway...)
	}
	if g.h2c = to.Scheme == "h2c"; g.h2c {
		to.Scheme = "http"
	}
	g.pass = httputil.ReverseProxy{Rewrite: g.rewrite, Transport: g, ModifyResponse: told, ErrorHandler: g.failed, BufferPool: buffers, ErrorLog: errorLog(p)}
	return g, nil
}

// ServeHTTP implements [http.Handler].
func (g *program) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if leaves(g.url, r.URL) {
		idempotency.NoEffect(r.Context())
		g.proxy.ambiguous(w, r)
		return
	}
	e := exchangeOf(r.Context())
	if keyed(r.Context()) {
		w = whole{w}
	} else {
		defer g.proxy.remember(r, 0).forget()
	}
	g.proxy.passed(w, r, e, &g.pass)
}

// keyed reports whether a request has a key, and so whether the program must not get it twice.
func keyed(ctx context.Context) bool { return idempotency.Token(ctx) != 0 }

// keyHeaders are those by which net/http takes a request for one that it may send again by
// itself, after the program may have acted on it.
var keyHeaders = []string{gabionhttp.HeaderKey, "X-Idempotency-Key"}

// leadAway are headers that lead programs to another path than the one whose route was found.
var leadAway = []string{"X-Original-Url", "X-Rewrite-Url"}

// rewrite aims a request at the program. Its host stays what the client said.
func (g *program) rewrite(pr *httputil.ProxyRequest) {
	in, out := pr.In, pr.Out
	if !unfit(in.Header) { // else it is a copy
		out.Header = maps.Clone(in.Header)
	}
	pr.SetURL(g.url)
	out.Host = in.Host
	out.URL.RawQuery = in.URL.RawQuery
	out.Trailer = in.Trailer
	for _, name := range g.own { // also where Connection names them, which would hide them from the program alone
		if lines, ok := in.Header[name]; ok {
			out.Header[name] = lines
		}
	}
	g.noTwins(out.Header)
	g.forwarded(pr)
	exchangeOf(out.Context()).resends(out)
	out.GetBody = nil
	noUpgrade(out)
	if keyed(out.Context()) {
		// What package h1 does not send, net/http's own Transport may send twice. The body is here, and an answer is stored, not a stream.
		out.Header.Del("Expect")
		out.Header.Del("Upgrade")
		out.Header.Del("Connection")
	}
	if all, ok := in.Body.(io.ReaderAt); ok && out.Body != nil && g.url.Scheme == "http" && !g.h2c {
		// In memory: it is sent on another connection if none of it got out on the first.
		out.GetBody = func() (io.ReadCloser, error) {
			return inMemory{io.NewSectionReader(all, 0, in.ContentLength)}, nil
		}
		out.Body, _ = out.GetBody()
	}
	if g.keyed {
		for _, name := range leadAway {
			out.Header.Del(name)
		}
	}
	for _, name := range keyHeaders {
		if lines, ok := out.Header[name]; ok { // in lower case net/http does not know it, and the program does
			delete(out.Header, name)
			out.Header[strings.ToLower(name)] = lines
		}
	}
}

// inMemory is a body that is all there: package h1 writes a short one together with its headers.
type inMemory struct{ *io.SectionReader }

// Close implements [io.Closer].
func (inMemory) Close() error { return nil }

// Whole reports that no read waits.
func (inMemory) Whole() bool { return true }

// noTwins removes headers such as X_Forwarded_For, which programs behind CGI and its heirs can't tell from those that the
// proxy writes or goes by.
func (g *program) noTwins(h http.Header) {
	for name := range h {
		if strings.IndexByte(name, '_') >= 0 && (tellsOfClient(name) || slices.Contains(g.own, noUnderscores(name))) {
			delete(h, name)
		}
	}
}

// RoundTrip implements [http.RoundTripper]. Of a run it says what becomes of its key when no
// answer comes: a request that found no connection had no effect, and of any other that is not known.
func (g *program) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx := r.Context()
	e := exchangeOf(ctx)
	defer e.answered()
	if !g.timed(r) {
		idempotency.NoEffect(ctx)
		return nil, unsent{errDeadline}
	}
	var connected atomic.Bool
	trace := httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected.Store(true) }}
	if e != nil {
		e.asked.Store(true)
		if e.early != nil {
			trace.Got1xxResponse = e.Got1xx
		}
	}
	resp, err := g.send.RoundTrip(r.WithContext(httptrace.WithClientTrace(ctx, &trace)))
	switch {
	case err == nil:
		if e != nil {
			e.refused.Store(isProblem(resp.StatusCode, resp.Header))
		}
		return resp, nil
	case !connected.Load():
		idempotency.NoEffect(ctx)
		return nil, unsent{err}
	}
	idempotency.OutcomeUnknown(ctx)
	return nil, err
}

// timed tells the program how much time is left, and reports whether there is any.
func (g *program) timed(r *http.Request) bool {
	e := exchangeOf(r.Context())
	if !g.times || e == nil {
		return true
	}
	spent := time.Since(e.came)
	for _, name := range leftHeaders {
		left, ok, _ := gabionhttp.TimeLeft(r.Header, name)
		if ok && !gabionhttp.SetTimeLeft(r.Header, gabionhttp.NextHop(0, left-spent, 0), name) {
			return false
		}
	}
	return true
}

// unsent is an error of a request of which nothing reached the program.
type unsent struct{ error }

// Unwrap returns what kept it from that.
func (u unsent) Unwrap() error { return u.error }

// failed answers a request that brought no answer.
func (g *program) failed(w http.ResponseWriter, r *http.Request, err error) {
	_, never := errors.AsType[unsent](err)
	x := ofClient(r)
	switch {
	case x != nil:
		g.proxy.refuse(w, r, x)
	case errors.Is(err, context.DeadlineExceeded):
		g.proxy.refuse(w, r, &refusal{status: http.StatusGatewayTimeout, reason: policy.CallTimeout.String(), title: "The program did not answer in time",
			detail: "give the request more time, or ask again later", unsent: never, cause: err})
	case never:
		w.Header().Set("Retry-After", "1")
		g.proxy.refuse(w, r, &refusal{status: http.StatusServiceUnavailable, reason: "program_unreachable", title: "The program can't be reached",
			detail: cmp.Or(unreached(err), "send the request again later: nothing of it was done"), unsent: true, cause: err})
	default:
		g.proxy.foreign(w, r, err)
	}
}

// whole holds an answer back until it is stored with its key. Only a stream of events is sent as
// it comes, since it has no end that could be waited for.
type whole struct{ http.ResponseWriter }

// FlushError implements what [http.ResponseController] looks for.
func (w whole) FlushError() error {
	if strings.HasPrefix(w.Header().Get("Content-Type"), "text/event-stream") {
		return http.NewResponseController(w.ResponseWriter).Flush()
	}
	return nil
}
