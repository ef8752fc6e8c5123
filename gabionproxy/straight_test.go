package gabionproxy

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/textproto"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// client notes the statuses that it gets, and calls on at each of them.
type client struct {
	head http.Header
	gone error // what a Write ends with
	on   func(status int)
	mu   sync.Mutex // guards got
	got  []int
}

func (c *client) Header() http.Header { return c.head }

func (c *client) Write(p []byte) (int, error) { return len(p), c.gone }

func (c *client) WriteHeader(status int) {
	c.mu.Lock()
	c.got = append(c.got, status)
	c.mu.Unlock()
	if c.on != nil {
		c.on(status)
	}
}

// trip is a server, as a function.
type trip func(*http.Request) (*http.Response, error)

func (t trip) RoundTrip(r *http.Request) (*http.Response, error) { return t(r) }

// onRead calls a function before it ends.
type onRead func()

func (o onRead) Read([]byte) (int, error) { o(); return 0, io.EOF }

func (o onRead) Close() error { return nil }

// goesBy passes a request on to a server.
func goesBy(c *client, server trip) {
	e := new(exchange)
	e.within = within{context.Background(), e}
	p := &Proxy{options: Options{Log: slog.New(slog.DiscardHandler)}}
	p.passed(c, httptest.NewRequest("GET", "http://h/", nil).WithContext(&e.within), e, &httputil.ReverseProxy{Rewrite: func(*httputil.ProxyRequest) {}, Transport: server})
}

// An attempt that was left may still hear of an early answer when another one has brought the last.
func TestNoEarlyAnswerFollowsTheLast(t *testing.T) {
	c := &client{head: http.Header{}}
	goesBy(c, func(r *http.Request) (*http.Response, error) {
		exchangeOf(r.Context()).Got1xx(103, textproto.MIMEHeader{"Link": {"early"}})
		late := onRead(func() { exchangeOf(r.Context()).Got1xx(103, textproto.MIMEHeader{"Link": {"late"}}) })
		return &http.Response{StatusCode: 200, Header: http.Header{"A": {"b"}}, Body: late, ContentLength: -1, Request: r}, nil
	})
	if !slices.Equal(c.got, []int{103, 200}) || c.head.Get("A") != "b" || c.head.Get("Link") != "" {
		t.Error(c.got, c.head)
	}
}

// Headers have one writer at a time: the last answer waits until an early one is written.
func TestTheLastAnswerWaitsForAnEarlyOne(t *testing.T) {
	c := &client{head: http.Header{}}
	writes, last := make(chan struct{}), make(chan struct{})
	c.on = func(status int) {
		if status == 200 {
			close(last)
			return
		}
		close(writes)
		select {
		case <-last:
			t.Error("the last answer came while an early one was written")
		case <-time.After(50 * time.Millisecond): // nothing tells of a wait for a lock
		}
	}
	goesBy(c, func(r *http.Request) (*http.Response, error) {
		go exchangeOf(r.Context()).Got1xx(103, textproto.MIMEHeader{"Link": {"early"}})
		<-writes
		return &http.Response{StatusCode: 200, Header: http.Header{}, Body: http.NoBody, Request: r}, nil
	})
	if <-last; !slices.Equal(c.got, []int{103, 200}) {
		t.Error(c.got)
	}
}

// Trailers that were announced go on as they were, and others with a mark.
func TestTrailersComeAfterTheBody(t *testing.T) {
	for _, c := range []struct {
		fact, name string
		announced  http.Header
	}{
		{"announced", "Sum", http.Header{"Sum": nil}}, {"not announced", http.TrailerPrefix + "Sum", http.Header{}},
	} {
		to := &client{head: http.Header{}}
		goesBy(to, func(r *http.Request) (*http.Response, error) {
			resp := &http.Response{StatusCode: 200, Header: http.Header{}, Trailer: c.announced, ContentLength: -1, Request: r}
			resp.Body = onRead(func() { resp.Trailer["Sum"] = []string{"7"} })
			return resp, nil
		})
		if got := to.head[c.name]; !slices.Equal(got, []string{"7"}) {
			t.Error(c.fact, to.head)
		}
	}
}

// closes is a body without an end that notes its Close.
type closes struct{ closed bool }

func (c *closes) Read(p []byte) (int, error) { return len(p), nil }

func (c *closes) Close() error { c.closed = true; return nil }

func TestTheBodyForAClientThatIsGoneIsClosed(t *testing.T) {
	c, body := &client{head: http.Header{}, gone: errCut}, new(closes)
	goesBy(c, func(r *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 200, Header: http.Header{}, Body: body, ContentLength: 1 << 40, Request: r}, nil
	})
	if !body.closed {
		t.Error("the server's connection stays open")
	}
}

// What is about one connection stays on it, in both directions, and so does what Connection names.
func TestWhatIsAboutOneConnectionStaysOnIt(t *testing.T) {
	about := func() http.Header {
		return http.Header{
			"Connection": {"Named, keep-alive", "Also"}, "Named": {"1"}, "Also": {"1"}, "Keep-Alive": {"timeout=1"}, "Proxy-Connection": {"close"}, "Proxy-Authenticate": {"Basic"},
			"Proxy-Authorization": {"Basic eA=="}, "Te": {"gzip, trailers"}, "Trailer": {"Sum"}, "Transfer-Encoding": {"gzip"}, "Kept": {"1"}, "User-Agent": {"a"},
		}
	}
	names := func(h http.Header) string {
		var all []string
		for name, lines := range h {
			all = append(all, name+"="+strings.Join(lines, ","))
		}
		slices.Sort(all)
		return strings.Join(all, " ")
	}
	e := new(exchange)
	e.within = within{context.Background(), e}
	in := httptest.NewRequest("GET", "http://h/", nil).WithContext(&e.within)
	in.Header = about()
	out := outgoing(in, e, func(*httputil.ProxyRequest) {})
	if got := names(out.Header); got != "Kept=1 Te=trailers User-Agent=a" {
		t.Error("the server gets", got)
	}
	if len(in.Header) != len(about()) {
		t.Error("the client's own headers were changed:", names(in.Header))
	}
	c := &client{head: http.Header{}}
	goesBy(c, func(r *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 200, Header: about(), Body: http.NoBody, Request: r}, nil
	})
	if got := names(c.head); got != "Kept=1 User-Agent=a" {
		t.Error("the client gets", got)
	}
}
