package proxy

import (
	"bufio"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// A server that can't be reached, is silent, speaks something else, or never comes to an end:
// the client has an answer in bounded time that says what happened and whether anything may
// have been done.
func TestServersThatMisbehave(t *testing.T) {
	silent := func(conn net.Conn) { io.Copy(io.Discard, conn) }
	says := func(text string) func(net.Conn) {
		return func(conn net.Conn) {
			if _, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
				io.WriteString(conn, text)
			}
		}
	}
	endless := func(head, more string) func(net.Conn) {
		return func(conn net.Conn) {
			if _, err := http.ReadRequest(bufio.NewReader(conn)); err != nil {
				return
			}
			_, err := io.WriteString(conn, head)
			for err == nil {
				_, err = io.WriteString(conn, more)
			}
		}
	}
	for name, c := range map[string]struct {
		serve  func(net.Conn) // nil means that nothing listens
		effect string
	}{
		"unreachable":           {nil, "not sent"},
		"silent":                {silent, "may have happened"},
		"closes":                {says(""), "may have happened"},
		"garbage":               {says("SSH-2.0-OpenSSH_9.9\r\n"), "may have happened"},
		"garbage after a start": {says("HTTP/1.1 200 OK\r\nno header\r\n\r\n"), "may have happened"},
		"two lengths":           {says("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab"), "may have happened"},
		"headers without end":   {endless("HTTP/1.1 200 OK\r\n", "X-A: "+strings.Repeat("a", 1000)+"\r\n"), "may have happened"},
		"1xx without end":       {endless("", "HTTP/1.1 103 Early Hints\r\n\r\n"), "may have happened"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			to := "http://" + addresses(t, 1)[0]
			if c.serve != nil {
				to = raw(t, c.serve)
			}
			at := front(t, egress(to, "retry: {attempts: 2, backoff: {base: 1ms}, budget: off}, timeout: {attempt: 500ms}"))
			began := time.Now()
			resp, err := http.Post("http://"+at, "text/plain", strings.NewReader("a"))
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			var p struct{ Reason, Effect string }
			if err := json.NewDecoder(resp.Body).Decode(&p); err != nil {
				t.Error(err)
			}
			if resp.StatusCode < 502 || resp.StatusCode > 504 || p.Effect != c.effect || p.Reason == "" {
				t.Errorf("%d %+v, want %q", resp.StatusCode, p, c.effect)
			}
			if d := time.Since(began); d > 10*time.Second {
				t.Errorf("it took %v", d)
			}
		})
	}
}

// A body without end flows for as long as its client reads, and ends at the server when the
// client goes.
func TestABodyWithoutEndEndsWithItsClient(t *testing.T) {
	ended := make(chan bool, 1)
	url := raw(t, func(conn net.Conn) {
		if _, err := http.ReadRequest(bufio.NewReader(conn)); err != nil {
			return
		}
		_, err := io.WriteString(conn, "HTTP/1.1 200 OK\r\n\r\n")
		for err == nil {
			_, err = conn.Write(make([]byte, 32<<10))
		}
		ended <- true
	})
	resp, err := http.Get("http://" + front(t, egress(url, quick)))
	if err != nil {
		t.Fatal(err)
	}
	if n, err := io.CopyN(io.Discard, resp.Body, 10<<20); n != 10<<20 {
		t.Errorf("%d bytes, %v", n, err)
	}
	resp.Body.Close()
	select {
	case <-ended:
	case <-time.After(10 * time.Second):
		t.Error("the server still sends")
	}
}
