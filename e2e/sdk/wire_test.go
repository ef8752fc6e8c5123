package sdk

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"
)

// fault is what becomes of one attempt.
type fault int

const (
	fine             fault = iota
	refused                // a closed port
	resetBefore            // the connection is reset before anything was done
	resetAfter             // the work was done, and then the connection was reset
	tooMany                // 429
	tooManyAfter           // 429 with Retry-After
	tooManyAfterMs         // 429 with Retry-After-Ms
	unavailable            // 503
	unavailableAfter       // 503 with Retry-After
	overloaded             // 529
	failed                 // 500
	conflict               // 409
	badGateway             // 502 with Retry-After
	slow                   // the work was done, and no answer comes
	cut                    // the work was done, and half of the answer comes
	disguised              // a throttling as the SDK's service tells it, such as a 400
)

var statuses = map[fault]int{
	tooMany: 429, tooManyAfter: 429, tooManyAfterMs: 429, unavailable: 503, unavailableAfter: 503, overloaded: 529,
	failed: 500, conflict: 409, badGateway: 502,
}

// patience is how long an attempt may wait for an answer, with gabion and without.
const patience = 700 * time.Millisecond

// wire is a server behind a network, and counts what both saw.
type wire struct {
	plan   []fault // one for each attempt; the last is for all that follow
	answer http.HandlerFunc
	fails  func(w http.ResponseWriter, status int) // writes a failure as the service does
	deny   http.HandlerFunc                        // the disguised throttling

	mu       sync.Mutex
	attempts int // dials that were refused, and requests
	requests int
	effects  int
	keys     map[string]bool // that the server has seen and honours
}

// next is the fault of the next attempt. With only, the plan is left alone unless that is it.
func (w *wire) next(only fault) fault {
	w.mu.Lock()
	defer w.mu.Unlock()
	f := w.plan[min(w.attempts, len(w.plan)-1)]
	if only == refused && f != refused {
		return f
	}
	w.attempts++
	return f
}

func (w *wire) act(r *http.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if key := r.Header.Get("Idempotency-Key"); key != "" {
		if w.keys[key] {
			return // carried out before: the stored answer is sent
		}
		w.keys[key] = true
	}
	w.effects++
}

// ServeHTTP implements http.Handler.
func (w *wire) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	w.requests++
	w.mu.Unlock()
	f := w.next(fine)
	body := make([]byte, 1<<20)
	for err := error(nil); err == nil; { // read it all: a reset with bytes unread is another fault
		_, err = r.Body.Read(body)
	}
	switch f {
	case refused: // decided by the dialler; a connection that was open already
		reset(rw)
	case resetBefore:
		reset(rw)
	case resetAfter:
		w.act(r)
		reset(rw)
	case slow:
		w.act(r)
		select {
		case <-r.Context().Done():
		case <-time.After(5 * time.Second):
		}
	case cut:
		w.act(r)
		w.half(rw, r)
	case fine:
		w.act(r)
		w.answer(rw, r)
	case disguised:
		w.deny(rw, r)
	default:
		switch f {
		case tooManyAfter, unavailableAfter, badGateway:
			rw.Header().Set("Retry-After", "1")
		case tooManyAfterMs:
			rw.Header().Set("Retry-After-Ms", "30")
		}
		w.fails(rw, statuses[f])
	}
}

// half sends half of the answer and resets the connection.
func (w *wire) half(rw http.ResponseWriter, r *http.Request) {
	rec := httptest.NewRecorder()
	w.answer(rec, r)
	for name, v := range rec.Header() {
		rw.Header()[name] = v
	}
	text := rec.Body.Bytes()
	rw.Header().Set("Content-Length", fmt.Sprint(max(len(text), 2)))
	rw.WriteHeader(rec.Code)
	rw.Write(text[:len(text)/2])
	http.NewResponseController(rw).Flush()
	panic(http.ErrAbortHandler)
}

func reset(rw http.ResponseWriter) {
	conn, _, err := http.NewResponseController(rw).Hijack()
	if err != nil {
		panic(err)
	}
	conn.(*net.TCPConn).SetLinger(0)
	conn.Close()
}

// start serves w and returns its address, and a transport for it. Each request has a
// connection of its own, so that the n-th fault meets the n-th attempt.
func (w *wire) start(t testing.TB) (url string, rt *http.Transport) {
	w.keys = map[string]bool{}
	s := httptest.NewUnstartedServer(w)
	s.Config.ErrorLog = quiet
	s.Start()
	t.Cleanup(s.Close)
	dialer := &net.Dialer{}
	rt = &http.Transport{DisableKeepAlives: true}
	rt.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		if w.next(refused) == refused {
			addr = "127.0.0.1:1"
		}
		return dialer.DialContext(ctx, network, addr)
	}
	t.Cleanup(rt.CloseIdleConnections)
	return s.URL, rt
}

// seen is what came of one call.
type seen struct {
	err                         error
	attempts, requests, effects int
}

func (s seen) String() string {
	got := "ok"
	if s.err != nil {
		got = "failed"
	}
	return fmt.Sprintf("%-6s attempts %d, requests %d, done %d", got, s.attempts, s.requests, s.effects)
}
