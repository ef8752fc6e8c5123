package h1_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gabion-go/gabion/classify"
	"github.com/gabion-go/gabion/internal/h1"
)

const short = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

// ask sends a request and returns what the trace of it saw, in its order.
func ask(t *testing.T, rt http.RoundTripper, ctx context.Context, method string, body io.Reader, keyed bool) (saw string, err error) {
	t.Helper()
	var mu sync.Mutex // a request is still written when its time is over
	var all []string
	add := func(word string) {
		mu.Lock()
		defer mu.Unlock()
		all = append(all, word)
	}
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn: func(string) { add("get") },
		GotConn: func(i httptrace.GotConnInfo) {
			if i.Reused {
				add("reused")
			} else {
				add("new")
			}
		},
		WroteHeaders: func() { add("wrote") },
	})
	req, _ := http.NewRequestWithContext(ctx, method, "http://server.example/", body)
	if keyed {
		req.Header.Set("Idempotency-Key", "k")
	}
	resp, err := rt.RoundTrip(req)
	if err == nil {
		_, err = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
	mu.Lock()
	defer mu.Unlock()
	return strings.Join(all, " "), err
}

// dies is a server that answers the first request of each connection and closes it when the second was read.
func dies(read *atomic.Int32) func(net.Conn) {
	return func(c net.Conn) {
		defer c.Close()
		r := bufio.NewReader(c)
		for i := range 2 {
			req, err := http.ReadRequest(r)
			if err != nil {
				return
			}
			io.Copy(io.Discard, req.Body)
			read.Add(1)
			if i == 0 {
				io.WriteString(c, short)
			}
		}
	}
}

func TestAReusedConnectionThatDiesIsReplacedOnlyWhereThatIsSafe(t *testing.T) {
	const again = "get reused wrote get new wrote"
	for _, c := range []struct {
		name, method, body string
		keyed              bool
		saw                string
		fails              bool
	}{
		{"GET is sent again, once and on a new connection", "GET", "", false, again, false},
		{"a POST with a key too", "POST", "body", true, again, false},
		{"a POST without is not", "POST", "body", false, "get reused wrote", true},
		{"nor a DELETE, which is for the policy to repeat", "DELETE", "", false, "get reused wrote", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var read atomic.Int32
			rt := ours(listens(t, dies(&read)))
			if _, err := ask(t, rt, t.Context(), "GET", nil, false); err != nil {
				t.Fatal(err)
			}
			var body io.Reader
			if c.body != "" {
				body = strings.NewReader(c.body)
			}
			saw, err := ask(t, rt, t.Context(), c.method, body, c.keyed)
			if saw != c.saw || (err != nil) != c.fails || err != nil && classify.Error(err).NeverSent {
				t.Errorf("saw %s, %v", saw, err)
			}
			if want := int32(strings.Count(c.saw, "wrote")) + 1; read.Load() != want {
				t.Errorf("the server read %d requests, and not %d", read.Load(), want)
			}
		})
	}
}

func TestAFreshConnectionThatDiesIsNotReplaced(t *testing.T) {
	saw, err := ask(t, ours(listens(t, func(c net.Conn) { c.Close() })), t.Context(), "GET", nil, false)
	if saw != "get new wrote" || err == nil {
		t.Error(saw, err)
	}
}

// What the server has closed before is seen before anything is written, so that a POST gets a new connection.
func TestAnIdleConnectionThatTheServerClosedIsNotUsed(t *testing.T) {
	closed := make(chan bool)
	rt := ours(listens(t, func(c net.Conn) {
		(&answers{says: short, close: true}).serve(c)
		closed <- true
	}))
	for range 3 {
		saw, err := ask(t, rt, t.Context(), "POST", strings.NewReader("body"), false)
		if saw != "get new wrote" || err != nil {
			t.Error(saw, err)
		}
		<-closed
	}
}

func TestAnEndOfTheContextEndsEachWait(t *testing.T) {
	mute := func(c net.Conn) { io.Copy(io.Discard, c) }
	halfAnswer := func(c net.Conn) {
		http.ReadRequest(bufio.NewReader(c))
		io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\nok")
		io.Copy(io.Discard, c)
	}
	halfHeader := func(c net.Conn) {
		http.ReadRequest(bufio.NewReader(c))
		io.WriteString(c, "HTTP/1.1 200 OK\r\nConten")
		io.Copy(io.Discard, c)
	}
	why := errors.New("why")
	for name, serve := range map[string]func(net.Conn){"for an answer": mute, "for its headers": halfHeader, "for its body": halfAnswer} {
		for _, after := range []time.Duration{2 * time.Millisecond, 40 * time.Millisecond} { // with and without a watch
			for _, body := range []io.Reader{nil, blocks{}} {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					ctx, cancel := context.WithTimeoutCause(t.Context(), after, why)
					defer cancel()
					if _, err := ask(t, ours(listens(t, serve)), ctx, "POST", body, false); err != why {
						t.Errorf("a time that is over: %v", err)
					}
					given, give := context.WithCancelCause(t.Context())
					time.AfterFunc(after, func() { give(why) })
					late, cancel := context.WithTimeout(given, time.Hour)
					defer cancel()
					if _, err := ask(t, ours(listens(t, serve)), late, "POST", body, false); err != why {
						t.Errorf("a cancel: %v", err)
					}
				})
			}
		}
	}
}

// Headers that the server does not take fill the socket.
func TestAnEndOfTheContextEndsTheWaitForTheServerToRead(t *testing.T) {
	why := errors.New("why")
	ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, why)
	defer cancel()
	req, _ := http.NewRequestWithContext(ctx, "GET", "http://server.example/", nil)
	req.Header["A"] = []string{strings.Repeat("a", 16<<20)}
	if _, err := ours(listens(t, func(net.Conn) { <-t.Context().Done() })).RoundTrip(req); err != why {
		t.Error(err)
	}
}

// blocks is a body that never comes.
type blocks struct{}

func (blocks) Read([]byte) (int, error) { select {} }

func TestAnAnswerMayComeBeforeTheEndOfTheBody(t *testing.T) {
	rt := ours(listens(t, func(c net.Conn) {
		http.ReadRequest(bufio.NewReader(c))
		io.WriteString(c, "HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno")
		io.Copy(io.Discard, c)
	}))
	if saw, err := ask(t, rt, t.Context(), "POST", blocks{}, false); err != nil || saw != "get new wrote" {
		t.Error(saw, err)
	}
	if saw, err := ask(t, rt, t.Context(), "GET", nil, false); err != nil || saw != "get new wrote" {
		t.Error("the connection was used again:", saw, err)
	}
}

func TestABodyThatBreaksEndsTheRequestWithItsError(t *testing.T) {
	broke := errors.New("broke")
	var read atomic.Int32
	_, err := ask(t, ours(listens(t, dies(&read))), t.Context(), "POST", io.MultiReader(strings.NewReader("a"), broken{broke}), false)
	if err == nil || err.Error() != "broke" { // in a type of net/http's, that does not unwrap
		t.Error(err)
	}
	_, err = ask(t, ours(listens(t, dies(&read))), t.Context(), "POST", panics{}, false)
	if err == nil || !strings.Contains(err.Error(), "panicked") {
		t.Error(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	_, err = ask(t, ours(listens(t, dies(&read))), ctx, "POST", leaves{}, false)
	if err == nil || !strings.Contains(err.Error(), "ended in its reader") {
		t.Error(err)
	}
}

type broken struct{ error }

func (b broken) Read([]byte) (int, error) { return 0, b.error }

type panics struct{}

func (panics) Read([]byte) (int, error) { panic("p") }

type leaves struct{}

func (leaves) Read([]byte) (int, error) { runtime.Goexit(); return 0, nil }

func TestHeadersAreBounded(t *testing.T) {
	rt := ours(listens(t, func(c net.Conn) {
		http.ReadRequest(bufio.NewReader(c))
		io.WriteString(c, "HTTP/1.1 200 OK\r\nA: ")
		for line := make([]byte, 1<<16); ; {
			for i := range line {
				line[i] = 'a'
			}
			if _, err := c.Write(line); err != nil {
				return
			}
		}
	}))
	if _, err := ask(t, rt, t.Context(), "GET", nil, false); err == nil || !strings.Contains(err.Error(), "longer than") {
		t.Error(err)
	}
}

func TestWhatIsNotPlainGoesTheOtherWay(t *testing.T) {
	rt := ours(pipes(&answers{says: short}))
	for name, change := range map[string]func(*http.Request){
		"an upgrade":          func(r *http.Request) { r.Header.Set("Upgrade", "websocket") },
		"Expect":              func(r *http.Request) { r.Header.Set("Expect", "100-continue") },
		"CONNECT":             func(r *http.Request) { r.Method = "CONNECT" },
		"https, not known":    func(r *http.Request) { r.URL.Scheme = "https" },
		"a line in a header":  func(r *http.Request) { r.Header["A"] = []string{"a\r\nB: b"} },
		"a header's name":     func(r *http.Request) { r.Header["A:"] = []string{"a"} },
		"a line in a method":  func(r *http.Request) { r.Method = "GET /\r\n" },
		"a line in a trailer": func(r *http.Request) { r.Trailer = http.Header{"A": {"a\n"}} },
		"a host in words":     func(r *http.Request) { r.URL.Host = "bücher.example" },
		"no host":             func(r *http.Request) { r.URL.Host = "" },
		"another scheme":      func(r *http.Request) { r.URL.Scheme = "ftp" },
		"Cancel":              func(r *http.Request) { r.Cancel = make(chan struct{}) },
	} {
		req, _ := http.NewRequest("GET", "http://server.example/", nil)
		change(req)
		if _, err := rt.RoundTrip(req); err != errNext || rt.Prompt(req) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestIdleConnectionsAreBounded(t *testing.T) {
	came, hold, ended := make(chan bool), make(chan bool), make(chan bool, 10)
	rt := ours(listens(t, func(c net.Conn) {
		defer func() { ended <- true }()
		defer c.Close()
		for r := bufio.NewReader(c); ; {
			if _, err := http.ReadRequest(r); err != nil {
				return
			}
			came <- true
			<-hold
			io.WriteString(c, short)
		}
	}))
	done := make(chan error)
	for range 10 {
		go func() {
			_, err := ask(t, rt, context.Background(), "GET", nil, false)
			done <- err
		}()
	}
	for range 10 { // at once, so each has a connection
		<-came
	}
	for range 10 {
		hold <- true
	}
	for range 10 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	for range 6 {
		<-ended // of ten connections that came back, four are kept
	}
	if len(ended) != 0 {
		t.Error("fewer than four are kept")
	}
	rt.CloseIdleConnections()
	for range 4 {
		<-ended
	}
}

var _ http.RoundTripper = (*h1.Transport)(nil)
