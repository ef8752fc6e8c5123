package gabionproxy_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gabion-go/gabion/internal/testproxy"
)

// rude listens with a server that writes what it likes once it has read a request.
func rude(t *testing.T, answer func(net.Conn)) (base string) {
	t.Helper()
	return "http://" + testproxy.Serve(t, func(c net.Conn) {
		if _, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
			answer(c)
		}
	})
}

// http.ResponseWriter panics at a status below 100.
func TestAStatusBelow100IsABadAnswer(t *testing.T) {
	for _, status := range []string{"000", "042", "099"} {
		base := rude(t, func(c net.Conn) { io.WriteString(c, "HTTP/1.1 "+status+" No\r\nContent-Length: 0\r\n\r\n") })
		for _, file := range []string{one(base, ""), "version: 1\nproxy:\n  listen:\n    - {address: 127.0.0.1:0, ingress: {to: \"" + base + "\"}}\n"} {
			r := start(t, file)
			if got, body := asked(t, r.proxy.Addr("127.0.0.1:0").String(), "GET / HTTP/1.1\r\nHost: a\r\n\r\n"); got != http.StatusBadGateway {
				t.Errorf("%s: %d %s", status, got, body)
			}
		}
	}
}

// Early answers are written to a client that may read nothing.
func TestAClientThatDoesNotReadEarlyAnswersIsGivenUp(t *testing.T) {
	hint := fmt.Sprintf("HTTP/1.1 103 Early Hints\r\nLink: %s\r\n\r\n", strings.Repeat("x", 8000))
	cut := make(chan struct{})
	base := rude(t, func(c net.Conn) {
		defer close(cut)
		for {
			if _, err := io.WriteString(c, hint); err != nil {
				return
			}
		}
	})
	r := start(t, bounded(base, "stall_timeout: 100ms"))
	c, err := net.Dial("tcp", r.proxy.Addr("127.0.0.1:0").String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.(*net.TCPConn).SetReadBuffer(4 << 10)
	io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	select {
	case <-cut:
	case <-time.After(5 * time.Second):
		t.Fatal("the server is still read")
	}
}
