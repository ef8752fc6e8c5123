package proxycmd

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	collectormetrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	collectortrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/gabion-go/gabion/cmd/gabion/internal/cli"
)

// collector takes OTLP over HTTP.
type collector struct {
	*httptest.Server
	mu      sync.Mutex
	spans   []*trace.Span
	metrics []string
	about   map[string]string // of the resource
	raw     []byte            // all bodies
	keys    []string          // what came in the header Api-Key
}

func collect(t *testing.T) *collector {
	c := &collector{about: map[string]string{}}
	c.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.raw, c.keys = append(c.raw, body...), append(c.keys, r.Header.Get("Api-Key"))
		var spans collectortrace.ExportTraceServiceRequest
		var points collectormetrics.ExportMetricsServiceRequest
		switch {
		case err != nil:
		case r.URL.Path == "/v1/traces":
			err = proto.Unmarshal(body, &spans)
		case r.URL.Path == "/v1/metrics":
			err = proto.Unmarshal(body, &points)
		default:
			err = fmt.Errorf("%s is no path of OTLP", r.URL.Path)
		}
		if err != nil {
			t.Error(err)
		}
		for _, of := range spans.ResourceSpans {
			for _, a := range of.Resource.Attributes {
				c.about[a.Key] = text(a.Value)
			}
			for _, s := range of.ScopeSpans {
				c.spans = append(c.spans, s.Spans...)
			}
		}
		for _, of := range points.ResourceMetrics {
			for _, s := range of.ScopeMetrics {
				for _, m := range s.Metrics {
					c.metrics = append(c.metrics, m.Name)
				}
			}
		}
	}))
	t.Cleanup(c.Close)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", c.URL)
	return c
}

// text is a value of an attribute as text.
func text(v *common.AnyValue) string {
	switch v := v.Value.(type) {
	case *common.AnyValue_StringValue:
		return v.StringValue
	case *common.AnyValue_IntValue:
		return fmt.Sprint(v.IntValue)
	}
	return v.String()
}

// of is an attribute of a span, or the empty string.
func of(s *trace.Span, key string) string {
	for _, a := range s.Attributes {
		if a.Key == key {
			return text(a.Value)
		}
	}
	return ""
}

// named returns the spans of that kind and name, in the order of their beginnings.
func (c *collector) named(kind trace.Span_SpanKind, name string) (found []*trace.Span) {
	for _, s := range c.spans {
		if s.Kind == kind && s.Name == name {
			found = append(found, s)
		}
	}
	slices.SortFunc(found, func(a, b *trace.Span) int { return int(a.StartTimeUnixNano) - int(b.StartTimeUnixNano) })
	return found
}

// one returns the only span of that kind and name.
func (c *collector) one(t *testing.T, kind trace.Span_SpanKind, name string) *trace.Span {
	t.Helper()
	found := c.named(kind, name)
	if len(found) != 1 {
		t.Fatalf("%d spans %s %q, of %v", len(found), kind, name, c.spans)
	}
	return found[0]
}

// under runs the proxy for the time of do, and returns its log and its exit code. By then all that there was to send is sent.
func under(t *testing.T, file string, do func(address string)) (said string, code int) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	log, ended := new(log), make(chan int, 1)
	path := write(t, "gabion.yaml", file)
	go func() { ended <- cli.Run(ctx, Command(), []string{path}, io.Discard, log) }()
	do(log.address(t, "listening"))
	stop()
	code = <-ended
	return log.buf.String(), code
}

// get sends a request, and returns the status.
func get(t *testing.T, url string, headers ...string) int {
	t.Helper()
	req, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	return resp.StatusCode
}

const (
	clientTrace = "4bf92f3577b34da6a3ce929d0e0e4736"
	clientSpan  = "00f067aa0ba902b7"
	sampled     = "00-" + clientTrace + "-" + clientSpan + "-01"
	notSampled  = "00-" + clientTrace + "-" + clientSpan + "-00"
)

// server answers by turns, and keeps the headers that it got.
type server struct {
	*httptest.Server
	mu  sync.Mutex
	got []http.Header
}

func serve(t *testing.T, statuses ...int) *server {
	s := new(server)
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.got = append(s.got, r.Header)
		w.WriteHeader(statuses[min(len(s.got), len(statuses))-1])
	}))
	t.Cleanup(s.Close)
	return s
}

// egress is a file with one dependency.
func egress(to, policy string) string {
	return "version: 1\ndependencies: {pay: {" + policy + "}}\nproxy: {drain: 1s, listen: [{address: 127.0.0.1:0, to: \"" + to + "\", dependency: pay}]}\n"
}

func TestATraceGoesThroughTheProxy(t *testing.T) {
	c, up := collect(t), serve(t, 503, 200)
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "api-key=abc")
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test,service.name=other")
	t.Setenv("OTEL_SERVICE_NAME", "payments-proxy")
	said, code := under(t, strings.Replace(egress(up.URL, ""), "proxy: {", "proxy: {access_log: true, ", 1), func(at string) {
		if status := get(t, "http://"+at+"/v1/%ff?key=sesame", "Traceparent", sampled, "Tracestate", "vendor=1", "Baggage", "user=7", "User-Agent", "agent \xff", "Authorization", "sesame"); status != 200 {
			t.Errorf("status %d", status)
		}
	})
	if code != cli.ExitOK {
		t.Fatalf("exit code %d: %s", code, said)
	}
	request := c.one(t, trace.Span_SPAN_KIND_SERVER, "GET")
	call := c.one(t, trace.Span_SPAN_KIND_INTERNAL, "pay GET")
	attempts := c.named(trace.Span_SPAN_KIND_CLIENT, "pay GET attempt")
	if len(c.spans) != 4 || len(attempts) != 2 {
		t.Fatalf("spans %v", c.spans)
	}
	for _, s := range c.spans {
		if hex.EncodeToString(s.TraceId) != clientTrace || s.TraceState != "vendor=1" {
			t.Errorf("%s is in trace %x, with state %q", s.Name, s.TraceId, s.TraceState)
		}
	}
	if hex.EncodeToString(request.ParentSpanId) != clientSpan || !bytes.Equal(call.ParentSpanId, request.SpanId) {
		t.Errorf("%v\n%v", request, call)
	}
	for i, a := range attempts {
		if want := fmt.Sprintf("00-%s-%x-01", clientTrace, a.SpanId); !bytes.Equal(a.ParentSpanId, call.SpanId) || up.got[i].Get("Traceparent") != want {
			t.Errorf("attempt %d: %v, and the server got %v", i+1, a, up.got[i])
		}
		if got := up.got[i]; got.Get("Tracestate") != "vendor=1" || got.Get("Baggage") != "user=7" || len(got["Traceparent"]) != 1 {
			t.Errorf("the server got %v", got)
		}
		host, port, _ := net.SplitHostPort(strings.TrimPrefix(up.URL, "http://"))
		wantOf(t, a, map[string]string{"http.request.method": "GET", "url.full": up.URL + "/v1/%ff", "server.address": host, "server.port": port, "network.protocol.version": "1.1",
			"http.response.status_code": []string{"503", "200"}[i], "http.request.resend_count": []string{"", "1"}[i], "gabion.attempt": fmt.Sprint(i + 1)})
	}
	wantOf(t, request, map[string]string{"http.request.method": "GET", "url.path": "/v1/%ff", "url.query": "", "url.scheme": "http", "http.response.status_code": "200",
		"client.address": "127.0.0.1", "server.address": "127.0.0.1", "network.protocol.version": "1.1", "user_agent.original": "agent ?", "gabion.attempts": "2", "error.type": ""})
	if bytes.Contains(c.raw, []byte("sesame")) || c.keys[0] != "abc" {
		t.Errorf("keys %q", c.keys)
	}
	if c.about["service.name"] != "payments-proxy" || c.about["deployment.environment.name"] != "test" || c.about["telemetry.sdk.name"] == "" {
		t.Errorf("the resource is %v", c.about)
	}
	if !strings.Contains(said, `"trace_id":"`+clientTrace) {
		t.Errorf("no trace in the access log: %s", said)
	}
	if !slices.Contains(c.metrics, "gabion.calls") || !slices.Contains(c.metrics, "http.server.request.duration") || !slices.Contains(c.metrics, "gabion.retry_budget.tokens") {
		t.Errorf("metrics %v", c.metrics)
	}
}

func wantOf(t *testing.T, s *trace.Span, want map[string]string) {
	t.Helper()
	for key, value := range want {
		if got := of(s, key); got != value {
			t.Errorf("%s of %s is %q, want %q", key, s.Name, got, value)
		}
	}
}

func TestATraceGoesToTheProgram(t *testing.T) {
	c, program := collect(t), serve(t, 404)
	t.Setenv("OTEL_METRICS_EXPORTER", "none")
	under(t, "version: 1\nproxy: {drain: 1s, listen: [{address: 127.0.0.1:0, ingress: {to: \""+program.URL+"\", admission: {limit: 5}}}]}\n", func(at string) {
		get(t, "http://"+at+"/orders/7?key=sesame", "Traceparent", sampled)
	})
	request, sent := c.one(t, trace.Span_SPAN_KIND_SERVER, "GET"), c.one(t, trace.Span_SPAN_KIND_CLIENT, "GET")
	if want := fmt.Sprintf("00-%s-%x-01", clientTrace, sent.SpanId); !bytes.Equal(sent.ParentSpanId, request.SpanId) || program.got[0].Get("Traceparent") != want {
		t.Errorf("%v, and the program got %v", sent, program.got)
	}
	wantOf(t, request, map[string]string{"http.response.status_code": "404", "error.type": ""})
	wantOf(t, sent, map[string]string{"http.response.status_code": "404", "error.type": "404", "url.full": program.URL + "/orders/7"})
	if len(c.metrics) > 0 {
		t.Errorf("metrics %v", c.metrics)
	}
}

func TestARefusalHasASpanWithItsReason(t *testing.T) {
	c, up := collect(t), serve(t, 500)
	under(t, egress(up.URL, "retry: {attempts: 1}, breaker: {consecutive: 1}"), func(at string) {
		get(t, "http://"+at+"/")
		if status := get(t, "http://"+at+"/"); status != 503 {
			t.Errorf("status %d", status)
		}
	})
	requests := c.named(trace.Span_SPAN_KIND_SERVER, "GET")
	if len(requests) != 2 || len(c.named(trace.Span_SPAN_KIND_CLIENT, "pay GET attempt")) != 1 {
		t.Fatal(c.spans)
	}
	wantOf(t, requests[1], map[string]string{"gabion.reason": "breaker_open", "error.type": "breaker_open", "gabion.attempts": "0", "http.response.status_code": "503"})
	if requests[1].Status.Code != trace.Status_STATUS_CODE_ERROR {
		t.Error(requests[1].Status)
	}
	c = collect(t)
	under(t, "version: 1\ndependencies: {pay: {}}\nproxy: {drain: 1s, listen: [{address: 127.0.0.1:0, forward: [{host: a.example, dependency: pay}]}]}\n", func(at string) {
		get(t, "http://"+at+"/") // not as to a proxy
	})
	refused := c.one(t, trace.Span_SPAN_KIND_SERVER, "GET")
	wantOf(t, refused, map[string]string{"gabion.reason": "not_a_proxy_request", "http.response.status_code": "400", "error.type": ""})
	c = collect(t)
	under(t, "version: 1\nproxy: {drain: 1s, listen: [{address: 127.0.0.1:0, ingress: {to: \""+up.URL+"\", deadlines: true}}]}\n", func(at string) {
		get(t, "http://"+at+"/", "X-Request-Deadline-Ms", "0")
	})
	late := c.one(t, trace.Span_SPAN_KIND_SERVER, "GET")
	wantOf(t, late, map[string]string{"gabion.reason": "expired", "gabion.attempts": "0", "http.response.status_code": "504", "error.type": "expired"})
}

func TestTheSamplerIsObeyed(t *testing.T) {
	for _, c := range []struct{ fact, sampler, arg, parent, flag string }{
		{"the client's no is followed", "", "", notSampled, "-00"},
		{"never", "always_off", "", sampled, "-00"},
		{"none of all", "traceidratio", "0", sampled, "-00"},
		{"all, also below a no", "traceidratio", "1", notSampled, "-01"},
	} {
		t.Run(c.fact, func(t *testing.T) {
			all, up := collect(t), serve(t, 200)
			t.Setenv("OTEL_TRACES_SAMPLER", c.sampler)
			t.Setenv("OTEL_TRACES_SAMPLER_ARG", c.arg)
			under(t, egress(up.URL, ""), func(at string) { get(t, "http://"+at+"/", "Traceparent", c.parent) })
			got := up.got[0].Get("Traceparent")
			if !strings.HasPrefix(got, "00-"+clientTrace) || !strings.HasSuffix(got, c.flag) || strings.Contains(got, clientSpan) {
				t.Errorf("the server got %q", got)
			}
			if want := map[string]int{"-00": 0, "-01": 3}[c.flag]; len(all.spans) != want {
				t.Errorf("spans %v", all.spans)
			}
		})
	}
}

func TestACollectorThatDoesNotAnswerChangesNothing(t *testing.T) {
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone.Close()
	silent, err := net.Listen("tcp", "127.0.0.1:0") // takes connections, and is silent
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	for fact, at := range map[string]string{"nothing listens": gone.Addr().String(), "it is silent": silent.Addr().String()} {
		t.Run(fact, func(t *testing.T) {
			up := serve(t, 200)
			t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://"+at)
			t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "1")
			t.Setenv("OTEL_BSP_MAX_QUEUE_SIZE", "4")
			t.Setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "1")
			said, code := under(t, egress(up.URL, ""), func(at string) {
				for range 50 {
					if status := get(t, "http://"+at+"/"); status != 200 {
						t.Errorf("status %d", status)
					}
				}
			})
			if code != cli.ExitOK || strings.Count(said, "telemetry can't be sent") != 1 || !strings.Contains(said, `"drained"`) {
				t.Errorf("exit code %d: %s", code, said)
			}
		})
	}
}

func TestWrongVariablesAreSaid(t *testing.T) {
	path := write(t, "gabion.yaml", egress("http://127.0.0.1:1", ""))
	for _, c := range []struct{ name, value, says string }{
		{"OTEL_TRACES_EXPORTER", "zipkin", `"zipkin" is not known here`},
		{"OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4318", "such as http://127.0.0.1:4318"},
		{"OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "http/protobuf alone"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("OTEL_TRACES_EXPORTER", "otlp")
			t.Setenv(c.name, c.value)
			for _, args := range [][]string{{path}, {"--dry-run", path}} {
				var out, err bytes.Buffer
				code := cli.Run(t.Context(), Command(), args, &out, &err)
				if text := strings.Join(strings.Fields(err.String()), " "); code != cli.ExitUsage || !strings.Contains(text, c.name+"="+c.value) || !strings.Contains(text, c.says) {
					t.Errorf("exit code %d: %s", code, text)
				}
			}
		})
	}
}
