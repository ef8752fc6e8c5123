package gabionproxy_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"testing"
)

// rude listens with a server that writes what it likes once it has read a request.
func rude(t *testing.T, answer func(net.Conn)) (base string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				if _, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
					answer(c)
				}
			}()
		}
	}()
	return "http://" + l.Addr().String()
}

// A status below 100 is none, and not for http.ResponseWriter.
func TestAStatusThatIsNoneIsABadAnswer(t *testing.T) {
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
