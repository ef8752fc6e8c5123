package gabionhttp_test

import (
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/gabionhttp"
	"github.com/gabion-go/gabion/policy"
)

// endless is a policy whose attempts have no deadline.
func endless() policy.Policy {
	return with(eager(), func(p *policy.Policy) { p.Timeout = policy.Timeout{Attempt: policy.Off, Call: policy.Off} })
}

// proxied sends one request with the given header through middleware and a reverse
// proxy, and returns what arrives behind them.
func proxied(t *testing.T, p policy.Policy, names []string, header ...string) http.Header {
	t.Helper()
	var arrived http.Header
	s := serve(t, func(w http.ResponseWriter, r *http.Request) { arrived = r.Header })
	u, _ := url.Parse(s.URL)
	edge := httptest.NewServer(&gabionhttp.Deadline{
		Headers: names,
		Next: &httputil.ReverseProxy{
			Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(u) },
			Transport: &gabionhttp.Transport{Dependency: gabion.New("shop", p), Base: base(t, s), Headers: names},
		},
	})
	defer edge.Close()
	req := request(t, "GET", edge.URL, "")
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := base(t, nil).RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	if read(t, resp); resp.StatusCode != http.StatusOK {
		t.Fatal(resp.Status)
	}
	return arrived
}

// E2, E6: what an earlier hop told us of its deadline and attempts was for us.
func TestHeadersOfAnEarlierHopGoNoFurther(t *testing.T) {
	const deadline, attempt, envoy, grpc = gabionhttp.HeaderDeadline, gabionhttp.HeaderAttempt, gabionhttp.HeaderEnvoyTimeout, gabionhttp.HeaderGRPCTimeout
	internal := withInternal(eager())
	tests := []struct {
		name  string
		p     policy.Policy
		names []string
		sent  []string
		want  map[string]string // "" is absent, "*" is less than was sent
	}{
		{"E6 a vendor learns nothing", eager(), nil, []string{deadline, "60000", attempt, "7"}, map[string]string{deadline: "", attempt: ""}},
		{"E6 a vendor does not learn the attempt alone", eager(), nil, []string{attempt, "7"}, map[string]string{attempt: ""}},
		{"E6 nor what Headers names", eager(), []string{"grpc-timeout"}, []string{grpc, "60S"}, map[string]string{grpc: "", deadline: ""}},
		{"what is not ours passes", eager(), nil, []string{envoy, "60000", "X-Mine", "1"}, map[string]string{envoy: "60000", "X-Mine": "1"}},
		{"E2 ours gets less time, and our attempt", internal, nil, []string{deadline, "60000", attempt, "7"}, map[string]string{deadline: "*", attempt: "1"}},
		{"E2 in the headers that are named", internal, []string{"x-envoy-expected-rq-timeout-ms"}, []string{envoy, "60000", deadline, "60000"}, map[string]string{envoy: "*", deadline: ""}},
		{"E2 all of them", internal, []string{deadline, envoy}, []string{envoy, "60000"}, map[string]string{envoy: "*", deadline: "*"}},
		{"E2 ours without a deadline is not told of a spent one", withInternal(endless()), []string{envoy}, []string{deadline, "60000"}, map[string]string{deadline: "", envoy: "", attempt: "1"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := proxied(t, tt.p, tt.names, tt.sent...)
			for name, want := range tt.want {
				left, ok, _ := gabionhttp.TimeLeft(got, name)
				less := ok && left < 60*time.Second && len(got[name]) == 1
				if want == "*" && !less || want != "*" && got.Get(name) != want {
					t.Errorf("%s: %q arrived, want %q", name, got[name], want)
				}
			}
		})
	}
}

// E2, E6: without a proxy the same holds for what the caller's request has, which
// stays as it was.
func TestHeadersAreTakenFromACopy(t *testing.T) {
	var arrived http.Header
	rt := roundTripper(func(req *http.Request) (*http.Response, error) {
		arrived = req.Header
		return answer(req, 200, ""), nil
	})
	for name, p := range map[string]policy.Policy{"external": eager(), "internal without a deadline": withInternal(endless())} {
		c, _ := client(t, p, rt)
		req := request(t, "GET", "http://shop", "")
		req.Header.Set(gabionhttp.HeaderDeadline, "60000")
		resp, err := c.Transport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		read(t, resp)
		if got := arrived.Get(gabionhttp.HeaderDeadline); got != "" || req.Header.Get(gabionhttp.HeaderDeadline) != "60000" {
			t.Errorf("%s: %q arrived, and the caller's is %v", name, got, req.Header)
		}
	}
}

// E2: the time that is left is written as each name wants it.
func TestTransportWritesTheHeadersThatAreNamed(t *testing.T) {
	const deadline, envoy, grpc = gabionhttp.HeaderDeadline, gabionhttp.HeaderEnvoyTimeout, gabionhttp.HeaderGRPCTimeout
	tests := map[string]struct {
		names []string
		want  map[string]string
	}{
		"nil is ours alone": {nil, map[string]string{deadline: "900", envoy: "", grpc: ""}},
		"Envoy's":           {[]string{envoy}, map[string]string{deadline: "", envoy: "900"}},
		"all": {
			[]string{deadline, envoy, "grpc-timeout"},
			map[string]string{deadline: "900", envoy: "900", grpc: "900000u"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var arrived http.Header
				rt := roundTripper(func(req *http.Request) (*http.Response, error) {
					arrived = req.Header
					return answer(req, 200, ""), nil
				})
				tr := &gabionhttp.Transport{Dependency: gabion.New("shop", withInternal(endless())), Base: rt, Headers: tt.names}
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				resp, err := tr.RoundTrip(request(t, "GET", "http://shop", "").WithContext(ctx))
				if err != nil {
					t.Fatal(err)
				}
				read(t, resp)
				for name, want := range tt.want {
					if got := arrived.Get(name); got != want {
						t.Errorf("%s: %q, want %q", name, got, want)
					}
				}
			})
		})
	}
}

// A body of known length is read before anything is sent; when that fails the call
// ends like any other whose body broke.
func TestABrokenBodyOfKnownLengthEndsAsCanceled(t *testing.T) {
	errDisk := errors.New("disk")
	tests := map[string]struct {
		body io.Reader
		want error
	}{
		"broken":               {io.MultiReader(strings.NewReader("half"), failing{errDisk}), errDisk},
		"longer than declared": {strings.NewReader(strings.Repeat("x", 11)), nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			sent := 0
			c, d := client(t, eager(), roundTripper(func(req *http.Request) (*http.Response, error) { sent++; return answer(req, 200, ""), nil }))
			req := request(t, "PUT", "http://shop", "")
			req.Body, req.ContentLength = io.NopCloser(tt.body), 10
			_, err := c.Transport.RoundTrip(req)
			var e *gabion.Error
			if !errors.As(err, &e) {
				t.Fatalf("ended with %#v", err)
			}
			if e.Dependency != d.Name() || e.Reason != policy.Canceled || e.Effect != policy.NoEffect || e.Attempts != 0 || e.Err == nil || sent != 0 {
				t.Errorf("%d sent, ended with %+v", sent, e)
			}
			if tt.want != nil && !errors.Is(err, tt.want) {
				t.Errorf("the reader's error is lost: %v", err)
			}
		})
	}
}

// So does one whose caller gave up while its reader kept us waiting.
func TestGivingUpOnABodyOfKnownLengthSaysWhy(t *testing.T) {
	errWhy := errors.New("why")
	tests := map[string]struct {
		end  func(context.Context) (context.Context, context.CancelFunc)
		want gabion.Reason
	}{
		"deadline": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeoutCause(ctx, time.Second, errWhy)
		}, policy.CallTimeout},
		"cancel": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancelCause(ctx)
			time.AfterFunc(time.Second, func() { cancel(errWhy) })
			return ctx, func() { cancel(nil) }
		}, policy.Canceled},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := tt.end(t.Context())
				defer cancel()
				never, _ := io.Pipe()
				req, _ := http.NewRequestWithContext(ctx, "POST", "http://shop", never)
				req.ContentLength = 10
				c, _ := client(t, eager(), roundTripper(func(req *http.Request) (*http.Response, error) { return answer(req, 200, ""), nil }))
				_, err := c.Transport.RoundTrip(req)
				if gabion.ReasonOf(err) != tt.want || !errors.Is(err, ctx.Err()) || !errors.Is(err, errWhy) || gabion.EffectOf(err) != policy.NoEffect {
					t.Errorf("ended with %v", err)
				}
			})
		})
	}
}

func TestDeadlineWithoutNextServesTheDefaultMux(t *testing.T) {
	before := http.DefaultServeMux
	defer func() { http.DefaultServeMux = before }()
	http.DefaultServeMux = http.NewServeMux()
	http.HandleFunc("/here", func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusNoContent) })
	for _, d := range []*gabionhttp.Deadline{{}, {Max: time.Second}} {
		for path, want := range map[string]int{"/": http.StatusNotFound, "/here": http.StatusNoContent} {
			w := httptest.NewRecorder()
			d.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
			if w.Code != want {
				t.Errorf("max %v: %s answers %d, want %d", d.Max, path, w.Code, want)
			}
		}
	}
}

// A server that asks for longer than a duration holds is left alone by this call,
// and what is passed on is as long, not negative and not soon.
func TestAnAbsurdRetryAfterDoesNotOverflow(t *testing.T) {
	const absurd = "999999999999999999999"
	for _, status := range []int{http.StatusTooManyRequests, http.StatusServiceUnavailable} {
		sent := 0
		c, _ := client(t, eager(), roundTripper(func(req *http.Request) (*http.Response, error) {
			sent++
			return answer(req, status, "", "Retry-After", absurd), nil
		}))
		resp, err := c.Get("http://shop")
		if err != nil {
			t.Fatal(err)
		}
		read(t, resp)
		v := gabionhttp.Verdict(resp)
		if sent != 1 || v == nil || v.Reason != policy.RetryAfterTooLong || v.RetryAfter != math.MaxInt64 {
			t.Fatalf("%d: %d sent, ended with %+v", status, sent, v)
		}
		w := httptest.NewRecorder()
		gabionhttp.Error(w, v)
		if got, ok := gabionhttp.RetryAfter(w.Header(), time.Now()); !ok || got != math.MaxInt64 {
			t.Errorf("%d: passed on as %q", status, w.Header().Get("Retry-After"))
		}
	}
}

func TestRetryAfterIsRoundedUp(t *testing.T) {
	for after, want := range map[time.Duration]string{
		1: "1", time.Second: "1", time.Second + 1: "2", 5e9*time.Second + 1: "5000000001", math.MaxInt64: "9223372037",
	} {
		w := httptest.NewRecorder()
		gabionhttp.Error(w, &gabion.Error{Reason: policy.BreakerOpen, RetryAfter: after})
		if got := w.Header().Get("Retry-After"); got != want {
			t.Errorf("%d ns is %q, want %q", after, got, want)
		}
	}
}
