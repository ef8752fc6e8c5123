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
	"github.com/gabion-go/gabion/classify"
	"github.com/gabion-go/gabion/gabionhttp"
	"github.com/gabion-go/gabion/policy"
)

// C75, C116: three layers of three attempts are three requests at the bottom, and
// not 27, because a layer that gives up says so. Without the mark they are 27.
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
			if v := gabionhttp.Verdict(resp); v == nil || v.Reason != policy.DoNotRetry || v.Attempts != 1 {
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
	sent := func(n int, r gabion.Reason) *gabion.Error {
		return &gabion.Error{Dependency: "vault", Reason: r, Attempts: n}
	}
	why := func(r gabion.Reason) *gabion.Error { return sent(0, r) }
	late := why(policy.BreakerOpen)
	late.RetryAfter = 1500 * time.Millisecond
	tests := []struct {
		err    error
		status int
		mark   string
		after  string
		body   string
	}{
		{why(policy.AttemptsExhausted), 503, "false", "", "attempts_exhausted\n"},
		{late, 503, "false", "2", "breaker_open\n"},
		{why(policy.BulkheadFull), 503, "false", "", "bulkhead_full\n"},
		{why(policy.CallTimeout), 504, "false", "", "call_timeout\n"},
		{why(policy.DeadlineShort), 504, "false", "", "deadline_short\n"},
		{why(policy.Paced), 429, "false", "", "paced\n"},
		{why(policy.RateLimited), 429, "false", "", "rate_limited\n"},
		{why(policy.NotRetryable), 502, "false", "", "not_retryable\n"},
		{&gabion.Error{Reason: policy.NotRetryable, Attempts: 1, Err: fmt.Errorf("gRPC: no time for the next hop: %w", context.DeadlineExceeded)}, 504, "false", "", "not_retryable\n"},
		{why(policy.KeyMissing), 500, "false", "", "key_missing\n"},
		{sent(3, policy.AttemptsExhausted), 503, "false", "", "attempts_exhausted\n"},
		{sent(2, policy.BudgetExhausted), 503, "false", "", "budget_exhausted\n"},
		{sent(1, policy.NotRetryable), 502, "false", "", "not_retryable\n"},
		{sent(2, policy.NotSafe), 502, "", "", "not_safe\n"},
		{sent(1, policy.DoNotRetry), 503, "false", "", "do_not_retry\n"},
		{sent(1, policy.BreakerOpen), 503, "false", "", "breaker_open\n"},
		{sent(1, policy.AttemptsExhausted), 503, "", "", "attempts_exhausted\n"},
		{sent(1, policy.BudgetExhausted), 503, "", "", "budget_exhausted\n"},
		{sent(1, policy.BodyNotRewindable), 502, "", "", "body_not_rewindable\n"},
		{sent(1, policy.RetriesOff), 503, "", "", "retries_off\n"},
		{sent(1, policy.CallTimeout), 504, "", "", "call_timeout\n"},
		{fmt.Errorf("charge: %w", sent(1, policy.NotSafe)), 502, "", "", "not_safe\n"},
		{errors.New("secret"), 500, "", "", "Internal Server Error\n"},
		{(*gabion.Error)(nil), 500, "", "", "Internal Server Error\n"},
	}
	for _, tt := range tests {
		w := httptest.NewRecorder()
		gabionhttp.Error(w, tt.err)
		h := w.Header()
		if w.Code != tt.status || h.Get("X-Should-Retry") != tt.mark || h.Get("Retry-After") != tt.after || w.Body.String() != tt.body ||
			(h.Get(gabionhttp.HeaderGaveUp) != "") != repeated(tt.err) {
			t.Errorf("%#v: %d %v %q", tt.err, w.Code, h, w.Body.String())
		}
	}
}

func repeated(err error) bool {
	e, _ := errors.AsType[*gabion.Error](err)
	return e != nil && e.Attempts > 1 && e.Reason != policy.NotSafe
}

// An answer is marked only if gabion retried the request and gave up. A request that it sent
// once may be retried above: openai-go and anthropic-sdk-go stop when they see the mark.
func TestIssue10_OnlyWhatWasRepeatedIsMarked(t *testing.T) {
	tests := []struct {
		name   string
		policy policy.Policy
		method string
		body   string
		status []int
		mark   string
	}{
		{"a GET that failed three times", eager(), "GET", "", []int{503}, "attempts_exhausted; attempts=3"},
		{"a 500 that failed twice", eager(), "GET", "", []int{500}, "attempts_exhausted; attempts=2"},
		{"a 429 three times", eager(), "GET", "", []int{429}, "attempts_exhausted; attempts=3"},
		{"no budget for a third", with(eager(), func(p *policy.Policy) {
			p.Retry.Budget = policy.Budget{Ratio: 0.000001, Floor: 0.1, Window: 10 * time.Second}
		}), "GET", "", []int{503}, "budget_exhausted; attempts=2"},
		{"the time to come back is too long, the second time", with(eager(), func(p *policy.Policy) { p.Retry.MaxAfter = time.Second }), "GET", "", []int{503, 508}, "retry_after_too_long; attempts=2"},
		{"the time to come back is too long at once", with(eager(), func(p *policy.Policy) { p.Retry.MaxAfter = time.Second }), "GET", "", []int{508}, ""},
		{"a POST is not gabion's to repeat", eager(), "POST", "charge", []int{503}, ""},
		{"a policy of one attempt", with(eager(), func(p *policy.Policy) { p.Retry.Attempts = 1 }), "GET", "", []int{503}, ""},
		{"a POST that was refused a connection, and then answered", eager(), "POST", "charge", []int{0, 503}, ""},
		{"a permanent failure", eager(), "GET", "", []int{404}, ""},
		{"a permanent failure after a retry", eager(), "GET", "", []int{503, 404}, ""},
		{"a success after a retry", eager(), "GET", "", []int{503, 200}, ""},
	}
	for _, tt := range tests {
		bubble(t, tt.name, func(t *testing.T) {
			n := 0
			c, _ := client(t, tt.policy, roundTripper(func(req *http.Request) (*http.Response, error) {
				status := tt.status[min(n, len(tt.status)-1)]
				n++
				if status == 0 {
					return nil, classify.Transient(classify.NotSent(errors.New("refused")))
				}
				if status == 508 {
					return answer(req, 503, "", "Retry-After", "3600"), nil
				}
				return answer(req, status, ""), nil
			}))
			resp, err := c.Do(request(t, tt.method, "http://shop", tt.body))
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			stop := map[bool]string{true: "false"}[tt.mark != ""]
			if h := resp.Header; h.Get(gabionhttp.HeaderGaveUp) != tt.mark || h.Get("X-Should-Retry") != stop {
				t.Errorf("after %d requests: %v", n, h)
			}
		})
	}
}

func TestIssue10_RetriesThatAreOffAreNotMarked(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(503) })
	c, d := client(t, eager(), base(t, s))
	d.Retries().Stop(0)
	resp, err := c.Do(request(t, "GET", s.URL, ""))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if h := resp.Header; h.Get(gabionhttp.HeaderGaveUp)+h.Get("X-Should-Retry") != "" {
		t.Errorf("marked: %v", h)
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
		if !errors.Is(err, policy.NotRetryable) || !errors.Is(err, context.DeadlineExceeded) || gabion.EffectOf(err) != policy.NoEffect {
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

// A caller that leaves no more than the hop margin is answered by a server that is quick.
func TestACallerInAHurryIsPassedOn(t *testing.T) {
	for left, passed := range map[time.Duration]string{time.Second: "900", 150 * time.Millisecond: "75", 100 * time.Millisecond: "50", 2 * time.Millisecond: "1"} {
		bubble(t, left.String(), func(t *testing.T) {
			told := ""
			client, _ := client(t, withInternal(policy.Policy{}), roundTripper(func(r *http.Request) (*http.Response, error) {
				told = r.Header.Get(gabionhttp.HeaderDeadline)
				return answer(r, http.StatusOK, ""), nil
			}))
			ctx, cancel := context.WithTimeout(t.Context(), left)
			defer cancel()
			resp, err := client.Do(request(t, http.MethodGet, "http://quick.test/", "").WithContext(ctx))
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if told != passed {
				t.Errorf("the server was told of %q ms, want %s", told, passed)
			}
		})
	}
}
