package classify

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion/internal/testproxy"
	"github.com/gabion-go/gabion/policy"
)

// readHead reads until the end of a request's header, so that a close after it
// finds nothing unread.
func readHead(c net.Conn) {
	var got []byte
	for buf := make([]byte, 1024); !strings.Contains(string(got), "\r\n\r\n"); {
		n, err := c.Read(buf)
		if err != nil {
			return
		}
		got = append(got, buf[:n]...)
	}
}

// closedPort returns an address where nothing listens.
func closedPort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func get(tr *http.Transport, url string) error {
	defer tr.CloseIdleConnections()
	resp, err := (&http.Client{Transport: tr}).Get(url)
	if err == nil {
		resp.Body.Close()
	}
	return err
}

func TestRealFailures(t *testing.T) {
	closed := closedPort(t)
	resets := testproxy.Serve(t, func(c net.Conn) { readHead(c); c.(*net.TCPConn).SetLinger(0) })
	closes := testproxy.Serve(t, func(c net.Conn) { readHead(c) })
	halves := testproxy.Serve(t, func(c net.Conn) { readHead(c); io.WriteString(c, "HTTP/1.1 200 O") })
	silent := testproxy.Serve(t, func(c net.Conn) { io.Copy(io.Discard, c) })
	hangsUp := testproxy.Serve(t, func(c net.Conn) { c.Read(make([]byte, 1)); c.(*net.TCPConn).SetLinger(0) })
	leaves := testproxy.Serve(t, func(c net.Conn) { c.Read(make([]byte, 4096)) })
	plain := testproxy.Serve(t, func(c net.Conn) {
		c.Read(make([]byte, 1024))
		io.WriteString(c, "HTTP/1.1 400 Bad Request\r\n\r\n")
	})
	secure := httptest.NewTLSServer(http.NotFoundHandler())
	defer secure.Close()
	secure.Config.ErrorLog = nil
	picky := httptest.NewUnstartedServer(http.NotFoundHandler())
	picky.TLS = &tls.Config{MinVersion: tls.VersionTLS13}
	picky.StartTLS()
	defer picky.Close()

	tests := []struct {
		name string
		do   func() error
		want policy.Outcome
	}{
		{"C66 dialling a closed port", func() error { _, err := net.Dial("tcp", closed); return err }, unsentNet},
		{"C66 a request to a closed port", func() error { return get(&http.Transport{}, "http://"+closed) }, unsentNet},
		{"a server that resets", func() error { return get(&http.Transport{}, "http://"+resets) }, sentNet},
		{"a server that closes before it answers", func() error { return get(&http.Transport{}, "http://"+closes) }, sentNet},
		{"a server that breaks off in the status line", func() error { return get(&http.Transport{}, "http://"+halves) }, sentNet},
		{"a server that hangs up in the handshake", func() error { return get(&http.Transport{}, "https://"+hangsUp) }, sentNet},
		{"a server that closes in the handshake", func() error { return get(&http.Transport{}, "https://"+leaves) }, sentNet},
		{"a handshake that takes too long", func() error {
			return get(&http.Transport{TLSHandshakeTimeout: 20 * time.Millisecond}, "https://"+silent)
		}, late},
		{"an answer that takes too long", func() error {
			return get(&http.Transport{ResponseHeaderTimeout: 20 * time.Millisecond}, "http://"+silent)
		}, late},
		{"a certificate without a known signer", func() error { return get(&http.Transport{}, secure.URL) }, refused},
		{"a certificate for another host", func() error {
			tr := secure.Client().Transport.(*http.Transport).Clone()
			tr.TLSClientConfig.ServerName = "other.example"
			return get(tr, secure.URL)
		}, refused},
		{"a server that speaks no TLS", func() error { _, err := tls.Dial("tcp", plain, nil); return err }, refused},
		{"a server that refuses our TLS version", func() error {
			return get(&http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12}}, picky.URL)
		}, maybe(policy.ClassClient)},
		{"a malformed URL", func() error { _, err := http.Get("http://[::1"); return err }, refused},
		{"a URL with a bad port", func() error { _, err := http.Get("http://127.0.0.1:99999999"); return err }, refused},
		{"an address without a port", func() error { _, err := net.Dial("tcp", "localhost"); return err }, refused},
		{"a network that does not exist", func() error { _, err := net.Dial("tcq", "localhost:1"); return err }, refused},
		{"C65 a caller who cancels", func() error {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			req, _ := http.NewRequestWithContext(ctx, "GET", "http://"+silent, nil)
			_, err := http.DefaultClient.Do(req)
			return err
		}, gaveUp},
		{"an attempt's deadline", func() error {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			defer cancel()
			req, _ := http.NewRequestWithContext(ctx, "GET", "http://"+silent, nil)
			_, err := http.DefaultClient.Do(req)
			return err
		}, late},
		{"a deadline while dialling", func() error {
			ctx, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
			defer cancel()
			_, err := new(net.Dialer).DialContext(ctx, "tcp", silent)
			return err
		}, unsent(policy.ClassTimeout)},
		{"the client's own timeout", func() error {
			_, err := (&http.Client{Timeout: 20 * time.Millisecond}).Get("http://" + silent)
			return err
		}, late},
		{"a connection closed under its reader", func() error {
			c, err := net.Dial("tcp", silent)
			if err != nil {
				return err
			}
			c.Close()
			_, err = c.Read(make([]byte, 1))
			return err
		}, sentNet},
		{"a read past its deadline", func() error {
			c, err := net.Dial("tcp", silent)
			if err != nil {
				return err
			}
			defer c.Close()
			c.SetReadDeadline(time.Unix(1, 0))
			_, err = c.Read(make([]byte, 1))
			return err
		}, late},
		{"Go has no type for an unsupported protocol", func() error { _, err := http.Get("gopher://x"); return err }, unknown},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.do()
			if got := Error(err); got != tt.want {
				t.Errorf("Error(%v) = %+v, want %+v\n%#v", err, got, tt.want, errors.Unwrap(err))
			}
		})
	}
}

// A frame of HTTP/2 (RFC 9113, section 4.1), without its payload.
func frame(kind byte, stream uint32, payload ...byte) []byte {
	f := []byte{0, 0, byte(len(payload)), kind, 0, 0, 0, 0, 0}
	binary.BigEndian.PutUint32(f[5:], stream)
	return append(f, payload...)
}

// serveHTTP2 speaks just enough HTTP/2 to do something nasty to each request.
func serveHTTP2(c net.Conn, nasty func(stream uint32)) {
	defer c.Close()
	io.ReadFull(c, make([]byte, len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")))
	settled := make(chan struct{})
	go func() {
		defer close(settled)
		c.Write(frame(4, 0)) // SETTINGS, which come before all else
	}()
	for head := make([]byte, 9); ; {
		if _, err := io.ReadFull(c, head); err != nil {
			return
		}
		size := int64(head[0])<<16 | int64(head[1])<<8 | int64(head[2])
		if _, err := io.CopyN(io.Discard, c, size); err != nil {
			return
		}
		if head[3] == 1 { // HEADERS
			stream := binary.BigEndian.Uint32(head[5:])
			go func() {
				<-settled
				nasty(stream)
			}()
		}
	}
}

// overHTTP2 sends one request to a server that is nasty. Time is a bubble's,
// since net/http itself repeats refused streams for half a minute.
func overHTTP2(t *testing.T, body io.Reader, nasty func(c net.Conn, stream uint32)) (requests int, err error) {
	synctest.Test(t, func(t *testing.T) {
		protocols := new(http.Protocols)
		protocols.SetUnencryptedHTTP2(true)
		tr := &http.Transport{Protocols: protocols, DialContext: func(context.Context, string, string) (net.Conn, error) {
			client, server := net.Pipe()
			go serveHTTP2(server, func(stream uint32) { requests++; nasty(server, stream) })
			return client, nil
		}}
		defer tr.CloseIdleConnections()
		req, _ := http.NewRequest("POST", "http://server", body)
		var resp *http.Response
		if resp, err = tr.RoundTrip(req); err == nil {
			resp.Body.Close()
		}
	})
	return requests, err
}

func TestHTTP2(t *testing.T) {
	reset := func(code byte) func(net.Conn, uint32) {
		return func(c net.Conn, stream uint32) { c.Write(frame(3, stream, 0, 0, 0, code)) }
	}
	goAway := func(c net.Conn, stream uint32) {
		c.Write(frame(7, 0, 0, 0, 0, 0, 0, 0, 0, 2)) // above the last id, INTERNAL_ERROR
		c.Close()
	}
	goneAfter := func(last, code byte) func(net.Conn, uint32) {
		return func(c net.Conn, _ uint32) {
			c.Write(frame(7, 0, 0, 0, 0, last, 0, 0, 0, code))
			c.Close()
		}
	}
	oneWay := func() io.Reader { return struct{ io.Reader }{strings.NewReader("x")} }
	tests := []struct {
		name     string
		body     io.Reader
		nasty    func(net.Conn, uint32)
		requests int
		want     policy.Outcome
	}{
		{"C66 a refused stream was never processed; net/http tried eight times", nil, reset(7), 8, unsentNet},
		{"C66 a refused stream with a body comes as a text", oneWay(), reset(7), 1, unknown},
		{"a cancelled stream is in doubt", nil, reset(8), 1, sentNet},
		{"an internal error is in doubt", nil, reset(2), 1, maybe(policy.ClassServer)},
		{"a server that wants calm", nil, reset(11), 1, maybe(policy.ClassThrottled)},
		{"a server that wants HTTP/1.1", nil, reset(13), 1, refused},
		{"a flow control error is nothing that we know", nil, reset(3), 1, unknown},
		{"C66 a GOAWAY comes as a text", oneWay(), goAway, 1, unknown},
		{"a connection that ends after a GOAWAY is in doubt", nil, goneAfter(1, 0), 1, sentNet},
		{"a GOAWAY that came with an error", nil, goneAfter(1, 2), 1, sentNet},
		{"a GOAWAY that wants calm", nil, goneAfter(1, 11), 1, maybe(policy.ClassThrottled)},
		{"C66 a GOAWAY to the first request of a connection comes as a text", nil, goneAfter(0, 2), 1, unknown},
		{"a connection that ends is in doubt", nil, func(c net.Conn, _ uint32) { c.Close() }, 1, sentNet},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			requests, err := overHTTP2(t, tt.body, tt.nasty)
			if got := Error(err); got != tt.want || requests != tt.requests {
				t.Errorf("Error(%v) = %+v after %d requests, want %+v after %d", err, got, requests, tt.want, tt.requests)
			}
		})
	}
}

func TestHTTP2OverTLS(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 2 {
			t.Errorf("spoke %s", r.Proto)
		}
		panic(http.ErrAbortHandler) // resets the stream with INTERNAL_ERROR
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	_, err := server.Client().Get(server.URL)
	if got, want := Error(err), maybe(policy.ClassServer); got != want {
		t.Errorf("Error(%v) = %+v, want %+v", err, got, want)
	}
}
