package gabionhttp_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/gabionhttp"
	"github.com/gabion-go/gabion/policy"
)

// eager is a policy that retries at once and has nothing else in the way, nor is it
// in a hurry: tests with real connections count what a busy machine may hold up.
func eager() policy.Policy {
	return policy.Policy{
		Timeout: policy.Timeout{Call: 2 * time.Minute, Attempt: time.Minute},
		Retry: policy.Retry{
			Backoff: backoff.Full(time.Millisecond, 2*time.Millisecond),
			Budget:  policy.Budget{Off: true},
		},
		Breaker: policy.Breaker{Off: true, Window: 2 * time.Minute},
	}
}

// with returns p, changed.
func with(p policy.Policy, change func(*policy.Policy)) policy.Policy { change(&p); return p }

// bubble is t.Run with a time of its own.
func bubble(t *testing.T, name string, f func(*testing.T)) {
	t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
}

// site is a real server that counts its connections.
type site struct {
	*httptest.Server
	conns, requests atomic.Int32
	dial            func(context.Context, string, string) (net.Conn, error) // nil: of the machine's network
}

func serve(t testing.TB, h http.HandlerFunc) *site { return start(t, h, (*site).Start) }

// serveH2 is serve with TLS and HTTP/2.
func serveH2(t testing.TB, h http.HandlerFunc) *site { return start(t, h, (*site).startH2) }

// servePiped is serve for a bubble: its connections are pipes, so that time passes
// only while everybody waits for it.
func servePiped(t testing.TB, h http.HandlerFunc) *site {
	return start(t, h, func(s *site) { s.pipe(); s.Start() })
}

// servePipedH2 is serveH2 for a bubble.
func servePipedH2(t testing.TB, h http.HandlerFunc) *site {
	return start(t, h, func(s *site) { s.pipe(); s.startH2() })
}

func (s *site) startH2() { s.EnableHTTP2 = true; s.StartTLS() }

func (s *site) pipe() {
	p := &pipes{Listener: s.Listener, conns: make(chan net.Conn), closed: make(chan struct{})}
	s.Listener, s.dial = p, p.dial
	p.Listener.Close() // it lends its address only
}

// pipes is a listener that is reached by its dial.
type pipes struct {
	net.Listener
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case p.conns <- there:
		return here, nil
	case <-p.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Accept waits for a dial.
func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

// Close ends Accept and dial.
func (p *pipes) Close() error { p.once.Do(func() { close(p.closed) }); return nil }

func start(t testing.TB, h http.HandlerFunc, begin func(*site)) *site {
	s := new(site)
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.requests.Add(1)
		h(w, r)
	}))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			s.conns.Add(1)
		}
	}
	begin(s)
	t.Cleanup(s.Close)
	return s
}

// base is a transport of its own, whose connections go with the test.
func base(t testing.TB, s *site) *http.Transport {
	tr := &http.Transport{MaxIdleConnsPerHost: 100}
	if s != nil && s.TLS != nil {
		tr = s.Client().Transport.(*http.Transport).Clone()
	}
	if s != nil && s.dial != nil {
		tr.DialContext = s.dial
	}
	t.Cleanup(tr.CloseIdleConnections)
	return tr
}

// client calls through a dependency with policy p.
func client(t testing.TB, p policy.Policy, rt http.RoundTripper, opts ...gabion.Option) (*http.Client, *gabion.Dependency) {
	d := gabion.New("shop", p, opts...)
	return &http.Client{Transport: &gabionhttp.Transport{Dependency: d, Base: rt}}, d
}

func request(t testing.TB, method, url, body string) *http.Request {
	t.Helper()
	var r io.Reader
	if body != "" {
		r = strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(t.Context(), method, url, r)
	if err != nil {
		t.Fatal(err)
	}
	return req
}

// read reads and closes an answer's body.
func read(t testing.TB, resp *http.Response) string {
	t.Helper()
	all, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Error(err)
	}
	resp.Body.Close()
	return string(all)
}

// roundTripper is a function as an http.RoundTripper.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// answer makes a response as a RoundTripper does.
func answer(req *http.Request, status int, body string, header ...string) *http.Response {
	resp := &http.Response{
		StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{}, Request: req,
		ContentLength: int64(len(body)), Body: io.NopCloser(strings.NewReader(body)),
	}
	for i := 0; i < len(header); i += 2 {
		resp.Header.Set(header[i], header[i+1])
	}
	if req.Body != nil {
		io.Copy(io.Discard, req.Body)
		req.Body.Close()
	}
	return resp
}

// bodies counts the response bodies that pass through it.
type bodies struct {
	http.RoundTripper
	opened, closed atomic.Int32
	twice          atomic.Int32
}

func (b *bodies) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := b.RoundTripper.RoundTrip(req)
	if resp != nil {
		b.opened.Add(1)
		resp.Body = &countedBody{ReadCloser: resp.Body, b: b}
	}
	return resp, err
}

type countedBody struct {
	io.ReadCloser
	b      *bodies
	closed atomic.Bool
}

func (c *countedBody) Close() error {
	if c.closed.Swap(true) {
		c.b.twice.Add(1)
	} else {
		c.b.closed.Add(1)
	}
	return c.ReadCloser.Close()
}

func (b *bodies) check(t testing.TB) {
	t.Helper()
	if o, c := b.opened.Load(), b.closed.Load(); o != c {
		t.Errorf("%d response bodies were opened and %d closed", o, c)
	}
}

// fickle is a server of raw connections. Each connection goes as its script says:
// 'a' answers a request, 'd' reads one and hangs up without an answer. At the end of
// its script a connection is closed.
type fickle struct {
	net.Listener
	mu      sync.Mutex
	scripts []string
	seen    []seen
}

// seen is a request that arrived.
type seen struct{ method, key, body string }

func newFickle(t testing.TB, scripts ...string) *fickle {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &fickle{Listener: l, scripts: scripts}
	t.Cleanup(func() { l.Close() })
	go f.serve()
	return f
}

func (f *fickle) serve() {
	for {
		c, err := f.Accept()
		if err != nil {
			return
		}
		go f.play(c, f.script())
	}
}

func (f *fickle) script() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.scripts) == 0 {
		return "aaaaaaaaaaaaaaaa"
	}
	next := f.scripts[0]
	f.scripts = f.scripts[1:]
	return next
}

func (f *fickle) play(c net.Conn, script string) {
	defer c.Close()
	requests := bufio.NewReader(c)
	for _, act := range script {
		if act == 'g' { // gone for good: dialing again fails
			f.Close()
			continue
		}
		r, err := http.ReadRequest(requests)
		if err != nil {
			return
		}
		text, _ := io.ReadAll(r.Body)
		f.mu.Lock()
		f.seen = append(f.seen, seen{r.Method, r.Header.Get(gabionhttp.HeaderKey), string(text)})
		f.mu.Unlock()
		if act == 'a' {
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
		}
	}
}

func (f *fickle) url() string { return "http://" + f.Addr().String() }

func (f *fickle) arrived() []seen {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]seen(nil), f.seen...)
}

func traced(ctx context.Context, to *[]string) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn:      func(string) { *to = append(*to, "get") },
		GotConn:      func(httptrace.GotConnInfo) { *to = append(*to, "got") },
		WroteHeaders: func() { *to = append(*to, "wrote") },
	})
}

func withInternal(p policy.Policy) policy.Policy { p.Trust = policy.Internal; return p }

// policyReasons are all reasons for which a call can fail.
func policyReasons() []gabion.Reason { return policy.Reasons()[1:] }
