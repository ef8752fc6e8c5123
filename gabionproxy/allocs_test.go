package gabionproxy_test

import (
	"io"
	"net"
	"net/http"
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
	go func() {
		for {
			c, err := server.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				in, out := make([]byte, 4096), []byte("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
				for {
					if _, err := c.Read(in); err != nil {
						return
					}
					c.Write(out)
				}
			}()
		}
	}()
	file, err := config.Parse("gabion.yaml", []byte(one("http://"+server.Addr().String(), "")))
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
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: p.Handler("127.0.0.1:0")}
	go s.Serve(l)
	defer s.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	request, in := []byte("GET /v1 HTTP/1.1\r\nHost: h\r\n\r\n"), make([]byte, 4096)
	n := testing.AllocsPerRun(500, func() {
		if _, err := c.Write(request); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Read(in); err != nil && err != io.EOF {
			t.Fatal(err)
		}
	})
	t.Logf("%v allocations", n)
	if !testrace.Enabled && n > 50 {
		t.Errorf("%v allocations a request", n)
	}
}
