package gabionhttp_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/gabiontest"
	"github.com/gabion-go/gabion/policy"
)

// What http.Client does over a Transport of ours is what it does without, on both
// protocols.
func TestAnswersPassThrough(t *testing.T) {
	packed := new(bytes.Buffer)
	z := gzip.NewWriter(packed)
	io.WriteString(z, "unpacked")
	z.Close()
	tests := []struct {
		name   string
		method string
		header []string
		body   string
		serve  http.HandlerFunc
		status int
		want   string
		check  func(*http.Response) bool
	}{
		{name: "HEAD", method: "HEAD", serve: func(w http.ResponseWriter, r *http.Request) { w.Header().Set("Content-Length", "7") },
			status: 200, check: func(r *http.Response) bool { return r.ContentLength == 7 && r.Body == http.NoBody }},
		{name: "204", method: "DELETE", serve: func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(204) }, status: 204},
		{name: "304", method: "GET", serve: func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(304) }, status: 304},
		{name: "trailers", method: "GET", serve: func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Trailer", "Sum")
			io.WriteString(w, "text")
			w.Header().Set("Sum", "42")
		}, status: 200, want: "text", check: func(r *http.Response) bool { return r.Trailer.Get("Sum") == "42" }},
		{name: "gzip", method: "GET", serve: func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			w.Write(packed.Bytes())
		}, status: 200, want: "unpacked", check: func(r *http.Response) bool { return r.Uncompressed }},
		{name: "Expect: 100-continue", method: "PUT", header: []string{"Expect", "100-continue"}, body: "upload",
			serve: echo, status: 200, want: "upload"},
		{name: "early refusal of a body", method: "PUT", header: []string{"Expect", "100-continue"}, body: "upload",
			serve: func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(417) }, status: 417},
		{name: "early hints", method: "GET", serve: func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusEarlyHints)
			io.WriteString(w, "then")
		}, status: 200, want: "then"},
		{name: "a permanent failure is an answer", method: "POST", body: "x", serve: func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(422)
			io.WriteString(w, "no")
		}, status: 422, want: "no", check: func(r *http.Response) bool { return r.Header.Get("X-Should-Retry") == "" }},
	}
	for proto, start := range map[string]func(testing.TB, http.HandlerFunc) *site{"HTTP/1": serve, "HTTP/2": serveH2} {
		for _, tt := range tests {
			t.Run(proto+" "+tt.name, func(t *testing.T) {
				s := start(t, tt.serve)
				open := &bodies{RoundTripper: base(t, s)}
				c, d := client(t, eager(), open)
				req := request(t, tt.method, s.URL, tt.body)
				for i := 0; i < len(tt.header); i += 2 {
					req.Header.Set(tt.header[i], tt.header[i+1])
				}
				resp, err := c.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				got := read(t, resp)
				if tt.name == "HEAD" {
					tt.check = nil // the counting body hides http.NoBody
				}
				if resp.StatusCode != tt.status || got != tt.want || tt.check != nil && !tt.check(resp) {
					t.Errorf("%s %q %v %v", resp.Status, got, resp.Header, resp.Trailer)
				}
				if resp.Request != req || s.requests.Load() != 1 {
					t.Errorf("%d requests, and resp.Request is the caller's: %v", s.requests.Load(), resp.Request == req)
				}
				open.check(t)
				gabiontest.NothingHeld(t, d)
			})
		}
	}
}

func echo(w http.ResponseWriter, r *http.Request) { io.Copy(w, r.Body) }

func TestAnUpgradedConnectionCanBeWrittenTo(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		rw.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: shout\r\n\r\n")
		rw.Flush()
		line, _ := rw.ReadString('\n')
		rw.WriteString(strings.ToUpper(line))
		rw.Flush()
	})
	c, d := client(t, eager(), base(t, s))
	req := request(t, "GET", s.URL, "")
	req.Header.Set("Connection", "Upgrade")
	req.Header.Set("Upgrade", "shout")
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	rw, ok := resp.Body.(io.ReadWriteCloser)
	if !ok || resp.StatusCode != 101 {
		t.Fatalf("%s with a %T", resp.Status, resp.Body)
	}
	fmt.Fprintln(rw, "hello")
	if line, _ := bufio.NewReader(rw).ReadString('\n'); line != "HELLO\n" {
		t.Errorf("read %q", line)
	}
	if st := d.Stats(); st.Bulkhead.InUse != 0 || st.Streams != 1 {
		t.Errorf("%d slots in use and %d streams while the connection lives", st.Bulkhead.InUse, st.Streams)
	}
	half, ok := rw.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil {
		t.Error("its one direction can't be closed")
	}
	rw.Close()
	gabiontest.NothingHeld(t, d)
}

// Every hop of a redirect is a call, and a stream is not held up by either side.
func TestRedirectsAreCallsOfTheirOwn(t *testing.T) {
	var events gabiontest.Recorder
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/end" {
			http.Redirect(w, r, "/end", http.StatusTemporaryRedirect)
			return
		}
		echo(w, r)
	})
	c, d := client(t, eager(), base(t, s), gabion.WithObserver(&events))
	resp, err := c.Do(request(t, "PUT", s.URL+"/start", "kept"))
	if err != nil {
		t.Fatal(err)
	}
	if got := read(t, resp); got != "kept" || resp.Request.URL.Path != "/end" {
		t.Errorf("%q from %s", got, resp.Request.URL)
	}
	if l := events.Load(); l.Calls != 2 || l.Attempts != 2 {
		t.Errorf("%+v", l)
	}
	gabiontest.NothingHeld(t, d)
}

func TestStreamsFlowBothWays(t *testing.T) {
	s := serveH2(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(200)
		w.(http.Flusher).Flush()
		lines := bufio.NewScanner(r.Body)
		for lines.Scan() {
			fmt.Fprintln(w, strings.ToUpper(lines.Text()))
			w.(http.Flusher).Flush()
		}
	})
	c, _ := client(t, eager(), base(t, s))
	up, down := io.Pipe()
	req := request(t, "POST", s.URL, "")
	req.Body, req.ContentLength = up, -1
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	answers := bufio.NewReader(resp.Body)
	for _, word := range []string{"one", "two"} {
		fmt.Fprintln(down, word)
		if line, err := answers.ReadString('\n'); line != strings.ToUpper(word)+"\n" {
			t.Errorf("%q, %v", line, err)
		}
	}
	down.Close()
	read(t, resp)
}

// The slot, the timeout and the context last until the body is closed (E1).
func TestTheAttemptLastsAsLongAsItsBody(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "hello") })
	p := with(eager(), func(p *policy.Policy) { p.Bulkhead = policy.Bulkhead{Limit: 1, Queue: policy.Off} })
	c, d := client(t, p, base(t, s))
	first, err := c.Get(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Get(s.URL); !errors.Is(err, policy.BulkheadFull) {
		t.Errorf("the slot is free while the body is open: %v", err)
	}
	first.Body.Close()
	first.Body.Close()
	gabiontest.NothingHeld(t, d)
	second, err := c.Get(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	read(t, second)
}

// stall writes a byte and then nothing more.
func stall(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Length", "10")
	io.WriteString(w, "x")
	w.(http.Flusher).Flush()
	<-r.Context().Done()
}

func TestBodiesThatFail(t *testing.T) {
	tests := []struct {
		name  string
		serve http.HandlerFunc
		act   func(cancel func(), resp *http.Response) error // until the body fails
		fails int64                                          // how many failures the breaker counts
		want  error
	}{
		{"silence", stall, func(_ func(), r *http.Response) error { return drain(r) }, 1, policy.IdleTimeout},
		{"silence, seen as a deadline", stall, func(_ func(), r *http.Response) error { return drain(r) }, 1, context.DeadlineExceeded},
		{"the server breaks off", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "10")
			io.WriteString(w, "x")
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}, func(_ func(), r *http.Response) error { return drain(r) }, 1, nil},
		{"the caller gives up", stall, func(cancel func(), r *http.Response) error { cancel(); return drain(r) }, 0, context.Canceled},
		{"the caller closes early", stall, func(_ func(), r *http.Response) error { return r.Body.Close() }, 0, nil},
		{"the caller closes while it reads", stall, func(_ func(), r *http.Response) error {
			r.Body.Read(make([]byte, 1))
			go r.Body.Close()
			return drain(r)
		}, 0, nil},
	}
	for proto, start := range map[string]func(testing.TB, http.HandlerFunc) *site{"HTTP/1": servePiped, "HTTP/2": servePipedH2} {
		for _, tt := range tests {
			bubble(t, proto+" "+tt.name, func(t *testing.T) {
				s := start(t, tt.serve)
				p := with(eager(), func(p *policy.Policy) { p.Breaker.Off, p.Timeout.Attempt = false, 100*time.Millisecond })
				c, d := client(t, p, base(t, s))
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				resp, err := c.Do(request(t, "GET", s.URL, "").WithContext(ctx))
				if err != nil {
					t.Fatal(err)
				}
				if err = tt.act(cancel, resp); tt.want != nil && !errors.Is(err, tt.want) {
					t.Errorf("the body ended with %v, want %v", err, tt.want)
				}
				resp.Body.Close()
				synctest.Wait() // let the other closers finish
				counts := d.Stats().Partitions[0].Breaker.Counts
				if counts.Failures != tt.fails || counts.Calls != 1 {
					t.Errorf("%d failures of %d outcomes, want %d of one: %v", counts.Failures, counts.Calls, tt.fails, err)
				}
				gabiontest.NothingHeld(t, d)
			})
		}
	}
}

func drain(resp *http.Response) error { _, err := io.Copy(io.Discard, resp.Body); return err }

func TestClientTimeoutStillWorks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := servePiped(t, stall)
		c, d := client(t, eager(), base(t, s))
		c.Timeout = 50 * time.Millisecond
		resp, err := c.Get(s.URL)
		if err != nil {
			t.Fatal(err)
		}
		if err := drain(resp); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the body ended with %v", err)
		}
		resp.Body.Close()
		gabiontest.NothingHeld(t, d)
	})
}
