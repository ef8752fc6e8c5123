package gabionproxy_test

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// Whenever a client goes away, its request ends at the server.
func TestAClientThatGoesAwayEndsItsRequest(t *testing.T) {
	for _, after := range []time.Duration{0, 50 * time.Millisecond} {
		came, ended := make(chan struct{}), make(chan bool, 1)
		server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			close(came)
			select {
			case <-r.Context().Done():
				ended <- true
			case <-time.After(10 * time.Second):
				ended <- false
			}
		}))
		defer server.Close()
		r := start(t, one(server.URL, "retry: off"))
		c, err := net.Dial("tcp", r.proxy.Addr("127.0.0.1:0").String())
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(c, "GET / HTTP/1.1\r\nHost: h\r\n\r\n")
		<-came
		time.AfterFunc(after, func() { c.Close() })
		if !<-ended {
			t.Errorf("after %v: the server works on for a client that is gone", after)
		}
	}
}
