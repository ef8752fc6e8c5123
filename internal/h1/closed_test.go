package h1_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"testing"
	"time"
)

// A connection that is not fit for another request is closed, or both sides would keep it for ever.
func TestAConnectionThatIsNotUsedAgainIsClosed(t *testing.T) {
	for name, answer := range map[string]string{
		"no answer of HTTP":          "what?\r\n\r\n",
		"headers that break off":     "HTTP/1.1 200 OK\r\nA",
		"a body that is not read":    "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\nabc",
		"an answer that wants it so": "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok",
		"more than the answer":       short + "more",
		"more than no body":          "HTTP/1.1 204 No Content\r\n\r\nmore",
	} {
		t.Run(name, func(t *testing.T) {
			closed := make(chan error, 1)
			rt := ours(listens(t, func(c net.Conn) {
				defer c.Close()
				http.ReadRequest(bufio.NewReader(c))
				io.WriteString(c, answer)
				if name == "headers that break off" {
					c.(*net.TCPConn).CloseWrite()
				}
				c.SetReadDeadline(time.Now().Add(10 * time.Second))
				_, err := c.Read(make([]byte, 1))
				closed <- err
			}))
			req, _ := http.NewRequest("GET", "http://server.example/", nil)
			if resp, err := rt.RoundTrip(req); err == nil {
				resp.Body.Close()
			}
			if err := <-closed; err == nil || isTimeout(err) {
				t.Error("it stays open:", err)
			}
		})
	}
}

func isTimeout(err error) bool {
	timed, ok := err.(net.Error)
	return ok && timed.Timeout()
}

// An idle connection whose server has ended its side is closed on this side, too, when it is found.
func TestAnIdleConnectionThatIsDeadIsClosed(t *testing.T) {
	ended, closed := make(chan struct{}), make(chan error, 2)
	rt := ours(listens(t, func(c net.Conn) {
		defer c.Close()
		http.ReadRequest(bufio.NewReader(c))
		io.WriteString(c, short)
		select {
		case <-ended: // the second connection
			return
		default:
		}
		c.(*net.TCPConn).CloseWrite()
		close(ended)
		c.SetReadDeadline(time.Now().Add(10 * time.Second))
		_, err := c.Read(make([]byte, 1))
		closed <- err
	}))
	for range 2 {
		if saw, err := ask(t, rt, t.Context(), "GET", nil, false); err != nil || saw != "get new wrote" {
			t.Fatal(saw, err)
		}
		<-ended
	}
	if err := <-closed; err == nil || isTimeout(err) {
		t.Error("it stays open:", err)
	}
}
