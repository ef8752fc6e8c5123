package gabionproxy_test

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// sums is a server that fails the first requests, and remembers the sums of the bodies that it got.
type sums struct {
	mu    sync.Mutex
	fails int
	got   []string
}

func (s *sums) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	all, err := io.ReadAll(r.Body)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.got = append(s.got, fmt.Sprintf("%x %v", sha256.Sum256(all), err))
	if s.fails--; s.fails >= 0 {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
}

func post(t *testing.T, url string, body io.Reader) *http.Response {
	t.Helper()
	req, err := http.NewRequest(http.MethodPost, url, body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Idempotency-Key", "k-1")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	return resp
}

func TestBodiesAreSentAgainAsTheyCame(t *testing.T) {
	body := bytes.Repeat([]byte("0123456789abcdef"), 4<<10) // the limit
	for name, c := range map[string]struct {
		body     io.Reader
		attempts string
		status   int
		reason   string
	}{
		"known length":           {bytes.NewReader(body), "3", 200, ""},
		"chunked":                {io.MultiReader(bytes.NewReader(body)), "3", 200, ""},
		"known length, too long": {bytes.NewReader(append(body, 'x')), "1", 503, "body_not_rewindable, not repeatable: the body is over the limit of what is remembered of a request"},
		"chunked, too long":      {io.MultiReader(bytes.NewReader(body), strings.NewReader("x")), "1", 503, "body_not_rewindable, not repeatable: the body is over the limit of what is remembered of a request"},
	} {
		t.Run(name, func(t *testing.T) {
			s := &sums{fails: 2}
			server := httptest.NewServer(s)
			defer server.Close()
			_, url := begin(t, one(server.URL, quick))
			resp := post(t, url, c.body)
			reason := strings.Join(resp.Header["Gabion-Reason"], ", ")
			if resp.StatusCode != c.status || resp.Header.Get("Gabion-Attempts") != c.attempts || reason != c.reason {
				t.Errorf("%d after %s attempts, %q", resp.StatusCode, resp.Header.Get("Gabion-Attempts"), reason)
			}
			sent := body
			if c.status != 200 {
				sent = append(body[:len(body):len(body)], 'x')
			}
			for i, got := range s.got {
				if want := fmt.Sprintf("%x %v", sha256.Sum256(sent), nil); got != want {
					t.Errorf("attempt %d got %s, want %s", i+1, got, want)
				}
			}
		})
	}
}

// dial opens a connection to the proxy and writes text.
func dial(t *testing.T, url, text string) (net.Conn, *bufio.Reader) {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	return conn, bufio.NewReader(conn)
}

// The first attempt dies when half of the body is there. The next one has that half before the
// client sends the rest.
func TestAttemptDiesInTheMiddleOfAnUpload(t *testing.T) {
	half, bodies := make(chan bool), make(chan string, 2)
	var once sync.Once
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		first := false
		once.Do(func() { first = true })
		got := make([]byte, 5)
		io.ReadFull(r.Body, got)
		if first {
			panic(http.ErrAbortHandler)
		}
		half <- true
		rest, _ := io.ReadAll(r.Body)
		bodies <- string(got) + string(rest)
	}))
	defer server.Close()
	_, url := begin(t, one(server.URL, quick+", timeout: {attempt: 200ms}")) // net/http does not see that a server is gone while it waits for the client
	conn, r := dial(t, url, "POST / HTTP/1.1\r\nHost: a\r\nIdempotency-Key: k\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhalf \r\n")
	<-half
	io.WriteString(conn, "8\r\nand half\r\n0\r\n\r\n")
	resp, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := <-bodies; got != "half and half" || resp.StatusCode != 200 || resp.Header.Get("Gabion-Attempts") != "2" {
		t.Errorf("the second attempt got %q; %d after %s attempts", got, resp.StatusCode, resp.Header.Get("Gabion-Attempts"))
	}
}

// Over HTTP/2 an attempt waits for the client's bytes on no goroutine of its own. Its time ends all the same, and the next one begins.
func TestAnUploadThatStopsHoldsNoAttemptOverHTTP2(t *testing.T) {
	var came atomic.Int64
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		came.Add(1)
		<-r.Context().Done()
	}))
	server.Config.Protocols = plainHTTP2()
	server.Start()
	defer server.Close()
	_, url := begin(t, one(strings.Replace(server.URL, "http:", "h2c:", 1), quick+", timeout: {attempt: 300ms}"))
	for _, framing := range []string{"Content-Length: 100", "Transfer-Encoding: chunked"} {
		before := came.Load()
		_, r := dial(t, url, "POST / HTTP/1.1\r\nHost: a\r\nIdempotency-Key: k\r\n"+framing+"\r\n\r\n5\r\nhalf ")
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatalf("%s: %v", framing, err)
		}
		if resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Gabion-Attempts") != "3" || came.Load() == before {
			t.Errorf("%s: %d after %s attempts, of which %d came", framing, resp.StatusCode, resp.Header.Get("Gabion-Attempts"), came.Load()-before)
		}
	}
}

// The server answers before it has read the body, and the client has stopped sending: it gets
// the answer all the same, and what it would send then is no request.
func TestAnswerBeforeTheBodyEndsTheConnection(t *testing.T) {
	no := strings.Repeat("no", 50_000) // more than is held back: net/http would wait for the body before it sends the headers
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.NewResponseController(w).EnableFullDuplex()
		w.Header().Set("Connection", "close")
		w.WriteHeader(http.StatusForbidden)
		io.WriteString(w, no)
	}))
	defer server.Close()
	for _, framing := range []string{"Content-Length: 100", "Transfer-Encoding: chunked"} {
		_, url := begin(t, one(server.URL, quick))
		_, r := dial(t, url, "POST / HTTP/1.1\r\nHost: a\r\n"+framing+"\r\n\r\n5\r\nhalf ")
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatalf("%s: %v", framing, err)
		}
		got, err := io.ReadAll(resp.Body)
		if resp.StatusCode != http.StatusForbidden || string(got) != no || err != nil || !resp.Close {
			t.Errorf("%s: %d with %d bytes, %v; closes: %t", framing, resp.StatusCode, len(got), err, resp.Close)
		}
		if _, err := r.ReadByte(); err != io.EOF {
			t.Errorf("%s: the connection goes on: %v", framing, err)
		}
	}
}

func TestClientLeavesInTheMiddleOfAnUpload(t *testing.T) {
	ended := make(chan error)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, err := io.Copy(io.Discard, r.Body)
		ended <- err
	}))
	defer server.Close()
	_, url := begin(t, one(server.URL, quick))
	conn, _ := dial(t, url, "POST / HTTP/1.1\r\nHost: a\r\nIdempotency-Key: k\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhalf \r\n")
	conn.Close()
	if err := <-ended; err == nil {
		t.Error("the server takes half of the body for all of it")
	}
	select {
	case err := <-ended:
		t.Errorf("half a body was sent again; it ended with %v", err)
	default:
	}
}
