package gabionproxy_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// bounded is one with further keys of the listener.
func bounded(to, keys string) string {
	return strings.Replace(one(to, ""), "dependency: api", "dependency: api, "+keys, 1)
}

func TestBoundsOfAListener(t *testing.T) {
	var came atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		came.Add(1)
		io.Copy(io.Discard, r.Body)
	}))
	defer server.Close()
	for _, c := range []struct{ name, keys, send, want string }{
		{"headers", "max_header: 4096", "GET / HTTP/1.1\r\nHost: a\r\nX: " + strings.Repeat("x", 20000) + "\r\n\r\n", "431 "},
		{"a declared body", "max_body: 10", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 11\r\n\r\nhello world", "413 "},
		{"a body in chunks", "max_body: 10", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nb\r\nhello world\r\n0\r\n\r\n", "413 "},
		{"a body that fits", "max_body: 11", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nb\r\nhello world\r\n0\r\n\r\n", "200 "},
		{"headers that do not come", "header_timeout: 50ms", "GET / HTTP/1.1\r\nHost:", ""},
		{"silence between requests", "idle_timeout: 50ms", "GET / HTTP/1.1\r\nHost: a\r\n\r\n", "200 "},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := start(t, bounded(server.URL, c.keys))
			conn, err := net.Dial("tcp", r.proxy.Addr("127.0.0.1:0").String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			io.WriteString(conn, c.send)
			in := bufio.NewReader(conn)
			line, err := in.ReadString('\n')
			if strings.HasPrefix(c.name, "silence") {
				io.Copy(io.Discard, in) // until the proxy closes the connection
			}
			if !strings.Contains(line, c.want) || c.want == "" && err != io.EOF {
				t.Errorf("%q %v", line, err)
			}
		})
	}
}

func TestAClientThatStopsInTheMiddleIsGivenUp(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == "POST" {
			io.Copy(io.Discard, r.Body)
			return
		}
		for r.Context().Err() == nil { // more than any buffer holds
			w.Write(make([]byte, 1<<20))
		}
	}))
	defer server.Close()
	for _, c := range []struct{ name, send string }{
		{"sending", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhalf"},
		{"sending chunks", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n"},
		{"receiving", "GET / HTTP/1.1\r\nHost: a\r\n\r\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := start(t, bounded(server.URL, "stall_timeout: 100ms"))
			conn, err := net.Dial("tcp", r.proxy.Addr("127.0.0.1:0").String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			io.WriteString(conn, c.send)
			for r.proxy.Stats().Requests == 0 || r.proxy.Stats().InFlight > 0 {
				time.Sleep(time.Millisecond)
			}
		})
	}
}

func TestConnectionsBeyondTheBoundWait(t *testing.T) {
	up := says("up")
	defer up.Close()
	r := start(t, bounded(up.URL, "max_connections: 1"))
	at := r.proxy.Addr("127.0.0.1:0").String()
	first, err := net.Dial("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	ask := func(c net.Conn) string {
		fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		line, _ := bufio.NewReader(c).ReadString('\n')
		return line
	}
	if line := ask(first); !strings.Contains(line, "200") {
		t.Fatal(line)
	}
	second, err := net.Dial("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	second.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	if line := ask(second); line != "" {
		t.Error("it was served beside the first:", line)
	}
	first.Close()
	second.SetReadDeadline(time.Time{})
	if line, _ := bufio.NewReader(second).ReadString('\n'); !strings.Contains(line, "200") {
		t.Error(line)
	}
}

func TestNothingIsLeftOfManyRequests(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		switch r.URL.Path {
		case "/error":
			w.WriteHeader(503)
		case "/cut":
			io.WriteString(w, "half")
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}
		io.WriteString(w, "whole")
	}))
	defer server.Close()
	before := runtime.NumGoroutine()
	r := start(t, one(server.URL, quick))
	client := &http.Transport{}
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for j := range 25 {
				req, _ := http.NewRequest("POST", r.url("127.0.0.1:0")+[]string{"/", "/error", "/cut"}[j%3], strings.NewReader(strings.Repeat("x", 1+i*20000)))
				resp, err := client.RoundTrip(req)
				if err != nil {
					continue
				}
				io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
		})
	}
	all.Wait()
	d, err := r.deps.Get("api")
	if err != nil {
		t.Fatal(err)
	}
	for r.proxy.Stats().InFlight > 0 {
		time.Sleep(time.Millisecond)
	}
	if s := d.Stats(); s.Bulkhead.InUse != 0 {
		t.Errorf("%+v", s.Bulkhead)
	}
	client.CloseIdleConnections()
	r.stop()
	if err := <-r.ended; err != nil {
		t.Error(err)
	}
	server.CloseClientConnections()
	for i := 0; runtime.NumGoroutine() > before+2; i++ {
		if i == 500 {
			text := make([]byte, 1<<20)
			t.Fatalf("%d goroutines, %d before\n%s", runtime.NumGoroutine(), before, text[:runtime.Stack(text, true)])
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func TestWhatTravels(t *testing.T) {
	seen := make(chan http.Header, 1)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { seen <- r.Header }))
	defer server.Close()
	for _, c := range []struct {
		trust    string
		internal bool
	}{{"trust: internal", true}, {"", false}} {
		r := start(t, one(server.URL, c.trust))
		req, _ := http.NewRequest("POST", r.url("127.0.0.1:0"), nil)
		req.Header = http.Header{"X-Request-Deadline-Ms": {"5000"}, "X-Request-Priority": {"high"}, "Idempotency-Key": {"k1"}, "X-Own": {"1"}}
		if code, body := answer(t, req); code != 200 {
			t.Fatal(code, body)
		}
		h := <-seen
		left := h.Get("X-Request-Deadline-Ms")
		if (left != "" && left != "5000") != c.internal || (h.Get("X-Request-Priority") == "high") != c.internal || h.Get("Idempotency-Key") != "k1" || h.Get("X-Own") != "1" ||
			h.Get("X-Forwarded-For") != "" {
			t.Errorf("%q: %v", c.trust, h)
		}
	}
}

func TestARequestWithoutTimeIsNotSent(t *testing.T) {
	var came atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { came.Add(1) }))
	defer server.Close()
	r := start(t, one(server.URL, ""))
	req, _ := http.NewRequest("GET", r.url("127.0.0.1:0"), nil)
	req.Header.Set("X-Request-Deadline-Ms", "0")
	if code, body := answer(t, req); code != 504 || !strings.Contains(body, `"effect":"not sent"`) || came.Load() != 0 {
		t.Error(code, body, came.Load())
	}
}

func TestAMissingKeyIsTheClientsMistake(t *testing.T) {
	up := says("up")
	defer up.Close()
	r := start(t, one(up.URL, "key: required"))
	req, _ := http.NewRequest("POST", r.url("127.0.0.1:0"), nil)
	if code, body := answer(t, req); code != 400 || !strings.Contains(body, "key_missing") {
		t.Error(code, body)
	}
	req.Header = http.Header{"Idempotency-Key": {"a", "b"}}
	if code, body := answer(t, req); code != 400 || !strings.Contains(body, `"invalid"`) {
		t.Error(code, body)
	}
}
