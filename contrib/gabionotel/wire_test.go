package gabionotel_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/contrib/gabionotel"
	"github.com/gabion-go/gabion/gabionhttp"
	"github.com/gabion-go/gabion/policy"
)

var traceContext = propagation.TraceContext{}

// server answers with these statuses in turn, and keeps the traceparent of each request.
type server struct {
	*httptest.Server
	mu      sync.Mutex
	parents []string
}

func serve(t *testing.T, statuses ...int) *server {
	s := new(server)
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.parents = append(s.parents, strings.Join(r.Header.Values("traceparent"), " and "))
		w.WriteHeader(statuses[min(len(s.parents), len(statuses))-1])
	}))
	t.Cleanup(s.Close)
	return s
}

// get makes a request through rt, with a traceparent that a hop before us wrote.
func (s *server) get(t *testing.T, rt http.RoundTripper) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Traceparent", "00-0123456789abcdef0123456789abcdef-0123456789abcdef-01")
	before := req.Header.Clone()
	resp, err := (&http.Client{Transport: rt}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	io.Copy(io.Discard, resp.Body)
	if resp.StatusCode != http.StatusOK {
		t.Fatal(resp.Status)
	}
	if req.Header.Get("Traceparent") != before.Get("Traceparent") {
		t.Error("the caller's request was changed")
	}
}

// retried is a policy whose retries wait for nothing.
var retried = policy.Policy{Retry: policy.Retry{Backoff: backoff.Const(0), Budget: policy.Budget{Off: true}, Hold: policy.Off}}

// parent is the traceparent of a span.
func parent(s *tracetest.SpanStub) string {
	return "00-" + s.SpanContext.TraceID().String() + "-" + s.SpanContext.SpanID().String() + "-" + s.SpanContext.TraceFlags().String()
}

// named returns the spans of that name in the order in which they ended.
func (x *exporter) named(name string) (all []*tracetest.SpanStub) {
	spans := x.GetSpans()
	for i := range spans {
		if spans[i].Name == name {
			all = append(all, &spans[i])
		}
	}
	return all
}

// Each attempt's request carries the traceparent of its attempt, or of the span that
// otelhttp makes below that. All belong to one call, whatever is above.
func TestTraceparentIsTheAttempts(t *testing.T) {
	cases := map[string]struct {
		below func(*exporter) http.RoundTripper // of gabion
		above func(*exporter, http.RoundTripper) http.RoundTripper
		wire  string // the spans that the headers tell
	}{
		"our Transport below": {
			below: func(*exporter) http.RoundTripper { return &gabionotel.Transport{Propagator: traceContext} },
			wire:  "shop GET attempt",
		},
		"otelhttp below": {
			below: func(x *exporter) http.RoundTripper { return instrumented(x, http.DefaultTransport) },
			wire:  "HTTP GET",
		},
		"otelhttp above, our Transport below": {
			below: func(*exporter) http.RoundTripper { return &gabionotel.Transport{Propagator: traceContext} },
			above: func(x *exporter, rt http.RoundTripper) http.RoundTripper { return instrumented(x, rt) },
			wire:  "shop GET attempt",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			x, s := newExporter(), serve(t, 503, 503, 200)
			d := gabion.New("shop", retried, gabion.WithObserver(x.observer()))
			var rt http.RoundTripper = &gabionhttp.Transport{Dependency: d, Base: c.below(x)}
			if c.above != nil {
				rt = c.above(x, rt)
			}
			s.get(t, rt)
			call, attempts, sent := x.named("shop GET"), x.named("shop GET attempt"), x.named(c.wire)
			if len(call) != 1 || len(attempts) != 3 || len(sent) != 3 || len(s.parents) != 3 {
				t.Fatalf("the server had %d requests; the spans are\n%s", len(s.parents), x.tree())
			}
			for i, a := range attempts {
				if a.Parent.SpanID() != call[0].SpanContext.SpanID() || a.SpanKind != trace.SpanKindClient {
					t.Errorf("attempt %d hangs elsewhere:\n%s", i+1, x.tree())
				}
				if s.parents[i] != parent(sent[i]) {
					t.Errorf("request %d has the traceparent %s, want %s", i+1, s.parents[i], parent(sent[i]))
				}
				if c.wire != a.Name && sent[i].Parent.SpanID() != a.SpanContext.SpanID() {
					t.Errorf("otelhttp's span %d is not below its attempt:\n%s", i+1, x.tree())
				}
			}
			if c.above != nil {
				top := x.named("HTTP GET")
				if len(top) != 1 || call[0].Parent.SpanID() != top[0].SpanContext.SpanID() {
					t.Errorf("the call is not below otelhttp's span:\n%s", x.tree())
				}
			}
		})
	}
}

func instrumented(x *exporter, rt http.RoundTripper) http.RoundTripper {
	return otelhttp.NewTransport(rt, otelhttp.WithTracerProvider(x.provider), otelhttp.WithPropagators(traceContext))
}

// What is not sampled is passed on as such, with the caller's trace.
func TestNotSampledIsPassedOn(t *testing.T) {
	x, s := newExporter(sdktrace.WithSampler(sdktrace.NeverSample())), serve(t, 503, 200)
	d := gabion.New("shop", retried, gabion.WithObserver(x.observer()))
	s.get(t, &gabionhttp.Transport{Dependency: d, Base: &gabionotel.Transport{Propagator: traceContext}})
	if len(s.parents) != 2 || s.parents[0] != s.parents[1] || !strings.HasSuffix(s.parents[0], "-00") || strings.Contains(s.parents[0], "0123456789abcdef") {
		t.Errorf("the requests have the traceparents %q", s.parents)
	}
	if tree := x.tree(); tree != "" {
		t.Errorf("there are spans:\n%s", tree)
	}
}

// What passes through is left alone where there is nothing to write.
func TestATransportWithoutASpanLeavesTheHeadersAlone(t *testing.T) {
	s := serve(t, 200)
	s.get(t, &gabionotel.Transport{Propagator: traceContext})
	if len(s.parents) != 1 || !strings.Contains(s.parents[0], "-0123456789abcdef-01") {
		t.Errorf("the request has the traceparent %q", s.parents)
	}
}

// What the context does not have must not stay from an earlier hop.
func TestHeadersOfAnEarlierHopAreReplacedTogether(t *testing.T) {
	got := http.Header{}
	base := roundTripper(func(r *http.Request) (*http.Response, error) { got = r.Header; return nil, io.EOF })
	ctx := trace.ContextWithSpanContext(t.Context(), trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{1}}))
	req, _ := http.NewRequestWithContext(ctx, http.MethodGet, "http://shop", nil)
	req.Header.Set("Baggage", "gabion.deadline_ms=99")
	req.Header.Set("Tracestate", "old=1")
	req.Header.Set("Accept", "text/plain")
	both := propagation.NewCompositeTextMapPropagator(traceContext, propagation.Baggage{})
	(&gabionotel.Transport{Base: base, Propagator: both}).RoundTrip(req)
	if len(got) != 2 || got.Get("Accept") == "" || got.Get("Traceparent") == "" {
		t.Errorf("the request has %v", got)
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// The spans of HTTP have the attributes of the conventions.
func TestAttemptsOfHTTPHaveTheirStatus(t *testing.T) {
	x, s := newExporter(), serve(t, 503, 200)
	d := gabion.New("shop", retried, gabion.WithObserver(x.observer()))
	s.get(t, &gabionhttp.Transport{Dependency: d, Base: &gabionotel.Transport{Propagator: traceContext}})
	var got []string
	for _, a := range x.named("shop GET attempt") {
		var some []string
		for _, kv := range a.Attributes {
			switch kv.Key {
			case "http.response.status_code", "http.request.resend_count", "error.type":
				some = append(some, string(kv.Key)+"="+kv.Value.String())
			}
		}
		got = append(got, strings.Join(some, " "))
	}
	if want := "http.response.status_code=503 error.type=503|http.response.status_code=200 http.request.resend_count=1"; strings.Join(got, "|") != want {
		t.Errorf("the attempts have %q, want %s", got, want)
	}
}
