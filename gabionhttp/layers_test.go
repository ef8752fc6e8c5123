package gabionhttp_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"testing"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/gabionhttp"
)

// C75, C116: three layers of three attempts are three requests at the bottom, and
// not 27, because whoever gave up says so. Without the mark they are 27.
func TestC116_LayersDoNotMultiply(t *testing.T) {
	layers := map[string]func(t *testing.T, below string) http.Handler{
		"handlers that answer with Error": func(t *testing.T, below string) http.Handler {
			c, _ := client(t, eager(), base(t, nil))
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				resp, err := c.Get(below)
				if err == nil {
					resp.Body.Close()
					if v := gabionhttp.Verdict(resp); v != nil {
						err = v
					}
				}
				if err != nil {
					gabionhttp.Error(w, err)
				}
			})
		},
		"proxies that pass answers on": func(t *testing.T, below string) http.Handler {
			c, _ := client(t, eager(), base(t, nil))
			u, _ := url.Parse(below)
			return &httputil.ReverseProxy{Transport: c.Transport, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(u) }}
		},
	}
	for name, layer := range layers {
		t.Run(name, func(t *testing.T) {
			bottom := serve(t, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
			at := bottom.URL
			for range 2 {
				s := httptest.NewServer(layer(t, at))
				defer s.Close()
				at = s.URL
			}
			c, _ := client(t, eager(), base(t, nil))
			resp, err := c.Get(at)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if n := bottom.requests.Load(); n != 3 || resp.StatusCode != 503 {
				t.Errorf("%d requests at the bottom for one call with %s, want 3", n, resp.Status)
			}
			if v := gabionhttp.Verdict(resp); v == nil || v.Reason != gabion.DoNotRetry || v.Attempts != 1 {
				t.Errorf("the top thinks %v", v)
			}
		})
	}
}

// Two Transports in one program are two layers too.
func TestC116_StackedTransportsDoNotMultiply(t *testing.T) {
	bottom := serve(t, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	inner, _ := client(t, eager(), base(t, bottom))
	outer, _ := client(t, eager(), inner.Transport)
	resp, err := outer.Get(bottom.URL)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if n := bottom.requests.Load(); n != 3 {
		t.Errorf("%d requests", n)
	}
}

func TestErrorAnswersAsTheReasonCallsFor(t *testing.T) {
	why := func(r gabion.Reason) *gabion.Error { return &gabion.Error{Dependency: "vault", Reason: r} }
	late := why(gabion.BreakerOpen)
	late.RetryAfter = 1500 * time.Millisecond
	tests := []struct {
		err    error
		status int
		mark   string
		after  string
		body   string
	}{
		{why(gabion.AttemptsExhausted), 503, "false", "", "attempts_exhausted\n"},
		{late, 503, "false", "2", "breaker_open\n"},
		{why(gabion.BulkheadFull), 503, "false", "", "bulkhead_full\n"},
		{why(gabion.CallTimeout), 504, "false", "", "call_timeout\n"},
		{why(gabion.DeadlineShort), 504, "false", "", "deadline_short\n"},
		{why(gabion.Paced), 429, "false", "", "paced\n"},
		{why(gabion.RateLimited), 429, "false", "", "rate_limited\n"},
		{why(gabion.NotRetryable), 502, "false", "", "not_retryable\n"},
		{why(gabion.KeyMissing), 500, "false", "", "key_missing\n"},
		{fmt.Errorf("charge: %w", why(gabion.NotSafe)), 502, "false", "", "not_safe\n"},
		{errors.New("secret"), 500, "", "", "Internal Server Error\n"},
		{(*gabion.Error)(nil), 500, "", "", "Internal Server Error\n"},
	}
	for _, tt := range tests {
		w := httptest.NewRecorder()
		gabionhttp.Error(w, tt.err)
		h := w.Header()
		if w.Code != tt.status || h.Get("X-Should-Retry") != tt.mark || h.Get("Retry-After") != tt.after || w.Body.String() != tt.body {
			t.Errorf("%#v: %d %v %q", tt.err, w.Code, h, w.Body.String())
		}
	}
}

// Every reason has an answer that is a failure, and none of it leaks.
func TestErrorKnowsEveryReason(t *testing.T) {
	for _, r := range policyReasons() {
		w := httptest.NewRecorder()
		gabionhttp.Error(w, &gabion.Error{Dependency: "vault", Reason: r, Err: errors.New("secret")})
		if w.Code < 429 || w.Body.String() != r.String()+"\n" {
			t.Errorf("%s: %d %q", r, w.Code, w.Body.String())
		}
	}
}

// A hop passes on less time than it was given, and what is spent is not sent (C96).
func TestDeadlinesTravelAndShrink(t *testing.T) {
	var seen []time.Duration
	note := func(r *http.Request) {
		left, ok, _ := gabionhttp.TimeLeft(r.Header)
		if !ok {
			t.Error("no deadline arrived")
		}
		seen = append(seen, left)
	}
	bottom := serve(t, func(w http.ResponseWriter, r *http.Request) { note(r) })
	internal := withInternal(eager())
	c, _ := client(t, internal, base(t, nil))
	middle := httptest.NewServer(&gabionhttp.Deadline{Next: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		note(r)
		req, _ := http.NewRequestWithContext(r.Context(), "GET", bottom.URL, nil)
		resp, err := c.Do(req)
		if err != nil {
			gabionhttp.Error(w, err)
			return
		}
		resp.Body.Close()
	})})
	defer middle.Close()
	top, _ := client(t, internal, base(t, nil))
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	req, _ := http.NewRequestWithContext(ctx, "GET", middle.URL, nil)
	resp, err := top.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if len(seen) != 2 || seen[0] > 29900*time.Millisecond || seen[1] > seen[0]-100*time.Millisecond {
		t.Errorf("time left per hop: %v", seen)
	}
}

// Vendors do not learn our internals (E6).
func TestExternalDependenciesGetNoHeadersOfOurs(t *testing.T) {
	var h http.Header
	s := serve(t, func(w http.ResponseWriter, r *http.Request) { h = r.Header })
	for _, trusted := range []bool{false, true} {
		p := eager()
		if trusted {
			p = withInternal(p)
		}
		c, _ := client(t, p, base(t, s))
		resp, err := c.Get(s.URL)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if got := h.Get(gabionhttp.HeaderDeadline) != "" && h.Get(gabionhttp.HeaderAttempt) == "1"; got != trusted {
			t.Errorf("internal %v: %v", trusted, h)
		}
	}
}

// A hop without time to pass on sends nothing, does not try again, and does not
// hold it against the dependency.
func TestNoTimeForTheNextHopIsNotTheDependencysFault(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {})
	p := withInternal(eager())
	p.Timeout.HopMargin = 40 * time.Second
	p.Breaker.Off, p.Breaker.Consecutive = false, 1
	c, _ := client(t, p, base(t, s))
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second) // less than the hop margin
	defer cancel()
	for range 2 {
		_, err := c.Do(request(t, "GET", s.URL, "").WithContext(ctx))
		if !errors.Is(err, gabion.NotRetryable) || !errors.Is(err, context.DeadlineExceeded) || gabion.EffectOf(err) != gabion.NoEffect {
			t.Errorf("ended with %v", err)
		}
		w := httptest.NewRecorder()
		if gabionhttp.Error(w, err); w.Code != http.StatusGatewayTimeout {
			t.Errorf("answered %d: it is time that ran out", w.Code)
		}
	}
	if n := s.requests.Load(); n != 0 {
		t.Errorf("%d requests were sent", n)
	}
}
