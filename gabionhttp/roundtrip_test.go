package gabionhttp_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/gabionhttp"
	"github.com/gabion-go/gabion/gabiontest"
	"github.com/gabion-go/gabion/policy"
)

// T1: retried answers are drained and closed, so 1,000 retries need one connection
// and leave no goroutine; with hedging allowed too.
func TestRetriedAnswersLeaveNoConnections(t *testing.T) {
	hedged := with(eager(), func(p *policy.Policy) { p.Hedge = policy.Hedge{Max: 1, Delay: 10 * time.Second}; p.Retry.Attempts = 4 })
	tests := []struct {
		name  string
		p     policy.Policy
		conns int32 // at most
	}{
		{"serial", eager(), 1},
		{"hedging", hedged, 4}, // an attempt may begin while those before it are drained
	}
	for _, tt := range tests {
		bubble(t, tt.name, func(t *testing.T) { // where a drain never takes longer than it may
			var n atomic.Int32
			s := servePiped(t, func(w http.ResponseWriter, r *http.Request) {
				if n.Add(1)%3 != 0 {
					w.WriteHeader(http.StatusServiceUnavailable)
					w.(http.Flusher).Flush() // so that the length is unknown
				}
				io.WriteString(w, strings.Repeat("x", 5000))
			})
			open := &bodies{RoundTripper: base(t, s)}
			c, d := client(t, tt.p, open)
			for range 500 {
				resp, err := c.Do(request(t, "GET", s.URL, ""))
				if err != nil {
					t.Fatal(err)
				}
				if read(t, resp); resp.StatusCode != 200 {
					t.Fatal(resp.Status)
				}
			}
			if s.requests.Load() != 1500 {
				t.Errorf("%d requests", s.requests.Load())
			}
			if c := s.conns.Load(); c > tt.conns {
				t.Errorf("%d connections for 1500 requests", c)
			}
			open.check(t)
			gabiontest.NothingHeld(t, d)
		})
	}
}

// T2: work that panics or leaves by Goexit gives slot and body back.
func TestPanicAndGoexitGiveTheSlotBack(t *testing.T) {
	for name, leave := range map[string]func(){
		"panic":           func() { panic("broken transport") },
		"ErrAbortHandler": func() { panic(http.ErrAbortHandler) },
		"Goexit":          runtime.Goexit,
	} {
		t.Run(name, func(t *testing.T) {
			bad := true
			rt := roundTripper(func(req *http.Request) (*http.Response, error) {
				if bad {
					leave()
				}
				return answer(req, 200, ""), nil
			})
			c, d := client(t, policy.Policy{Bulkhead: policy.Bulkhead{Limit: 1, Queue: policy.Off}}, rt)
			body := &watchedBody{Reader: strings.NewReader("stream")}
			done := make(chan any)
			go func() {
				defer func() { done <- recover() }()
				req := request(t, "POST", "http://shop", "")
				req.Body, req.ContentLength = body, -1
				c.Do(req)
			}()
			if crash := <-done; (crash == nil) != (name == "Goexit") {
				t.Errorf("recovered %v", crash)
			}
			if body.closed.Load() == 0 {
				t.Error("the request body was not closed")
			}
			gabiontest.NothingHeld(t, d)
			bad = false
			resp, err := c.Get("http://shop")
			if err != nil {
				t.Fatalf("the slot is gone: %v", err)
			}
			read(t, resp)
		})
	}
}

type watchedBody struct {
	io.Reader
	closed atomic.Int32
	gone   chan struct{} // nil, or closed with the body
}

func (w *watchedBody) Close() error {
	if w.closed.Add(1) == 1 && w.gone != nil {
		close(w.gone)
	}
	return nil
}

// T2 on the server's side: a handler that aborts while it holds an answer open.
func TestAbortedHandlersLeaveNothing(t *testing.T) {
	inner := serve(t, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "hello") })
	c, d := client(t, policy.Policy{Bulkhead: policy.Bulkhead{Limit: 1, Queue: policy.Off}}, base(t, inner))
	outer := serve(t, func(w http.ResponseWriter, r *http.Request) {
		resp, err := c.Get(inner.URL)
		if err != nil {
			gabionhttp.Error(w, err)
			return
		}
		defer resp.Body.Close()
		panic(http.ErrAbortHandler)
	})
	for range 3 {
		if _, err := outer.Client().Get(outer.URL); err == nil {
			t.Error("the handler did not abort")
		}
	}
	if n := inner.requests.Load(); n < 3 {
		t.Errorf("%d of 3 requests arrived: the slot is gone", n)
	}
	gabiontest.NothingHeld(t, d)
}

// T4: what sends the request sees the attempt's deadline, and an error of it is a
// deadline's and names the layer.
func TestTheDeadlineIsVisible(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var left time.Duration
		rt := roundTripper(func(req *http.Request) (*http.Response, error) {
			deadline, _ := req.Context().Deadline()
			left = time.Until(deadline)
			<-req.Context().Done()
			if !errors.Is(req.Context().Err(), context.DeadlineExceeded) {
				t.Errorf("the context ended with %v", req.Context().Err())
			}
			return nil, context.Cause(req.Context()) // as net/http does
		})
		c, _ := client(t, policy.Policy{Timeout: policy.Timeout{Call: time.Hour, Attempt: time.Second}}, rt)
		_, err := c.Post("http://shop", "", strings.NewReader("x"))
		if left != time.Second {
			t.Errorf("the deadline was %v ahead", left)
		}
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, policy.AttemptTimeout) {
			t.Errorf("the call ended with %v", err)
		}
	})
}

// T6: Retry-After in both forms is never cut short, one that does not fit ends the
// call with the real answer, and an open breaker is not retried.
func TestRetryAfterIsObeyed(t *testing.T) {
	tests := []struct {
		name   string
		status int
		value  func(now time.Time) string
		least  time.Duration // zero: no retry
	}{
		{"seconds on 503", 503, func(time.Time) string { return "2" }, 2 * time.Second},
		{"seconds on 429", 429, func(time.Time) string { return "2" }, 2 * time.Second},
		{"a date on 503", 503, func(now time.Time) string { return now.Add(3 * time.Second).UTC().Format(http.TimeFormat) }, 3 * time.Second},
		{"a date on 429", 429, func(now time.Time) string { return now.Add(3 * time.Second).UTC().Format(http.TimeFormat) }, 3 * time.Second},
		{"longer than the deadline", 503, func(time.Time) string { return "3600" }, 0},
		{"a million seconds", 429, func(time.Time) string { return "1000000" }, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := 0
				rt := roundTripper(func(req *http.Request) (*http.Response, error) {
					if n++; n == 1 {
						return answer(req, tt.status, "busy", "Retry-After", tt.value(time.Now())), nil
					}
					return answer(req, 200, ""), nil
				})
				c, _ := client(t, policy.Policy{}, rt)
				start := time.Now()
				resp, err := c.Do(request(t, "GET", "http://shop", ""))
				took := time.Since(start)
				switch {
				case err != nil:
					t.Fatal(err)
				case tt.least == 0 && (took != 0 || read(t, resp) != "busy" || gabionhttp.Verdict(resp).Reason != policy.RetryAfterTooLong):
					t.Errorf("after %v: %v, %v", took, resp.Status, gabionhttp.Verdict(resp))
				case tt.least > 0 && (took < tt.least || took > tt.least*3/2 || resp.StatusCode != 200):
					t.Errorf("%v after %v", resp.Status, took)
				}
				resp.Body.Close()
			})
		})
	}
}

// SPEC B5: a 429 says that the request was not begun, which makes a POST without a key
// safe to repeat. A 503 does not say so.
func TestIssue10_APostThatWasTurnedAwayIsRetried(t *testing.T) {
	tests := []struct {
		name   string
		status int
		after  string
		sent   int
		least  time.Duration
		reason policy.Reason
	}{
		{"429 is sent again", 429, "", 2, 0, policy.None},
		{"429 is sent again when its time has come", 429, "2", 2, 2 * time.Second, policy.None},
		{"503 may have been carried out", 503, "2", 1, 0, policy.NotSafe},
	}
	for _, tt := range tests {
		bubble(t, tt.name, func(t *testing.T) {
			n := 0
			rt := roundTripper(func(req *http.Request) (*http.Response, error) {
				if n++; n == 1 {
					return answer(req, tt.status, "busy", "Retry-After", tt.after), nil
				}
				return answer(req, 200, ""), nil
			})
			c, _ := client(t, policy.Policy{}, rt)
			start := time.Now()
			resp, err := c.Do(request(t, "POST", "http://shop", "charge"))
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if n != tt.sent || time.Since(start) < tt.least {
				t.Errorf("%d requests after %v", n, time.Since(start))
			}
			if v := gabionhttp.Verdict(resp); gabion.ReasonOf(errOf(v)) != tt.reason {
				t.Errorf("the call ended with %v, want %v", v, tt.reason)
			}
		})
	}
}

// errOf is v as an error, nil if v is nil.
func errOf(v *gabion.Error) error {
	if v == nil {
		return nil
	}
	return v
}

func TestAnOpenBreakerIsNotRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		rt := roundTripper(func(req *http.Request) (*http.Response, error) { n++; return answer(req, 503, ""), nil })
		c, _ := client(t, policy.Policy{Breaker: policy.Breaker{Consecutive: 1}}, rt)
		for range 2 {
			start := time.Now()
			resp, err := c.Get("http://shop")
			if err == nil {
				err = gabionhttp.Verdict(resp)
				resp.Body.Close()
			}
			if took := time.Since(start); !errors.Is(err, policy.BreakerOpen) || took != 0 {
				t.Errorf("%v after %v", err, took)
			}
		}
		if n != 1 {
			t.Errorf("%d requests went out", n)
		}
	})
}

// T7: server side. Work sees the end of its request, what was written stays as it
// is, and refusals say when to come back.
func TestServersWorkOnTheRequestsContext(t *testing.T) {
	started, ended := make(chan bool), make(chan error, 1)
	s := httptest.NewServer(&gabionhttp.Deadline{Max: time.Minute, Next: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		close(started)
		<-r.Context().Done()
		ended <- r.Context().Err()
	})})
	defer s.Close()
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-started; cancel() }()
	req, _ := http.NewRequestWithContext(ctx, "GET", s.URL, nil)
	if _, err := s.Client().Do(req); err == nil {
		t.Error("the client did not leave")
	}
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the handler saw %v", err)
	}
}

func TestNothingIsAddedToAPartialAnswer(t *testing.T) {
	s := httptest.NewServer(&gabionhttp.Deadline{Max: 20 * time.Millisecond, Next: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "part")
		<-r.Context().Done()
	})})
	defer s.Close()
	resp, err := s.Client().Get(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	if got := read(t, resp); got != "part" || resp.StatusCode != 200 {
		t.Errorf("%d %q", resp.StatusCode, got)
	}
}

// T9: requests with contexts that live on leave no goroutines.
func TestLongLivedContextsLeaveNoGoroutines(t *testing.T) {
	gabiontest.NoLeaks(t)
	s := serve(t, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "hello") })
	for _, hedges := range []int{0, 1} {
		c, _ := client(t, policy.Policy{Hedge: policy.Hedge{Off: hedges == 0, Max: hedges, Delay: time.Second}}, base(t, s))
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		before := runtime.NumGoroutine()
		for range 200 {
			req, _ := http.NewRequestWithContext(ctx, "GET", s.URL, nil)
			resp, err := c.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			read(t, resp)
		}
		if more := runtime.NumGoroutine() - before; more > 20 { // net/http's own connections
			t.Errorf("200 requests left %d goroutines", more)
		}
	}
}

// T10: a hedge never shares the first attempt's reader. A file without GetBody that
// is too long to keep is not hedged at all; one with GetBody is read twice.
func TestHedgesHaveBodiesOfTheirOwn(t *testing.T) {
	file := filepath.Join(t.TempDir(), "upload")
	text := strings.Repeat("0123456789", 20_000)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var wrong atomic.Int32
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		got, err := io.ReadAll(r.Body)
		if err == nil && string(got) != text {
			wrong.Add(1)
		}
	})
	p := with(eager(), func(p *policy.Policy) { p.Hedge = policy.Hedge{Max: 2, Percentile: policy.Off} }) // all at once
	for name, reopen := range map[string]bool{"plain file": false, "with GetBody": true} {
		t.Run(name, func(t *testing.T) {
			var events gabiontest.Recorder
			c, _ := client(t, p, base(t, s), gabion.WithObserver(&events))
			for range 20 {
				upload(t, c, s.URL, file, reopen)
			}
			if hedges := events.Load().Hedges; (hedges > 0) != reopen {
				t.Errorf("%d hedges", hedges)
			}
		})
	}
	if n := wrong.Load(); n > 0 {
		t.Errorf("%d uploads arrived damaged", n)
	}
}

func upload(t *testing.T, c *http.Client, url, file string, reopen bool) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	req := request(t, "PUT", url, "")
	req.Body, req.ContentLength = f, 200_000
	if reopen {
		req.GetBody = func() (io.ReadCloser, error) { return os.Open(file) }
	}
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	read(t, resp)
}

// T12: what hedges that lost brought is closed, and their connections go.
func TestLosersAreClosed(t *testing.T) {
	gabiontest.NoLeaks(t)
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(200)
		w.(http.Flusher).Flush()
		io.WriteString(w, strings.Repeat("x", 10_000))
	})
	open := &bodies{RoundTripper: base(t, s)}
	p := with(eager(), func(p *policy.Policy) { p.Hedge = policy.Hedge{Max: 2, Percentile: policy.Off} })
	c, d := client(t, p, open)
	for range 100 {
		resp, err := c.Do(request(t, "GET", s.URL, ""))
		if err != nil {
			t.Fatal(err)
		}
		if got := read(t, resp); len(got) != 10_000 {
			t.Fatalf("read %d bytes: the winner was cut off", len(got))
		}
	}
	for range 200 { // losers come home a moment after the winner
		if open.opened.Load() == open.closed.Load() && d.Stats().Bulkhead.InUse == 0 {
			break
		}
		<-time.After(10 * time.Millisecond)
	}
	open.check(t)
	gabiontest.NothingHeld(t, d)
}

// T16: the context lives until the body is read, not until RoundTrip returns.
func TestLongBodiesAreReadToTheirEnd(t *testing.T) {
	const size = 4 << 20
	s := serve(t, func(w http.ResponseWriter, r *http.Request) { w.Write(make([]byte, size)) })
	for _, hedges := range []int{0, 1} {
		c, _ := client(t, policy.Policy{Hedge: policy.Hedge{Off: hedges == 0, Max: hedges, Delay: time.Second}}, base(t, s))
		resp, err := c.Get(s.URL)
		if err != nil {
			t.Fatal(err)
		}
		if got := read(t, resp); len(got) != size {
			t.Errorf("read %d bytes", len(got))
		}
	}
}

// T18: giving up leaves the idle pool alone, POST is sent once, the last answer is
// readable, the original body closed, and nothing sleeps for an hour.
func TestGivingUpIsTidy(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.WriteHeader(http.StatusServiceUnavailable)
		io.WriteString(w, "sorry")
	})
	c, _ := client(t, eager(), base(t, s))
	for _, method := range []string{"GET", "POST"} {
		before := s.requests.Load()
		body := &watchedBody{Reader: strings.NewReader("x")}
		req := request(t, method, s.URL, "")
		if method == "POST" {
			req.Body, req.ContentLength = body, 1
		}
		resp, err := c.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if got := read(t, resp); got != "sorry" || resp.StatusCode != 503 {
			t.Errorf("%s: %d %q", method, resp.StatusCode, got)
		}
		if want := map[string]int32{"GET": 3, "POST": 1}[method]; s.requests.Load()-before != want {
			t.Errorf("%s: %d requests, want %d", method, s.requests.Load()-before, want)
		}
		if method == "POST" && body.closed.Load() != 1 {
			t.Errorf("body closed %d times", body.closed.Load())
		}
	}
	if n := s.conns.Load(); n > 3 {
		t.Errorf("%d connections: the idle pool was thrown away", n)
	}
}

// T20: the call's time bounds all of it, the last attempt too.
func TestTheCallEndsAtItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := roundTripper(func(req *http.Request) (*http.Response, error) {
			select {
			case <-time.After(100 * time.Millisecond):
				return answer(req, 503, ""), nil
			case <-req.Context().Done():
				return nil, context.Cause(req.Context())
			}
		})
		p := policy.Policy{
			Timeout: policy.Timeout{Call: 500 * time.Millisecond, Attempt: 300 * time.Millisecond},
			Retry:   policy.Retry{Attempts: 8, Backoff: backoff.Const(80 * time.Millisecond), Budget: policy.Budget{Off: true}},
			Breaker: policy.Breaker{Off: true},
		}
		c, _ := client(t, p, rt)
		start := time.Now()
		resp, err := c.Get("http://shop")
		if took := time.Since(start); took > 500*time.Millisecond {
			t.Errorf("took %v", took)
		}
		if err == nil {
			resp.Body.Close()
			err = gabionhttp.Verdict(resp)
		}
		if !errors.Is(err, policy.DeadlineShort) && !errors.Is(err, policy.CallTimeout) {
			t.Errorf("ended with %v", err)
		}
	})
}
