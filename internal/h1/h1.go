// Package h1 sends requests over HTTP/1.1 on the goroutine of their caller. net/http's Transport has two more for each connection,
// and hands every request and every answer over between them, which is a third of what a proxy costs. Requests are written
// and answers are read by net/http's own code.
//
// What is not plain is sent by another RoundTripper: upgrades, Expect, CONNECT, hosts that speak HTTP/2 or whose protocol is
// not known yet, and requests that net/http would refuse.
package h1

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync"
	"time"

	"github.com/gabion-go/gabion/classify"
)

// Transport is an [http.RoundTripper]. Its exported fields must be set before its first use and not change after
// that. It is safe for concurrent use.
//
// It calls the hooks GetConn, GotConn, WroteHeaders and Got1xxResponse of [httptrace.ClientTrace] as net/http does. As net/http
// does it sends a request again, once, whose reused connection ended before a byte of the answer: if none of it was written,
// or if its method or the name of its key says that it may be repeated. A request of which no byte was written has an
// error that says so to package classify.
type Transport struct {
	// Next sends what this Transport does not. It must not be nil.
	Next http.RoundTripper

	// Dial opens a connection. It must not be nil.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	// TLS is what https is spoken with. Nil means the zero Config.
	TLS *tls.Config

	// TLSTime bounds a handshake. Zero means no bound but the request's context.
	TLSTime time.Duration

	// IdleTime is how long a connection may be idle. Zero means no bound.
	IdleTime time.Duration

	// MostIdle is how many idle connections are kept to a host. Zero means none.
	MostIdle int

	// Whole gets answers of unknown length whose body is in memory to its end, which are no streams. Nil means that they are not looked for.
	Whole func(*http.Response)

	// Once reports whether a request of that context must not be sent again, once a byte of it was. Nil means that none must not.
	Once func(ctx context.Context) bool

	mu    sync.Mutex // guards all below
	hosts map[hostKey]*host
	sweep *time.Timer
}

// RoundTrip implements [http.RoundTripper].
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if !plain(req) {
		return t.Next.RoundTrip(req)
	}
	h := t.host(req.URL)
	if h == nil {
		resp, err := t.Next.RoundTrip(req)
		if err == nil && req.URL.Scheme == "https" {
			t.learn(req.URL, resp.ProtoMajor)
		}
		return resp, err
	}
	ctx := req.Context()
	for again := false; ; again = true {
		if ctx.Err() != nil {
			closeBody(req)
			return nil, context.Cause(ctx)
		}
		c, err := t.connect(ctx, h, again)
		if err != nil {
			closeBody(req)
			return nil, err
		}
		resp, err := t.exchange(c, req)
		if err == nil {
			return resp, nil
		}
		var d died
		if !errors.As(err, &d) {
			return nil, err
		}
		if again || !c.reused || !d.unwritten && (!replayable(req) || t.Once != nil && t.Once(ctx)) {
			return nil, d.told()
		}
		if req = rewound(req); req == nil {
			return nil, d.told()
		}
	}
}

// Prompt implements adapter.Prompt: it is so of all requests that are not for Next.
func (t *Transport) Prompt(req *http.Request) bool { return plain(req) && t.host(req.URL) != nil }

// died is the error of a connection that ended before a byte of an answer.
type died struct {
	error
	unwritten bool
}

// Unwrap returns how it ended.
func (d died) Unwrap() error { return d.error }

func (d died) told() error {
	if d.unwritten {
		return classify.NotSent(d.error)
	}
	return d.error
}

// replayable reports whether net/http would take it that a request may be sent twice.
func replayable(req *http.Request) bool {
	switch req.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return true
	}
	return req.Header["Idempotency-Key"] != nil || req.Header["X-Idempotency-Key"] != nil
}

// rewound returns a request with its body from the beginning, nil if there is no such body.
func rewound(req *http.Request) *http.Request {
	if bodiless(req) {
		return req
	}
	if req.GetBody == nil {
		return nil
	}
	body, err := req.GetBody()
	if err != nil {
		return nil
	}
	again := *req
	again.Body = body
	return &again
}

func bodiless(req *http.Request) bool { return req.Body == nil || req.Body == http.NoBody }

func closeBody(req *http.Request) {
	if req.Body != nil {
		req.Body.Close()
	}
}

// connect returns an idle connection that is alive, or a new one.
func (t *Transport) connect(ctx context.Context, h *host, fresh bool) (*conn, error) {
	trace := httptrace.ContextClientTrace(ctx)
	if trace != nil && trace.GetConn != nil {
		trace.GetConn(h.address)
	}
	var c *conn
	for c == nil && !fresh {
		idle := t.take(h)
		if idle == nil {
			break
		}
		if !idle.alive() {
			idle.Conn.Close()
			continue
		}
		idle.reused, c = true, idle
	}
	if c == nil {
		var err error
		if c, err = t.dial(ctx, h); err != nil {
			if end, timed := ctx.Deadline(); timed && !time.Now().Before(end) {
				<-ctx.Done() // a dialer has a timer of its own, which may be the first
			}
			if ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			return nil, err
		}
	}
	if trace != nil && trace.GotConn != nil {
		trace.GotConn(httptrace.GotConnInfo{Conn: c.Conn, Reused: c.reused, WasIdle: c.reused})
	}
	return c, nil
}

func (t *Transport) dial(ctx context.Context, h *host) (*conn, error) {
	socket, err := t.Dial(ctx, "tcp", h.address)
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: socket, home: h, abort: func() { socket.Close() }}
	c.socket = socketOf(socket)
	if h.secure == nil {
		return c, nil
	}
	timed, cancel := ctx, context.CancelFunc(func() {})
	if t.TLSTime > 0 {
		timed, cancel = context.WithTimeout(ctx, t.TLSTime)
	}
	defer cancel()
	secure := tls.Client(socket, h.secure)
	if err := secure.HandshakeContext(timed); err != nil {
		socket.Close()
		if timed.Err() != nil && ctx.Err() == nil {
			err = errTLSTime
		}
		return nil, err
	}
	c.Conn = secure
	state := secure.ConnectionState()
	c.tls = &state
	return c, nil
}

var errTLSTime error = slow("h1: TLS handshake timeout")

// slow is a [net.Error] of a time that is over.
type slow string

func (s slow) Error() string { return string(s) }

// Timeout implements [net.Error].
func (slow) Timeout() bool { return true }

// Temporary implements [net.Error].
func (slow) Temporary() bool { return true }

// headerLimit is how many bytes the headers of an answer may have: as net/http has it.
const headerLimit = 10 << 20

var errHeaders = fmt.Errorf("h1: the server's headers are longer than %d bytes", headerLimit)
