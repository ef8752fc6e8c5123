package gabionotel

import (
	"net/http"
	"sync"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/propagation"
)

// Transport is an http.RoundTripper that writes the headers of the trace and the baggage in
// a request's context, and does nothing else. It belongs below gabionhttp.Transport, as its
// Base, so that each attempt has a traceparent of its own. Otelhttp's Transport does the
// same and makes a span; do not use both.
//
// The zero Transport is ready. It is safe for concurrent use; its fields must not change
// after the first use.
type Transport struct {
	// Base sends the requests. Nil means a copy of http.DefaultTransport that keeps up to 256
	// idle connections to a host; http.DefaultTransport itself where it is no
	// *http.Transport.
	Base http.RoundTripper

	// Propagator writes the headers. Nil means otel.GetTextMapPropagator(), which writes
	// nothing until the program sets one.
	Propagator propagation.TextMapPropagator

	once sync.Once
	own  http.RoundTripper // in place of a nil Base
}

// mostIdle is how many idle connections to a host are kept. The default of net/http is
// two, so that a busy client would make new ones all the time.
const mostIdle = 256

func (t *Transport) base() http.RoundTripper {
	if t.Base != nil {
		return t.Base
	}
	t.once.Do(func() {
		std, ok := http.DefaultTransport.(*http.Transport)
		if !ok {
			t.own = http.DefaultTransport
			return
		}
		own := std.Clone()
		own.MaxIdleConnsPerHost = max(own.MaxIdleConnsPerHost, mostIdle)
		if own.MaxIdleConns > 0 {
			own.MaxIdleConns = max(own.MaxIdleConns, mostIdle)
		}
		t.own = own
	})
	return t.own
}

// RoundTrip implements http.RoundTripper. It never changes req. What an earlier hop, or
// something above, wrote into the propagator's headers is replaced if the propagator has
// something to write, and stays otherwise.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	p := t.Propagator
	if p == nil {
		p = otel.GetTextMapPropagator()
	}
	ctx, written := req.Context(), propagation.HeaderCarrier{}
	p.Inject(ctx, written)
	if len(written) == 0 {
		return t.base().RoundTrip(req)
	}
	out := req.WithContext(ctx) // a shallow copy
	out.Header = req.Header.Clone()
	if out.Header == nil {
		out.Header = http.Header{}
	}
	for _, name := range p.Fields() {
		out.Header.Del(name)
	}
	for name, values := range written {
		out.Header[name] = values
	}
	return t.base().RoundTrip(out)
}

// CloseIdleConnections closes those of Base.
func (t *Transport) CloseIdleConnections() {
	if c, ok := t.base().(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}
