package gabionproxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/gabionhttp"
	"github.com/gabion-go/gabion/internal/serving"
	"github.com/gabion-go/gabion/policy"
)

// NewTransport returns what a gateway with a reverse proxy of its own sends its requests with: Caddy, or
// httputil.ReverseProxy. Requests go to the servers that the gateway chooses, by the policy of that dependency, and bodies
// are remembered within the proxy's bound. The answers say what was done, as those of [Proxy.Handler] do. A refusal is an answer
// too, so that the gateway neither repeats it nor makes a page of its own. There is an error where the gateway's client is gone.
//
// [Options.Telemetry] gets the attempts, and not the requests: those are the gateway's.
//
// Base sends the attempts and is not nil. It must not repeat requests. Where it is an *http.Transport, its DisableCompression should
// be true. The error says that the registry has no dependency of that name. The transport is safe for concurrent use.
func NewTransport(p *Proxy, dependency string, base http.RoundTripper) (http.RoundTripper, error) {
	if base == nil {
		return nil, errors.New("gabionproxy: the transport below is nil")
	}
	d, err := p.registry.Get(dependency)
	if err != nil {
		return nil, fmt.Errorf("gabionproxy: %w", err)
	}
	base = followed(p.options.Telemetry, dependency, base)
	g := &gateway{proxy: p, to: upstream{base: base}}
	g.to.under(d)
	return g, nil
}

// gateway sends the requests of another's reverse proxy.
type gateway struct {
	proxy *Proxy
	to    upstream
}

// RoundTrip implements [http.RoundTripper].
func (g *gateway) RoundTrip(r *http.Request) (*http.Response, error) {
	t := &g.proxy.tally
	t.requests.Add(1)
	t.out.Add(1)
	e := new(exchange)
	ctx := context.WithValue(gabionhttp.WithVerdict(r.Context(), &e.verdict), exchangeKey{}, e)
	if pri := serving.ReadPriority(r.Header[gabionhttp.HeaderPriority], true); pri != policy.PriorityNormal {
		ctx = gabion.ContextWithPriority(ctx, pri)
	}
	cancel := func() {}
	if left, ok, _ := gabionhttp.TimeLeft(r.Header, leftHeaders...); ok {
		ctx, cancel = context.WithTimeoutCause(ctx, left, errDeadline)
	}
	out := r.WithContext(ctx)
	out.Header = r.Header.Clone()
	forget := g.remember(e, r)
	e.resends(out)
	noUpgrade(out)
	over := func() {
		forget()
		cancel()
		t.out.Add(-1)
	}
	resp, err := g.to.RoundTrip(out)
	switch {
	case err != nil && errors.Is(r.Context().Err(), context.Canceled):
		over()
		return nil, err
	case err != nil:
		resp = g.refused(out, err)
	default:
		_ = told(resp)
	}
	if _, connection := resp.Body.(io.Writer); connection {
		forget() // such a request has no body; its deadline ends by itself
		t.out.Add(-1)
		return resp, nil
	}
	resp.Body = &ending{ReadCloser: resp.Body, over: over}
	return resp, nil
}

// remember keeps the request's body for further attempts. What it returns lets go of it, once.
func (g *gateway) remember(e *exchange, r *http.Request) (forget func()) {
	switch {
	case r.Body == nil || r.Body == http.NoBody:
		return func() {}
	case r.ContentLength == 0: // and no more than that is known
		return func() { r.Body.Close() }
	}
	e.body = g.proxy.bodies.remember(r, g.to.replayLimit())
	return func() {
		if e.body.end() {
			go r.Body.Close() // which waits for the Read that is under way, or ends it
			return
		}
		r.Body.Close()
	}
}

// refused is the refusal as an answer.
func (g *gateway) refused(r *http.Request, err error) *http.Response {
	w := recorded{head: http.Header{}}
	g.proxy.failed(&w, r, err)
	resp := &http.Response{Status: fmt.Sprintf("%d %s", w.status, http.StatusText(w.status)), StatusCode: w.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: w.head, Body: io.NopCloser(&w.body), ContentLength: int64(w.body.Len()), Request: r}
	if r.Method == http.MethodHead {
		resp.Body = http.NoBody
	}
	return resp
}

// recorded is an answer of the proxy's own, on its way to one of a transport.
type recorded struct {
	head   http.Header
	status int
	body   bytes.Buffer
}

// Header implements [http.ResponseWriter].
func (w *recorded) Header() http.Header { return w.head }

// Write implements [http.ResponseWriter].
func (w *recorded) Write(p []byte) (int, error) { return w.body.Write(p) }

// WriteHeader implements [http.ResponseWriter].
func (w *recorded) WriteHeader(status int) { w.status = status }

// ending is the body of an answer that ends its exchange when it is closed.
type ending struct {
	io.ReadCloser
	over func()
	once sync.Once
}

// Close ends the exchange.
func (b *ending) Close() error {
	err := b.ReadCloser.Close()
	b.once.Do(b.over)
	return err
}
