package e2e

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/classify"
	"github.com/gabion-go/gabion/gabionhttp"
	"github.com/gabion-go/gabion/gabiontest"
	"github.com/gabion-go/gabion/policy"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// A script is what an http2Server does with the requests of a connection, in their
// order, once they have come whole. At its end it answers.
type script []act

type act func(c *h2conn, stream uint32)

func rstStream(code http2.ErrCode) act {
	return func(c *h2conn, stream uint32) { c.frames.WriteRSTStream(stream, code) }
}

// goAway says that no stream after last was looked at.
func goAway(last uint32, code http2.ErrCode) act {
	return func(c *h2conn, _ uint32) { c.frames.WriteGoAway(last, code, nil) }
}

// hangUp ends the connection.
func hangUp(c *h2conn, _ uint32) { c.conn.Close() }

// then does one after the other.
func then(all ...act) act {
	return func(c *h2conn, stream uint32) {
		for _, a := range all {
			a(c, stream)
		}
	}
}

func ok(c *h2conn, stream uint32) {
	var head bytes.Buffer
	hpack.NewEncoder(&head).WriteField(hpack.HeaderField{Name: ":status", Value: "200"})
	c.frames.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: head.Bytes(), EndHeaders: true})
	c.frames.WriteData(stream, true, []byte("ok"))
}

// An http2Server speaks HTTP/2 frame by frame. Its connections go by its scripts, one
// each, and then answer.
type http2Server struct {
	net.Listener
	url   string
	wrote chan struct{} // the client knows that it wrote a request's headers

	mu      sync.Mutex // guards all below
	scripts []script
	every   script // of the connections after those
	arrived []arrival
}

// An arrival is a request that came whole.
type arrival struct{ method, key, body string }

type h2conn struct {
	server *http2Server
	conn   net.Conn
	frames *http2.Framer
	script script
	open   map[uint32]*arrival
}

// serveHTTP2 listens until the test is over.
func serveHTTP2(t testing.TB, overTLS bool, scripts ...script) (*http2Server, *http.Transport) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &http2Server{Listener: l, scripts: scripts, url: "http://" + l.Addr().String(), wrote: make(chan struct{}, 100)}
	tr := &http.Transport{Protocols: new(http.Protocols)}
	if overTLS {
		lent := httptest.NewUnstartedServer(nil) // its certificate
		lent.StartTLS()
		lent.Close()
		s.Listener = tls.NewListener(l, &tls.Config{Certificates: lent.TLS.Certificates, NextProtos: []string{"h2"}})
		s.url = "https://" + l.Addr().String()
		tr.TLSClientConfig = lent.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
		tr.Protocols.SetHTTP1(true)
		tr.Protocols.SetHTTP2(true)
	} else {
		tr.Protocols.SetUnencryptedHTTP2(true)
	}
	t.Cleanup(func() { s.Close(); tr.CloseIdleConnections() })
	go s.serve()
	return s, tr
}

// play sets what connections go by from now on: the first ones each by its own script.
func (s *http2Server) play(every script, first ...script) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.every, s.scripts = every, first
}

func (s *http2Server) serve() {
	for {
		conn, err := s.Accept()
		if err != nil {
			return
		}
		c := &h2conn{server: s, conn: conn, open: map[uint32]*arrival{}}
		s.mu.Lock()
		c.script = s.every
		if len(s.scripts) > 0 {
			c.script, s.scripts = s.scripts[0], s.scripts[1:]
		}
		s.mu.Unlock()
		go c.serve()
	}
}

func (s *http2Server) seen() []arrival {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]arrival(nil), s.arrived...)
}

func (c *h2conn) serve() {
	defer c.conn.Close()
	if _, err := io.ReadFull(c.conn, make([]byte, len(http2.ClientPreface))); err != nil {
		return
	}
	c.frames = http2.NewFramer(c.conn, c.conn)
	c.frames.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	c.frames.WriteSettings()
	for {
		f, err := c.frames.ReadFrame()
		if err != nil {
			return
		}
		switch f := f.(type) {
		case *http2.SettingsFrame:
			if !f.IsAck() {
				c.frames.WriteSettingsAck()
			}
		case *http2.PingFrame:
			if !f.IsAck() {
				c.frames.WritePing(true, f.Data)
			}
		case *http2.MetaHeadersFrame:
			c.begin(f)
		case *http2.DataFrame:
			if a := c.open[f.StreamID]; a != nil {
				a.body += string(f.Data())
				if f.StreamEnded() {
					c.came(f.StreamID)
				}
			}
		}
	}
}

func (c *h2conn) begin(f *http2.MetaHeadersFrame) {
	a := &arrival{method: f.PseudoValue("method")}
	for _, field := range f.RegularFields() {
		if field.Name == "idempotency-key" {
			a.key = field.Value
		}
	}
	c.open[f.StreamID] = a
	if f.StreamEnded() {
		c.came(f.StreamID)
	}
}

// came plays the next act for a request that is whole. The client's trace tells it of
// the headers a moment after they left: an act before that would go uncounted.
func (c *h2conn) came(stream uint32) {
	select {
	case <-c.server.wrote:
	case <-time.After(20 * time.Second):
	}
	c.server.mu.Lock()
	c.server.arrived = append(c.server.arrived, *c.open[stream])
	c.server.mu.Unlock()
	delete(c.open, stream)
	next := act(ok)
	if len(c.script) > 0 {
		next, c.script = c.script[0], c.script[1:]
	}
	next(c, stream)
}

// What net/http does with a request that its HTTP/2 server refused, let go or broke, and
// what gabion makes of what is left (SPEC B4, B5). A request that was not looked at is sent
// again by the policy alone where it has a body (ADR 31), and by net/http where it has none and is
// safe. What may have been looked at is sent again only where that is safe.
func TestHTTP2(t *testing.T) {
	type request struct {
		name, method, key, body string
		oneWay                  bool
	}
	get := request{name: "GET", method: "GET"}
	put := request{name: "PUT", method: "PUT", body: "charge"}
	post := request{name: "POST", method: "POST", body: "charge"}
	bare := request{name: "POST without a body", method: "POST"}
	oneWay := request{name: "POST of a body that can't be had again", method: "POST", body: "charge", oneWay: true}
	keyed := request{name: "POST with a key", method: "POST", body: "charge", key: "k"}

	// How a request ends.
	type end struct {
		arrived  int   // whole, at the server
		hidden   int64 // of them sent by net/http
		attempts int   // by the policy
		reason   gabion.Reason
	}
	var (
		again   = end{2, 1, 1, 0} // by net/http
		retried = end{2, 0, 2, 0} // by the policy
		refused = end{1, 0, 1, policy.BodyNotRewindable}
		doubt   = func(why gabion.Reason) end { return end{1, 0, 1, why} }
	)
	for _, c := range []struct {
		name   string
		script script // of the first connection
		ends   map[string]end
	}{
		{"GOAWAY to the first of all requests", script{then(goAway(0, http2.ErrCodeInternal), hangUp)}, map[string]end{
			get.name: retried, put.name: retried, post.name: doubt(policy.NotSafe), bare.name: doubt(policy.NotSafe), keyed.name: retried, oneWay.name: doubt(policy.NotSafe)}},
		{"the stream is refused", script{ok, rstStream(http2.ErrCodeRefusedStream)}, map[string]end{
			get.name: again, put.name: retried, post.name: retried, bare.name: doubt(policy.NotSafe), keyed.name: retried, oneWay.name: refused}},
		{"GOAWAY before the request", script{ok, goAway(1, http2.ErrCodeNo)}, map[string]end{
			get.name: again, put.name: retried, post.name: retried, bare.name: doubt(policy.NotSafe), keyed.name: retried, oneWay.name: refused}},
		{"GOAWAY before the request, and the end", script{ok, then(goAway(1, http2.ErrCodeEnhanceYourCalm), hangUp)}, map[string]end{
			get.name: again, put.name: retried, post.name: retried, bare.name: doubt(policy.NotSafe), keyed.name: retried, oneWay.name: refused}},
		{"GOAWAY after the request, and the end", script{ok, then(goAway(3, http2.ErrCodeNo), hangUp)}, map[string]end{
			get.name: retried, put.name: retried, post.name: doubt(policy.NotSafe), bare.name: doubt(policy.NotSafe), keyed.name: retried, oneWay.name: doubt(policy.NotSafe)}},
		{"the end", script{ok, hangUp}, map[string]end{
			get.name: retried, put.name: retried, post.name: doubt(policy.NotSafe), bare.name: doubt(policy.NotSafe), keyed.name: retried, oneWay.name: doubt(policy.NotSafe)}},
		{"the stream is cancelled", script{ok, rstStream(http2.ErrCodeCancel)}, map[string]end{
			get.name: retried, put.name: retried, post.name: doubt(policy.NotSafe), bare.name: doubt(policy.NotSafe), keyed.name: retried, oneWay.name: doubt(policy.NotSafe)}},
		{"the server failed", script{ok, rstStream(http2.ErrCodeInternal)}, map[string]end{
			get.name: retried, put.name: retried, post.name: doubt(policy.NotSafe), bare.name: doubt(policy.NotSafe), keyed.name: retried, oneWay.name: doubt(policy.NotSafe)}},

		// This proves nothing, and net/http would send any request again all the same
		// (go.dev/issue/47635).
		{"a violation of the protocol, says the server", script{ok, rstStream(http2.ErrCodeProtocol)}, map[string]end{
			get.name: again, put.name: retried, post.name: doubt(policy.NotSafe), bare.name: doubt(policy.NotSafe), keyed.name: retried, oneWay.name: doubt(policy.NotSafe)}},
	} {
		for _, overTLS := range []bool{true, false} {
			for _, r := range []request{get, put, post, bare, keyed, oneWay} {
				t.Run(fmt.Sprintf("%s, TLS %v, %s", c.name, overTLS, r.name), func(t *testing.T) {
					s, base := serveHTTP2(t, overTLS, c.script)
					var events gabiontest.Recorder
					d := gabion.New("shop", policy.Policy{
						Retry:   policy.Retry{Attempts: 2, Backoff: backoff.Full(time.Millisecond, 2*time.Millisecond)},
						Breaker: policy.Breaker{Off: true},
						HTTP:    policy.HTTP{ReplayLimit: -1},
					}, gabion.WithObserver(&events))
					transport := &gabionhttp.Transport{Dependency: d, Base: base}
					client := &http.Client{Transport: transport}
					call := func(method, key string, body io.Reader) error {
						ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{WroteHeaders: func() { s.wrote <- struct{}{} }})
						req, err := http.NewRequestWithContext(ctx, method, s.url, body)
						if err != nil {
							t.Fatal(err)
						}
						if key != "" {
							req.Header.Set("Idempotency-Key", key)
						}
						resp, err := client.Do(req)
						if err != nil {
							return err
						}
						defer resp.Body.Close()
						_, err = io.Copy(io.Discard, resp.Body)
						return err
					}
					warm := 0
					if len(c.script) > 1 { // its first act is for this one
						warm++
						if err := call("GET", "", nil); err != nil {
							t.Fatal(err)
						}
					}
					var body io.Reader
					if r.body != "" {
						body = strings.NewReader(r.body)
					}
					if r.oneWay {
						body = io.MultiReader(body)
					}
					err := call(r.method, r.key, body)
					got := end{arrived: len(s.seen()) - warm, attempts: -warm, hidden: transport.Hidden()}
					for _, e := range events.Events() {
						if e.Kind == policy.KindAttemptSent {
							got.attempts++
						}
					}
					if err != nil {
						got.reason = gabion.ReasonOf(err)
						if (gabion.EffectOf(err) == policy.UnknownEffect) != (got.reason == policy.NotSafe) {
							t.Errorf("the error says %v", err)
						}
					}
					if got != c.ends[r.name] {
						t.Errorf("%+v, want %+v (%v)", got, c.ends[r.name], err)
					}
					for _, a := range s.seen()[warm:] {
						if a.method != r.method || a.key != r.key || a.body != r.body {
							t.Errorf("arrived: %s %q with %d bytes", a.method, a.key, len(a.body))
						}
					}
				})
			}
		}
	}
}

// x/net's own transport has the type that net/http keeps to itself.
func TestGoAwayOfXNet(t *testing.T) {
	for code, class := range map[http2.ErrCode]policy.Class{http2.ErrCodeNo: policy.ClassNetwork, http2.ErrCodeEnhanceYourCalm: policy.ClassThrottled} {
		err := fmt.Errorf("call: %w", http2.GoAwayError{LastStreamID: 3, ErrCode: code})
		if got := classify.Error(err); got.Class != class || got.Effect != policy.UnknownEffect || got.NeverSent {
			t.Errorf("%v: %+v", err, got)
		}
	}
}
