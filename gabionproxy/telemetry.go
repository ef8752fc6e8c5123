package gabionproxy

import (
	"context"
	"net/http"

	"github.com/gabion-go/gabion/internal/adapter"
)

// Telemetry follows requests through a proxy, for traces. Its methods are called on the requests' goroutines: they must not
// wait, and must be safe for concurrent use.
type Telemetry interface {
	// Serving is called with each request to a handler before it is served. The request is served with the context that is returned,
	// and end is called once with what became of it. The request must not be changed.
	Serving(*http.Request) (_ context.Context, end func(Answer))

	// Sending is called with each request that is about to be sent, which are the attempts to the servers of a dependency. For the
	// program behind an ingress the name is empty. What it returns is sent in its place: the request itself, or a copy with other
	// headers and another context. End is called with what came back, before the policy judges it; the body must not be read. End may be nil.
	Sending(dependency string, _ *http.Request) (_ *http.Request, end func(*http.Response, error))

	// Flush sends what is not sent yet. [Run] calls it once it has drained. The context ends with the time of the drain, but not before a second.
	Flush(context.Context)
}

// Answer is what became of a request.
type Answer struct {
	Status   int    // zero if there was none; that of tunnels and upgraded connections, too
	Bytes    int64  // of the body
	Attempts string // as in HeaderAttempts; empty where no policy had a say
	Reason   string // as in HeaderReason; empty for a plain success
	Cut      bool   // the connection was cut, since the answer could not be brought to its end
}

// followed returns what sends requests of a dependency: base, if nothing follows them.
func followed(to Telemetry, dependency string, base http.RoundTripper) http.RoundTripper {
	if to == nil {
		return base
	}
	return &watching{to: to, dependency: dependency, base: base}
}

// watching tells of what it sends.
type watching struct {
	to         Telemetry
	dependency string
	base       http.RoundTripper
}

var _ adapter.Around = (*watching)(nil)

var _ adapter.Prompt = (*watching)(nil)

// Prompt implements adapter.Prompt: it is so where it is so of base.
func (s *watching) Prompt(r *http.Request) bool {
	p, ok := s.base.(adapter.Prompt)
	return ok && p.Prompt(r)
}

// Inside implements adapter.Around.
func (s *watching) Inside() http.RoundTripper { return s.base }

// RoundTrip implements [http.RoundTripper].
func (s *watching) RoundTrip(r *http.Request) (*http.Response, error) {
	out, end := s.to.Sending(s.dependency, r)
	resp, err := s.base.RoundTrip(out)
	if end != nil {
		end(resp, err)
	}
	return resp, err
}

// CloseIdleConnections closes those of base.
func (s *watching) CloseIdleConnections() {
	if c, ok := s.base.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}
