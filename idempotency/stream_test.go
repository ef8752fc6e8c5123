package idempotency

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A deafStore makes the change and returns an error.
type deafStore struct {
	Store
	deaf atomic.Pointer[error]

	mu    sync.Mutex
	asked []time.Time
}

func (s *deafStore) Begin(ctx context.Context, c Claim) (Answer, error) {
	s.mu.Lock()
	s.asked = append(s.asked, time.Now())
	s.mu.Unlock()
	a, err := s.Store.Begin(ctx, c)
	if e := s.deaf.Load(); e != nil {
		return Answer{}, *e
	}
	return a, err
}

// serve returns what sends the same request again and again. Streams need real
// connections.
func (r *rig) serve(protocol string) (call func() *http.Response) {
	r.over(protocol)
	return func() *http.Response {
		r.Helper()
		resp, err := r.wire.client.Do(r.wire.request(post("k", "x")))
		if err != nil {
			r.Fatal(err)
		}
		r.Cleanup(func() { resp.Body.Close() })
		return resp
	}
}

func TestFlushedChunks(t *testing.T) { overWires(t, flushedChunks) } // 32

func flushedChunks(t *testing.T, wire string) {
	next := make(chan struct{})
	r := newRig(t, Config{}, func(w http.ResponseWriter, _ *http.Request) {
		for _, part := range []string{"one ", "two ", "three"} {
			io.WriteString(w, part)
			http.NewResponseController(w).Flush()
			<-next
		}
	})
	call := r.serve(wire)
	resp := call()
	for _, part := range []string{"one ", "two ", "three"} {
		buf := make([]byte, len(part))
		if _, err := io.ReadFull(resp.Body, buf); err != nil || string(buf) != part {
			t.Fatalf("%q, %v", buf, err)
		}
		next <- struct{}{}
	}
	io.Copy(io.Discard, resp.Body)
	second := call()
	body, _ := io.ReadAll(second.Body)
	if string(body) != "one two three" || second.Header.Get(headerReplayed) != "true" {
		t.Errorf("replay %q %v", body, second.Header)
	}
	r.wantRuns(1)
}

func TestEndlessResponses(t *testing.T) { overWires(t, endlessResponses) } // 33

func endlessResponses(t *testing.T, wire string) {
	for name, work := range map[string]http.HandlerFunc{
		"hijack": func(w http.ResponseWriter, _ *http.Request) {
			conn, rw, err := http.NewResponseController(w).Hijack()
			if err != nil {
				return
			}
			rw.WriteString("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi")
			rw.Flush()
			conn.Close()
		},
		"event stream": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			io.WriteString(w, "hi")
			w.(http.Flusher).Flush()
			<-r.Context().Done() // it follows the client
		},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "hijack" && wire != http1 {
				t.Skip("a stream of HTTP/2 can't be hijacked")
			}
			r := newRig(t, Config{}, work)
			call := r.serve(wire)
			resp := call()
			buf := make([]byte, 2)
			if _, err := io.ReadFull(resp.Body, buf); err != nil || string(buf) != "hi" {
				t.Fatalf("%q, %v", buf, err)
			}
			again := call()
			body, _ := io.ReadAll(again.Body)
			if again.StatusCode != 409 || !strings.Contains(string(body), string(problemNotRetained)) {
				t.Errorf("%d %s", again.StatusCode, body)
			}
			resp.Body.Close()
			r.wantRuns(1)
		})
	}
}

func TestTrailers(t *testing.T) { overWires(t, trailers) } // 30

func trailers(t *testing.T, wire string) {
	for name, work := range map[string]http.HandlerFunc{
		"declared": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Trailer", "Checksum")
			io.WriteString(w, "body")
			w.Header().Set("Checksum", "c")
		},
		"by prefix": func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, "body")
			w.Header().Set(http.TrailerPrefix+"Checksum", "c")
		},
		"flushed": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Trailer", "Checksum")
			io.WriteString(w, "body")
			w.(http.Flusher).Flush()
			w.Header().Set("Checksum", "c")
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, Config{}, work)
			call := r.serve(wire)
			for n := range 2 {
				resp := call()
				body, _ := io.ReadAll(resp.Body)
				if string(body) != "body" || resp.Trailer.Get("Checksum") != "c" || resp.Header.Get("Checksum") != "" {
					t.Errorf("response %d: %q, trailer %v, header %v", n, body, resp.Trailer, resp.Header)
				}
			}
			r.wantRuns(1)
		})
	}
}

// What is not kept of the trailers still reaches the first client.
func TestTrailersOfTheMoment(t *testing.T) { overWires(t, trailersOfTheMoment) }

func trailersOfTheMoment(t *testing.T, wire string) {
	for name, c := range map[string]struct {
		work http.HandlerFunc
		kept string
	}{
		"beside one that is kept": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Trailer", "Checksum, Server-Timing")
			io.WriteString(w, "body")
			w.Header().Set("Checksum", "c")
			w.Header().Set("Server-Timing", "db;dur=5")
		}, "c"},
		"alone": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Trailer", "Server-Timing")
			io.WriteString(w, "body")
			w.Header().Set("Server-Timing", "db;dur=5")
		}, ""},
		"by prefix": {func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, "body")
			w.Header().Set(http.TrailerPrefix+"Server-Timing", "db;dur=5")
		}, ""},
	} {
		for _, g := range []Guarantee{GuaranteeHold, GuaranteeTx} {
			u := newUploads(t, wire, Config{RunnerConfig: RunnerConfig{Guarantee: g}}, c.work)
			for n, timing := range []string{"db;dur=5", ""} {
				resp, err := u.wire.client.Do(u.wire.request(post("k", "x")))
				if err != nil {
					t.Fatal(err)
				}
				body, err := io.ReadAll(resp.Body)
				resp.Body.Close()
				if got := resp.Trailer; err != nil || string(body) != "body" || got.Get("Checksum") != c.kept || got.Get("Server-Timing") != timing {
					t.Errorf("%s, %v, answer %d: %q, trailer %v, %v", name, g, n, body, got, err)
				}
			}
		}
	}
}

// A write after the handler returned reaches no client, and harms neither the process (net/http
// panics over HTTP/2) nor the connection's next request.
func TestWritesAfterReturn(t *testing.T) { overAll(t, writesAfterReturn) }

func writesAfterReturn(t *testing.T, wire string) {
	handed := make(chan http.ResponseWriter, 1)
	r := newRig(t, Config{}, func(w http.ResponseWriter, _ *http.Request) {
		handed <- w
		io.WriteString(w, "done")
	}).over(wire)
	first := r.send(post("k", "x"))
	if r.wire != nil {
		r.wire.Close()
	}
	late := <-handed
	late.Header().Set("X-Late", "1")
	if _, err := io.WriteString(late, "late"); !errors.Is(err, errWroteLate) {
		t.Errorf("late write: %v", err)
	}
	late.WriteHeader(500)
	late.(http.Flusher).Flush()
	if _, _, err := late.(http.Hijacker).Hijack(); err == nil {
		t.Error("late hijack")
	}
	c := http.NewResponseController(late)
	for _, err := range []error{c.SetReadDeadline(time.Now()), c.SetWriteDeadline(time.Now())} {
		if !errors.Is(err, errWroteLate) {
			t.Errorf("late deadline: %v", err)
		}
	}
	r.wire = nil
	r.wantReplay(first, r.send(post("k", "x")))
	if r.seen.count(eventWrittenLate) != 2 {
		t.Error("late writes were not told")
	}
}

// The record is whole although the client went while it was written: the handler is not
// told.
func TestClientGoesWhileItReads(t *testing.T) { overWires(t, clientGoesWhileItReads) } // 34

func clientGoesWhileItReads(t *testing.T, wire string) {
	broken := make(chan struct{})
	r := newRig(t, Config{}, nil)
	r.work = func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "first ")
		w.(http.Flusher).Flush()
		<-broken
		for range 100 {
			if _, err := io.WriteString(w, strings.Repeat("x", 1000)); err != nil {
				t.Errorf("a write failed: %v", err)
				return
			}
			if err := http.NewResponseController(w).Flush(); err != nil {
				t.Errorf("a flush failed: %v", err)
				return
			}
		}
	}
	r.over(wire)
	ctx, cancel := context.WithCancel(t.Context())
	resp, err := r.wire.client.Do(r.wire.request(post("k", "x")).WithContext(ctx))
	if err != nil {
		t.Fatal(err)
	}
	bufio.NewReader(resp.Body).ReadByte()
	cancel()
	resp.Body.Close()
	close(broken)
	r.wire.Close() // once the handler is through
	if got := len(r.record("k").Result.Body); got != 100_006 {
		t.Errorf("the record has %d bytes", got)
	}
	r.wantRuns(1)
}

// A badFlusher is a connection that can't flush, and says why.
type badFlusher struct {
	http.ResponseWriter
	err error
}

func (w badFlusher) FlushError() error { return w.err }

// While the response is recorded a handler is not told that its client is gone.
func TestFlushesThatFail(t *testing.T) {
	gone := errors.New("gone")
	for _, c := range []struct {
		name       string
		body       string
		below, err error
	}{
		{"recorded", "kept", gone, nil},
		{"too long to be kept", "not kept", gone, gone},
		{"the server can't", "kept", http.ErrNotSupported, http.ErrNotSupported},
	} {
		r := newRig(t, Config{MaxResponseBody: 4}, func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, c.body)
			if err := http.NewResponseController(w).Flush(); err != c.err {
				t.Errorf("%s: %v, want %v", c.name, err, c.err)
			}
		})
		r.h.ServeHTTP(badFlusher{httptest.NewRecorder(), c.below}, post("k", "x"))
	}
}

func TestInformationalResponsesPass(t *testing.T) { overWires(t, informationalResponsesPass) }

func informationalResponsesPass(t *testing.T, wire string) {
	r := newRig(t, Config{}, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Link", "</a.css>")
		w.WriteHeader(http.StatusEarlyHints)
		w.WriteHeader(201)
	})
	if resp := r.serve(wire)(); resp.StatusCode != 201 {
		t.Errorf("%d", resp.StatusCode)
	}
	if got := r.record("k").Result.Status; got != 201 {
		t.Errorf("stored %d", got)
	}
}
