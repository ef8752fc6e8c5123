package gabionhttp_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/gabionhttp"
	"github.com/gabion-go/gabion/gabiontest"
	"github.com/gabion-go/gabion/policy"
)

// What one request's end does to its stream over HTTP/2 is nothing to the others on the
// connection: they are answered, nothing is sent again, and the connection serves on.
func TestOneStreamsEndIsItsOwn(t *testing.T) {
	for name, tt := range map[string]struct {
		policy func(*policy.Policy)
		end    func(cancel func())
		reason gabion.Reason
	}{
		"the caller gives up":      {func(*policy.Policy) {}, func(cancel func()) { cancel() }, policy.Canceled},
		"the attempt's time is up": {func(p *policy.Policy) { p.Timeout.Attempt, p.Retry.Attempts = time.Second, 1 }, func(func()) {}, policy.AttemptsExhausted},
	} {
		bubble(t, name, func(t *testing.T) {
			const others = 10
			free := make(chan struct{})
			s := servePipedH2(t, func(w http.ResponseWriter, r *http.Request) {
				switch r.URL.Path {
				case "/hangs":
					<-r.Context().Done()
				case "/waits":
					<-free
				}
				io.WriteString(w, "ok")
			})
			tr := base(t, s)
			one, _ := client(t, with(eager(), tt.policy), tr)
			all, d := client(t, eager(), tr)
			warm, err := all.Get(s.URL) // who come at once to no connection make one each
			if err != nil {
				t.Fatal(err)
			}
			read(t, warm)

			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			ended := make(chan error)
			go func() {
				_, err := one.Do(request(t, "GET", s.URL+"/hangs", "").WithContext(ctx))
				ended <- err
			}()
			var waiting sync.WaitGroup
			for range others {
				waiting.Go(func() {
					resp, err := all.Do(request(t, "POST", s.URL+"/waits", "charge"))
					if err != nil {
						t.Error(err)
						return
					}
					if got := read(t, resp); got != "ok" {
						t.Errorf("got %q", got)
					}
				})
			}
			for s.requests.Load() < others+2 {
				time.Sleep(time.Millisecond)
			}
			tt.end(cancel)
			if err := <-ended; gabion.ReasonOf(err) != tt.reason {
				t.Errorf("the one ended with %v", err)
			}
			close(free)
			waiting.Wait()
			after, err := all.Get(s.URL)
			if err != nil {
				t.Fatal(err)
			}
			read(t, after)
			if n, conns := s.requests.Load(), s.conns.Load(); n != others+3 || conns != 1 {
				t.Errorf("%d requests on %d connections, want %d on one", n, conns, others+3)
			}
			if n := all.Transport.(*gabionhttp.Transport).Hidden(); n != 0 {
				t.Errorf("%d were sent again", n)
			}
			gabiontest.NothingHeld(t, d)
		})
	}
}

// A retry sends the whole body again, also when the server answered before it had read
// the first one.
func TestBodiesAreSentAgainOverHTTP2(t *testing.T) {
	long := strings.Repeat("0123456789", 100_000) // more than the server's window
	for name, tt := range map[string]struct {
		body   string
		stream bool // of unknown length, without GetBody
		early  bool
		sent   int32
	}{
		"short":                                  {"charge", false, false, 2},
		"short, a stream":                        {"charge", true, false, 2},
		"long":                                   {long, false, false, 2},
		"long, answered early":                   {long, false, true, 2},
		"long, a stream that can't be had again": {long, true, false, 1},
		"long, a stream of which some was read, early": {long, true, true, 1},
	} {
		t.Run(name, func(t *testing.T) {
			var whole atomic.Int32
			s := serveH2(t, nil)
			s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.ProtoMajor != 2 {
					t.Errorf("spoke %s", r.Proto)
				}
				first := s.requests.Add(1) == 1
				if first && tt.early { // once some of the body has arrived: a stream of which nothing was read can be sent again
					if _, err := io.ReadFull(r.Body, make([]byte, 1)); err != nil {
						t.Error(err)
					}
				} else {
					if got, err := io.ReadAll(r.Body); err != nil || string(got) != tt.body {
						t.Errorf("arrived: %d bytes, %v", len(got), err)
					}
					whole.Add(1)
				}
				if first {
					w.WriteHeader(http.StatusServiceUnavailable)
				}
			})
			c, d := client(t, eager(), base(t, s))
			body := &watchedBody{Reader: strings.NewReader(tt.body), gone: make(chan struct{})}
			req := request(t, "PUT", s.URL, tt.body)
			if tt.stream {
				req.Body, req.GetBody, req.ContentLength = body, nil, -1
			}
			resp, err := c.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			read(t, resp)
			want := map[bool]int{true: 200, false: 503}[tt.sent == 2]
			if resp.StatusCode != want || s.requests.Load() != tt.sent {
				t.Errorf("%d after %d requests, %d whole", resp.StatusCode, s.requests.Load(), whole.Load())
			}
			if v := gabionhttp.Verdict(resp); want == 503 && !errors.Is(v, policy.BodyNotRewindable) {
				t.Errorf("verdict %v", v)
			}
			if tt.stream { // net/http may close it a moment after an early answer
				select {
				case <-body.gone:
				case <-time.After(10 * time.Second):
				}
			}
			if tt.stream && body.closed.Load() != 1 {
				t.Errorf("the body was closed %d times", body.closed.Load())
			}
			gabiontest.NothingHeld(t, d)
		})
	}
}

// The time that is left travels, and what an earlier hop wrote does not.
func TestDeadlineHeaderOverHTTP2(t *testing.T) {
	bubble(t, "two hops", func(t *testing.T) {
		var left, attempt []string
		s := servePipedH2(t, nil)
		s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			left, attempt = append(left, r.Header.Get(gabionhttp.HeaderDeadline)), append(attempt, r.Header.Get(gabionhttp.HeaderAttempt))
			time.Sleep(time.Second)
			w.WriteHeader(http.StatusServiceUnavailable)
		})
		p := withInternal(with(eager(), func(p *policy.Policy) {
			p.Retry.Attempts, p.Timeout.Attempt, p.Timeout.HopMargin = 2, policy.Off, 100*time.Millisecond
		}))
		c, _ := client(t, p, base(t, s))
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		req := request(t, "GET", s.URL, "").WithContext(ctx)
		req.Header.Set(gabionhttp.HeaderDeadline, "60000")
		resp, err := c.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		read(t, resp)
		if len(left) != 2 || left[0] != "4900" || left[1] > "3900" || left[1] < "3800" || attempt[0] != "1" || attempt[1] != "2" {
			t.Errorf("time left %q of attempts %q", left, attempt)
		}
	})
}
