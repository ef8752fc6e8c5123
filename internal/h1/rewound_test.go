package h1_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gabion-go/gabion/classify"
)

// once is a connection that takes one request, and no byte of the next.
type once struct {
	net.Conn
	used atomic.Bool
}

func (c *once) Write(p []byte) (int, error) {
	if c.used.Swap(true) {
		c.Close()
		return 0, errors.New("broken pipe")
	}
	return c.Conn.Write(p)
}

// there is a body in memory, which is written before the answer is waited for.
type there struct{ *strings.Reader }

func (there) Whole() bool { return true }

func (there) Close() error { return nil }

// No byte of the request left. It goes out on a new connection if its body can be read again. If it can't, its caller learns that
// nothing was sent, also of a POST.
func TestARequestOfWhichNothingWasSentIsSentAgainOrSaysSo(t *testing.T) {
	body := func() (io.ReadCloser, error) { return there{strings.NewReader("body")}, nil }
	for fact, c := range map[string]struct {
		body  func() (io.ReadCloser, error) // nil means a request without one
		again func() (io.ReadCloser, error)
		fails bool
	}{
		"without a body":                     {nil, nil, false},
		"a body that can be read again":      {body, body, false},
		"a body that can be read once":       {body, nil, true},
		"a body that fails to be read again": {body, func() (io.ReadCloser, error) { return nil, io.ErrClosedPipe }, true},
	} {
		t.Run(fact, func(t *testing.T) {
			var dials atomic.Int32
			to := listens(t, (&answers{says: short}).serve)
			rt := ours(func(ctx context.Context, network, addr string) (net.Conn, error) {
				dials.Add(1)
				conn, err := to(ctx, network, addr)
				return &once{Conn: conn}, err
			})
			if _, err := ask(t, rt, t.Context(), "GET", nil, false); err != nil {
				t.Fatal(err)
			}
			req, _ := http.NewRequestWithContext(t.Context(), "POST", "http://server.example/", nil)
			if c.body != nil {
				req.Body, _ = c.body()
				req.ContentLength, req.GetBody = 4, c.again
			}
			resp, err := rt.RoundTrip(req)
			if err == nil {
				resp.Body.Close()
			}
			if (err != nil) != c.fails || err != nil && !classify.Error(err).NeverSent {
				t.Errorf("%v, never sent: %v", err, err != nil && classify.Error(err).NeverSent)
			}
			if want := map[bool]int32{false: 2, true: 1}[c.fails]; dials.Load() != want {
				t.Errorf("%d connections, want %d", dials.Load(), want)
			}
		})
	}
}
