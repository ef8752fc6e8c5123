package idempotency

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// The ways on which a request comes to a Handler. On the empty one it is called, without
// a server.
const (
	http1 = "HTTP/1.1"
	http2 = "HTTP/2"
	h2c   = "HTTP/2 without TLS"
)

// overAll runs a test on every way.
func overAll(t *testing.T, test func(*testing.T, string)) {
	t.Run("called", func(t *testing.T) { test(t, "") })
	overWires(t, test)
}

// overWires runs a test on those that have a server.
func overWires(t *testing.T, test func(*testing.T, string)) {
	for _, protocol := range []string{http1, http2, h2c} {
		t.Run(protocol, func(t *testing.T) { test(t, protocol) })
	}
}

// A wire is a server and a client of it that speak one protocol.
type wire struct {
	testing.TB
	*httptest.Server
	client  *http.Client
	serving sync.WaitGroup

	mu     sync.Mutex // guards closed, and that no request begins once it is set
	closed bool
}

// Close ends the server and waits for its handlers, which httptest does only of HTTP/1.1.
func (w *wire) Close() {
	w.Server.Close()
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.serving.Wait()
}

// begin counts a handler. HTTP/2 may start one when the server is closed already.
func (w *wire) begin() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.closed {
		w.serving.Add(1)
	}
	return !w.closed
}

// serveOver serves h until the test is over.
func serveOver(t testing.TB, protocol string, h http.Handler) *wire {
	t.Helper()
	w := &wire{TB: t}
	w.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if !w.begin() {
			panic(http.ErrAbortHandler)
		}
		defer w.serving.Done()
		if over1, want1 := r.ProtoMajor == 1, protocol == http1; over1 != want1 {
			t.Errorf("spoke %s, want %s", r.Proto, protocol)
		}
		h.ServeHTTP(rw, r)
	}))
	switch protocol {
	case http1:
		w.Start()
	case http2:
		w.EnableHTTP2 = true
		w.StartTLS()
	case h2c:
		w.Config.Protocols = new(http.Protocols)
		w.Config.Protocols.SetUnencryptedHTTP2(true)
		w.Start()
	default:
		t.Fatalf("there is no %q", protocol)
	}
	w.client = w.Server.Client()
	transport := w.client.Transport.(*http.Transport)
	transport.DisableCompression = true // the bytes, as they are
	if protocol == h2c {
		transport.Protocols = w.Config.Protocols
	}
	t.Cleanup(w.Close)
	return w
}

// request makes a client's request of one that was made for a Handler. Only the test sends it
// again.
func (w *wire) request(r *http.Request) *http.Request {
	w.Helper()
	req, err := http.NewRequestWithContext(w.Context(), r.Method, w.URL+r.URL.RequestURI(), r.Body)
	if err != nil {
		w.Fatal(err)
	}
	req.Header, req.ContentLength = r.Header, r.ContentLength
	return req
}

// do sends a request and returns the whole answer. Its status is 0 when none came.
func (w *wire) do(req *http.Request) *httptest.ResponseRecorder {
	w.Helper()
	got, err := w.fetch(req)
	if err != nil && got.Code != 0 {
		w.Errorf("the answer broke off: %v", err)
	}
	return got
}

// fetch sends a request and returns what came of an answer, and why it did not come
// whole.
func (w *wire) fetch(req *http.Request) (*httptest.ResponseRecorder, error) {
	got := &httptest.ResponseRecorder{Body: new(bytes.Buffer), HeaderMap: http.Header{}}
	resp, err := w.client.Do(req)
	if err != nil {
		return got, err
	}
	defer resp.Body.Close()
	got.Code, got.HeaderMap = resp.StatusCode, resp.Header
	_, err = got.Body.ReadFrom(resp.Body)
	return got, err
}

// unknownLength returns a reader of whose length a client knows nothing.
func unknownLength(s string) io.Reader { return io.MultiReader(strings.NewReader(s)) }
