package gabionproxy_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/config"
	"github.com/gabion-go/gabion/gabionproxy"
	"github.com/gabion-go/gabion/internal/testrace"
)

// Client and server write and read bytes that are there, so that the count is that of net/http's server and the proxy.
func TestAllocationsOfARequest(t *testing.T) {
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	var size atomic.Int64 // of an answer's body
	go func() {
		for {
			c, err := server.Accept()
			if err != nil {
				return
			}
			go answerAll(c, &size)
		}
	}()
	const egress, ingress = "127.0.0.1:0", "localhost:0"
	file, err := config.Parse("gabion.yaml", []byte(one("http://"+server.Addr().String(), "")+"    - {address: \""+ingress+"\", ingress: {to: \"http://"+server.Addr().String()+"\"}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	registry, err := gabion.NewRegistry(file.Policies)
	if err != nil {
		t.Fatal(err)
	}
	p, err := gabionproxy.New(file.Proxy, registry, gabionproxy.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	defer p.Drain(over)
	for _, c := range []struct {
		name, at, request string
		answer            int64
		most              float64
	}{
		{"a GET of 2 bytes", egress, "GET /v1 HTTP/1.1\r\nHost: h\r\n\r\n", 2, 50},
		{"a GET of 4 KiB", egress, "GET /v1 HTTP/1.1\r\nHost: h\r\n\r\n", 4096, 50},
		{"a POST of 1 KiB", egress, "POST /v1 HTTP/1.1\r\nHost: h\r\nIdempotency-Key: k\r\nContent-Length: 1024\r\n\r\n" + strings.Repeat("b", 1024), 100, 50},
		{"a POST of 1 KiB to a program", ingress, "POST /v1 HTTP/1.1\r\nHost: h\r\nContent-Length: 1024\r\n\r\n" + strings.Repeat("b", 1024), 100, 55}, // which also learns of the client
	} {
		t.Run(c.name, func(t *testing.T) {
			size.Store(c.answer)
			conn, err := net.Dial("tcp", p.Addr(c.at).String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			request, in := []byte(c.request), make([]byte, 8<<10)
			n := testing.AllocsPerRun(500, func() {
				if _, err := conn.Write(request); err != nil {
					t.Fatal(err)
				}
				for have, head := 0, -1; head < 0 || have < head+int(c.answer); {
					n, err := conn.Read(in[have:])
					if err != nil {
						t.Fatal(err)
					}
					have += n
					if head = bytes.Index(in[:have], []byte("\r\n\r\n")); head >= 0 {
						head += len("\r\n\r\n")
					}
				}
			})
			t.Logf("%v allocations", n)
			if !testrace.Enabled && n > c.most {
				t.Errorf("%v allocations a request", n)
			}
		})
	}
}

// answerAll reads requests that have at most 1 KiB behind their headers, and answers each.
func answerAll(c net.Conn, size *atomic.Int64) {
	defer c.Close()
	in, have := make([]byte, 4096), 0
	var out []byte
	for {
		n, err := c.Read(in[have:])
		if err != nil {
			return
		}
		have += n
		head := bytes.Index(in[:have], []byte("\r\n\r\n"))
		if head < 0 || in[0] == 'P' && have < head+4+1024 {
			continue
		}
		have = 0
		if n := int(size.Load()); len(out) < n || !bytes.HasSuffix(out[:len(out)-n], []byte("\r\n\r\n")) {
			out = fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", n, strings.Repeat("a", n))
		}
		if _, err := c.Write(out); err != nil {
			return
		}
	}
}
