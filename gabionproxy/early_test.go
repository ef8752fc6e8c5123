package gabionproxy_test

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/gabion-go/gabion/gabionproxy"
	"github.com/gabion-go/gabion/internal/testproxy"
)

// deaf is a client's connection of which nothing is read after its first bytes.
type deaf struct {
	net.Conn
	left   int
	closed chan struct{}
}

func (d *deaf) Read(p []byte) (int, error) {
	if d.left <= 0 {
		<-d.closed
		return 0, net.ErrClosed
	}
	n, err := d.Conn.Read(p[:min(len(p), d.left)])
	d.left -= n
	return n, err
}

// Early answers have no flow control in HTTP/2: they fill the connection, and then the proxy waits for the client. When the connection
// ends, net/http's server still reads the headers of the last one, which the race detector sees if the proxy changes them.
func TestEarlyAnswersToAClientOfHTTP2ThatDoesNotReadEnd(t *testing.T) {
	at := testproxy.Serve(t, func(conn net.Conn) {
		_, err := http.ReadRequest(bufio.NewReader(conn))
		for value := make([]byte, 1000); err == nil; { // so that HPACK does not make it short
			for i := range value {
				value[i] = "!#$&^`|~<>{}"[rand.IntN(12)]
			}
			_, err = fmt.Fprintf(conn, "HTTP/1.1 103 Early Hints\r\nX: %s\r\n\r\n", value)
		}
	})
	w := watches()
	r := startWith(t, bounded("http://"+at, "stall_timeout: 100ms"), gabionproxy.Options{Telemetry: w})
	closed := make(chan struct{})
	client := &http.Transport{Protocols: plainHTTP2(), DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		if err == nil {
			_ = conn.(*net.TCPConn).SetReadBuffer(4 << 10)
		}
		return &deaf{conn, 100, closed}, err
	}}
	defer client.CloseIdleConnections()
	defer close(closed)
	req, _ := http.NewRequestWithContext(t.Context(), "GET", r.url("127.0.0.1:0"), nil)
	go client.RoundTrip(req)
	select {
	case <-w.ended:
	case <-time.After(30 * time.Second):
		t.Fatalf("the proxy waits for a client that does not read: %+v", r.proxy.Stats())
	}
}
