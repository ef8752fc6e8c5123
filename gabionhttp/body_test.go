package gabionhttp

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion/policy"
)

// watched is a body that counts how often it is closed.
type watched struct {
	io.Reader
	closed atomic.Int32
}

func (w *watched) Close() error { w.closed.Add(1); return nil }

func post(length int64, orig io.ReadCloser, get func() (io.ReadCloser, error)) *http.Request {
	req, _ := http.NewRequest("POST", "http://x", nil)
	req.Body, req.GetBody, req.ContentLength = orig, get, length
	return req
}

// send reads one attempt's body as a RoundTripper would, and closes it.
func send(t *testing.T, b *body) string {
	t.Helper()
	rc, err := b.next()
	if err != nil {
		return err.Error()
	}
	defer rc.Close()
	got, err := io.ReadAll(rc)
	if err != nil {
		t.Fatal(err)
	}
	return string(got)
}

func TestBodies(t *testing.T) {
	const text = "hello"
	get := func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(text)), nil }
	fixed := errBodyFixed.Error()
	tests := []struct {
		name     string
		length   int64
		get      func() (io.ReadCloser, error)
		limit    int
		upfront  bool // repeatable before anything was sent
		attempts [2]string
		fixed    bool
	}{
		{"GetBody makes it repeatable at any length", 5, get, 0, true, [2]string{text, text}, false},
		{"GetBody makes a stream repeatable", -1, get, 0, true, [2]string{text, text}, false},
		{"a short body of known length is kept", 5, nil, 5, true, [2]string{text, text}, false},
		{"C67 a longer body is fixed", 5, nil, 4, false, [2]string{text, fixed}, true},
		{"C67 without a limit to keep, every body is fixed", 5, nil, 0, false, [2]string{text, fixed}, true},
		{"a short body of unknown length is kept as it goes", -1, nil, 5, false, [2]string{text, text}, false},
		{"zero with a body is an unknown length too", 0, nil, 5, false, [2]string{text, text}, false},
		{"C67 a longer body of unknown length is fixed", -1, nil, 4, false, [2]string{text, fixed}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			// The end comes with the last byte, as it does from many readers.
			orig := &watched{Reader: iotest.DataErrReader(strings.NewReader(text))}
			req := post(tt.length, orig, tt.get)
			before := *req
			var b body
			if err := b.hold(req, tt.limit, false); err != nil {
				t.Fatal(err)
			}
			if got := b.repeatable(); got != tt.upfront {
				t.Errorf("repeatable = %v, want %v", got, tt.upfront)
			}
			for i, want := range tt.attempts {
				if got := send(t, &b); got != want {
					t.Errorf("attempt %d sent %q, want %q", i+1, got, want)
				}
			}
			if got := b.fixed(); got != tt.fixed {
				t.Errorf("fixed = %v, want %v", got, tt.fixed)
			}
			if cap(b.kept) > max(8, tt.limit)+bytes.MinRead || len(b.kept) > tt.limit {
				t.Errorf("kept %d of at most %d bytes", len(b.kept), tt.limit)
			}
			b.close()
			if n := orig.closed.Load(); n != 1 {
				t.Errorf("original closed %d times", n)
			}
			if req.Body != before.Body || req.ContentLength != before.ContentLength || (req.GetBody == nil) != (before.GetBody == nil) {
				t.Error("the caller's request was changed")
			}
		})
	}
}

func TestNoBodyIsRepeatable(t *testing.T) {
	for _, none := range []io.ReadCloser{nil, http.NoBody} {
		var b body
		req := post(0, none, nil)
		if err := b.hold(req, 10, false); err != nil || !b.repeatable() || b.fixed() {
			t.Errorf("%v: %v, repeatable %v, fixed %v", none, err, b.repeatable(), b.fixed())
		}
		if err := b.attach(req); err != nil || req.Body != none {
			t.Errorf("attach: %v, %v", err, req.Body)
		}
		b.close()
	}
}

func TestBodyNobodyReadCanGoAgain(t *testing.T) {
	orig := &watched{Reader: strings.NewReader("stream")}
	var b body
	b.hold(post(-1, orig, nil), 2, false)
	first, _ := b.next()
	first.Close() // as after a failed dial
	if b.fixed() || orig.closed.Load() != 0 {
		t.Fatalf("fixed = %v, closed %d times", b.fixed(), orig.closed.Load())
	}
	if _, err := first.Read(make([]byte, 1)); err != errBodyOver {
		t.Errorf("the first attempt still reads: %v", err)
	}
	if got := send(t, &b); got != "stream" {
		t.Errorf("sent %q", got)
	}
	first.Close()
	if b.close(); orig.closed.Load() != 1 {
		t.Errorf("closed %d times", orig.closed.Load())
	}
}

func TestBodyHalfReadIsFixed(t *testing.T) {
	var b body
	b.hold(post(-1, &watched{Reader: strings.NewReader("stream")}, nil), 100, false)
	rc, _ := b.next()
	rc.Read(make([]byte, 3))
	rc.Close()
	if !b.fixed() {
		t.Error("half of the body is gone and yet it can be sent again")
	}
}

// Two attempts at once must not share one reader (trap T10).
func TestAttemptsAtOnceHaveBodiesOfTheirOwn(t *testing.T) {
	var b body
	b.hold(post(5, &watched{Reader: strings.NewReader("hello")}, func() (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader("hello")), nil
	}), 0, true)
	first, _ := b.next()
	second, _ := b.next()
	one, two := make([]byte, 1), make([]byte, 1)
	first.Read(one)
	second.Read(two)
	if one[0] != 'h' || two[0] != 'h' {
		t.Errorf("read %q and %q", one, two)
	}
}

func TestBodyMistakes(t *testing.T) {
	errDisk := errors.New("disk")
	tests := []struct {
		name string
		body io.Reader
		want error
	}{
		{"longer than declared", strings.NewReader("hello!"), errBodyLong},
		{"a reader that fails", io.MultiReader(strings.NewReader("he"), failing{errDisk}), errDisk},
		{"a reader that fails at its end", io.MultiReader(strings.NewReader("hello"), failing{errDisk}), errDisk},
		{"shorter than declared", strings.NewReader("hell"), errBodyShort},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			orig := &watched{Reader: tt.body}
			var b body
			if err := b.hold(post(5, orig, nil), 10, false); err != tt.want {
				t.Errorf("hold = %v, want %v", err, tt.want)
			}
			if n := orig.closed.Load(); n != 1 {
				t.Errorf("closed %d times", n)
			}
		})
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// A stream must reach the server while it is being written, and closing its
// attempt must free a reader that waits for more.
func TestStreamIsNotHeldUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe()
		var b body
		b.hold(post(-1, r, nil), 100, false)
		rc, _ := b.next()
		go w.Write([]byte("now"))
		buf := make([]byte, 10)
		if n, err := rc.Read(buf); n != 3 || err != nil {
			t.Fatalf("Read = %d, %v", n, err)
		}
		done := make(chan error)
		go func() { _, err := rc.Read(buf); done <- err }()
		synctest.Wait()
		rc.Close()
		if err := <-done; err == nil {
			t.Error("reader not freed")
		}
	})
}

func TestBodiesOverRealConnections(t *testing.T) {
	var got atomic.Value
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		all, _ := io.ReadAll(r.Body)
		got.Store(string(all))
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer server.Close()
	for name, length := range map[string]int64{"known": 5, "unknown": -1} {
		orig := &watched{Reader: strings.NewReader("hello")}
		req := post(length, orig, nil)
		var b body
		b.hold(req, defaultReplay, false)
		for range 3 {
			attempt, _ := http.NewRequest("POST", server.URL, nil)
			attempt.ContentLength = length
			if err := b.attach(attempt); err != nil {
				t.Fatal(name, err)
			}
			resp, err := server.Client().Do(attempt)
			if err != nil {
				t.Fatal(name, err)
			}
			discard(resp)
			if got.Load() != "hello" || b.fixed() {
				t.Errorf("%s: server got %q, fixed = %v", name, got.Load(), b.fixed())
			}
		}
		if b.close(); orig.closed.Load() != 1 {
			t.Errorf("%s: closed %d times", name, orig.closed.Load())
		}
	}
}

func TestReplayLimit(t *testing.T) {
	for field, want := range map[int]int{0: 64 << 10, policy.Off: 0, 7: 7} {
		if got := replayLimit(&policy.HTTP{ReplayLimit: field}); got != want {
			t.Errorf("replayLimit(%d) = %d, want %d", field, got, want)
		}
	}
}

func TestDiscard(t *testing.T) {
	tests := []struct {
		name   string
		length int64
		size   int
		left   int // unread when it is closed
	}{
		{"C63 a short response is read to its end", 100, 100, 0},
		{"a response of unknown length is read up to the limit", -1, drainBytes + 100, 100},
		{"a response known to be long is not read", drainBytes + 1, drainBytes + 1, drainBytes + 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			rest := bytes.NewReader(make([]byte, tt.size))
			w := &watched{Reader: rest}
			discard(&http.Response{Body: w, ContentLength: tt.length})
			if rest.Len() != tt.left || w.closed.Load() == 0 {
				t.Errorf("%d bytes left, closed %d times", rest.Len(), w.closed.Load())
			}
		})
	}
	discard(nil)
	discard(&http.Response{})
}

func TestDiscardDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe()
		start := time.Now()
		discard(&http.Response{Body: r, ContentLength: -1})
		if d := time.Since(start); d != drainTime {
			t.Errorf("took %v", d)
		}
		if _, err := w.Write([]byte("x")); err == nil {
			t.Error("not closed")
		}
	})
}
