package gabionproxy_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strings"
	"testing"
	"time"
)

// silence is longer than what the listeners of these tests take for a stall.
const silence = 350 * time.Millisecond

// sendsBack is a server that answers at once, and then sends back what comes.
func sendsBack(t *testing.T) (base string) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.(http.Flusher).Flush()
		in := make([]byte, 64)
		for {
			n, err := r.Body.Read(in)
			w.Write(in[:n])
			w.(http.Flusher).Flush()
			if err != nil {
				return
			}
		}
	}))
	s.Config.Protocols = plainHTTP2()
	s.Start()
	t.Cleanup(s.Close)
	return strings.Replace(s.URL, "http:", "h2c:", 1)
}

func TestAStreamMayBeSilent(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for range 2 {
			io.WriteString(w, "event\n")
			w.(http.Flusher).Flush()
			time.Sleep(silence)
		}
	}))
	defer server.Close()
	r := start(t, bounded(server.URL, "stall_timeout: 100ms"))
	for _, c := range []struct {
		name string
		with *http.Protocols
	}{{"HTTP/1.1", nil}, {"HTTP/2", plainHTTP2()}} {
		t.Run(c.name, func(t *testing.T) {
			client := &http.Transport{Protocols: c.with}
			defer client.CloseIdleConnections()
			req, _ := http.NewRequest("GET", r.url("127.0.0.1:0"), nil)
			resp, err := client.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			if body, err := io.ReadAll(resp.Body); string(body) != "event\nevent\n" || err != nil {
				t.Errorf("%q %v", body, err)
			}
		})
	}
}

func TestACallOfBothDirectionsMayBeSilentAndKeepsItsConnection(t *testing.T) {
	r := start(t, bounded(sendsBack(t), "stall_timeout: 100ms"))
	client := &http.Transport{Protocols: plainHTTP2()}
	defer client.CloseIdleConnections()
	for i := range 2 {
		out, in := io.Pipe()
		req, _ := http.NewRequest("POST", r.url("127.0.0.1:0"), out)
		reused := false
		req = req.WithContext(httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(c httptrace.GotConnInfo) { reused = c.Reused }}))
		go io.WriteString(in, "one\n")
		resp, err := client.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if reused != (i > 0) {
			t.Error("the call before ended the connection")
		}
		lines := bufio.NewReader(resp.Body)
		for _, want := range []string{"one\n", "two\n"} {
			if line, err := lines.ReadString('\n'); line != want {
				t.Fatal(line, err)
			}
			time.Sleep(silence)
			go io.WriteString(in, "two\n")
		}
		in.Close()
	}
}

func TestAClientOfHTTP2ThatStopsIsGivenUp(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		for r.Context().Err() == nil && r.Method == "GET" {
			w.Write(make([]byte, 1<<20))
		}
	}))
	defer server.Close()
	for _, method := range []string{"GET", "POST"} {
		t.Run(method, func(t *testing.T) {
			r := start(t, bounded(server.URL, "stall_timeout: 100ms"))
			client := &http.Transport{Protocols: plainHTTP2(), HTTP2: &http.HTTP2Config{MaxReceiveBufferPerStream: 1 << 16}}
			defer client.CloseIdleConnections()
			out, in := io.Pipe()
			defer in.Close()
			req, _ := http.NewRequest(method, r.url("127.0.0.1:0"), out)
			if method == "GET" {
				req.Body = nil
			}
			go func() {
				if resp, err := client.RoundTrip(req); err == nil {
					t.Cleanup(func() { resp.Body.Close() })
				}
			}()
			for r.proxy.Stats().Requests == 0 || r.proxy.Stats().InFlight > 0 {
				time.Sleep(time.Millisecond)
			}
		})
	}
}

func TestABodyThatNobodyReadsHoldsNoConnection(t *testing.T) {
	up := says("up")
	defer up.Close()
	r := start(t, "version: 1\ndependencies: {api: {}}\nproxy:\n  listen:\n    - {address: 127.0.0.1:0, stall_timeout: 100ms, max_body: 2000, routes: [{path: /v1/, to: "+up.URL+", dependency: api}]}\n")
	for _, size := range []int{1000, 3000} {
		c, err := net.Dial("tcp", r.proxy.Addr("127.0.0.1:0").String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(5 * time.Second))
		fmt.Fprintf(c, "POST /nowhere HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n", size)
		if _, err := io.Copy(io.Discard, c); err != nil {
			t.Errorf("%d bytes that do not come: %v", size, err)
		}
	}
}
