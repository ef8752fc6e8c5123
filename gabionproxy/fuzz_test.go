package gabionproxy_test

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/config"
	"github.com/gabion-go/gabion/gabionproxy"
	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/internal/testproxy"
)

// said is a proxy's log. A request's line comes when it is no longer in flight.
type said struct {
	panics atomic.Int64
	line   chan struct{} // one was written since this was read
}

// Write implements [io.Writer].
func (s *said) Write(line []byte) (int, error) {
	if bytes.Contains(line, []byte("panic")) {
		s.panics.Add(1)
	}
	select {
	case s.line <- struct{}{}:
	default:
	}
	return len(line), nil
}

// wrong reports whether a message had no sound form, as far as it came.
func wrong(err error) bool {
	_, cut := errors.AsType[net.Error](err)
	return err != nil && !cut && err != io.EOF && err != io.ErrUnexpectedEOF
}

// Whatever a client sends, what goes to the server is requests; whatever the server answers, the client gets an answer or none; and nothing
// is left of either.
func FuzzBytesOfBothSides(f *testing.F) {
	var answer atomic.Pointer[[]byte]
	var broken atomic.Pointer[error]
	server := testproxy.Serve(f, func(conn net.Conn) {
		for r := bufio.NewReader(conn); ; {
			req, err := http.ReadRequest(r)
			if err == nil {
				_, err = io.Copy(io.Discard, req.Body)
			}
			if wrong(err) {
				broken.Store(&err)
			}
			if err != nil {
				return
			}
			if _, err := conn.Write(*answer.Load()); err != nil {
				return
			}
		}
	})
	file, err := config.Parse("gabion.yaml", []byte(one("http://"+server, "timeout: {attempt: 50ms}, breaker: off, "+quick)+
		"    - {address: 127.0.0.2:0, ingress: {to: \"http://"+server+"\", admission: {limit: 100}, "+orders+"}}\n"))
	if err != nil {
		f.Fatal(err)
	}
	registry, err := gabion.NewRegistry(file.Policies)
	if err != nil {
		f.Fatal(err)
	}
	store, log := idempotency.NewMemoryStore(0, 0), &said{line: make(chan struct{}, 1)}
	file.Proxy.AccessLog = true
	p, err := gabionproxy.New(file.Proxy, registry, gabionproxy.Options{
		Store: func(string) (idempotency.Store, error) { return store, nil },
		Log:   slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	if err == nil {
		err = p.Start()
	}
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { p.Drain(f.Context()) })
	const ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
	for request, reply := range map[string]string{
		"GET / HTTP/1.1\r\nHost: a\r\n\r\n":                                                                                                ok,
		"HEAD / HTTP/1.1\r\nHost: a\r\nTE: trailers\r\n\r\n":                                                                               "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n",
		"POST /orders HTTP/1.1\r\nHost: a\r\nIdempotency-Key: k\r\nContent-Length: 2\r\n\r\nhi":                                            "HTTP/1.1 103 E\r\nA: b\r\n\r\n" + ok,
		"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTrailer: X\r\n\r\n2;a=b\r\nhi\r\n0\r\nX: 1\r\n\r\n":                   "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nY: 2\r\n\r\n",
		"GET http://b/ HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\nfree":                                               "HTTP/1.1 101 S\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\nfree",
		"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /n HTTP/1.1\r\nHost: a\r\n\r\n": "HTTP/1.1 099 No\r\n\r\n",
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00":                                                             "SSH-2.0\r\n",
	} {
		f.Add([]byte(request), []byte(reply), false)
		f.Add([]byte(request), []byte(reply), true)
	}
	f.Fuzz(func(t *testing.T, request, reply []byte, ingress bool) {
		answer.Store(&reply)
		at := p.Addr("127.0.0.1:0").String()
		if ingress {
			at = p.Addr("127.0.0.2:0").String()
		}
		conn, err := net.Dial("tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(100 * time.Millisecond)) // many a request never ends
		_, _ = conn.Write(request)
		in := bufio.NewReader(conn)
		if first, _ := in.Peek(5); string(first) == "HTTP/" {
			resp, err := http.ReadResponse(in, nil)
			switch {
			case err == nil && resp.StatusCode == http.StatusInternalServerError && !bytes.Contains(reply, []byte(" 500")):
				t.Errorf("%v", resp)
			case wrong(err):
				t.Errorf("the client got what is no answer: %v", err)
			}
		}
		conn.Close()
		for p.Stats().InFlight > 0 {
			select {
			case <-log.line:
			case <-time.After(20 * time.Second):
				t.Fatalf("the request is still served: %+v", p.Stats())
			}
		}
		if err := broken.Swap(nil); err != nil {
			t.Errorf("the server got what is no request: %v", *err)
		}
		if n := log.panics.Swap(0); n > 0 {
			t.Errorf("%d panics", n)
		}
	})
}
