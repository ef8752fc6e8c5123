package telemetry

import (
	"bytes"
	"errors"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gabion-go/gabion"
)

func TestWhatTheVariablesSwitchOn(t *testing.T) {
	const at = "http://127.0.0.1:4318"
	for _, c := range []struct {
		fact            string
		env             map[string]string
		traces, metrics string
	}{
		{"nothing", nil, "", ""},
		{"what says how, and not where, means nothing", map[string]string{"OTEL_SERVICE_NAME": "a", "OTEL_TRACES_SAMPLER": "bad", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc", "OTEL_PROPAGATORS": "x"}, "", ""},
		{"an endpoint switches both on", map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": at}, "otlp", "otlp"},
		{"one of traces", map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": at + "/a"}, "otlp", ""},
		{"one of metrics", map[string]string{"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": at}, "", "otlp"},
		{"an exporter, to where they all go", map[string]string{"OTEL_TRACES_EXPORTER": "otlp"}, "otlp", ""},
		{"none in spite of an endpoint", map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": at, "OTEL_METRICS_EXPORTER": "none"}, "otlp", ""},
		{"two", map[string]string{"OTEL_TRACES_EXPORTER": "otlp, console"}, "otlp,console", ""},
		{"the whole SDK is off", map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "bad", "OTEL_SDK_DISABLED": "TRUE"}, "", ""},
		{"empty is as good as not set", map[string]string{"OTEL_TRACES_EXPORTER": "", "OTEL_EXPORTER_OTLP_ENDPOINT": " "}, "", ""},
		{"of grpc for metrics, where there are none", map[string]string{"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL": "grpc"}, "otlp", ""},
		{"what is right in detail", map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": at, "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf", "OTEL_EXPORTER_OTLP_HEADERS": "a=b,c=d=", "OTEL_EXPORTER_OTLP_COMPRESSION": "gzip",
			"OTEL_EXPORTER_OTLP_TIMEOUT": "500", "OTEL_TRACES_SAMPLER": "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0.25", "OTEL_PROPAGATORS": "b3,tracecontext", "OTEL_BSP_MAX_QUEUE_SIZE": "10"}, "otlp", "otlp"},
	} {
		t.Run(c.fact, func(t *testing.T) {
			s, err := read(func(name string) string { return c.env[name] })
			if s == nil {
				s = &settings{}
			}
			if err != nil || strings.Join(s.traces, ",") != c.traces || strings.Join(s.metrics, ",") != c.metrics {
				t.Errorf("%+v, %v", s, err)
			}
		})
	}
}

func TestWhatIsWrongIsSaidWithItsName(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty.pem")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, values := range map[string][]string{
		"OTEL_SDK_DISABLED":                    {"1", "yes"},
		"OTEL_TRACES_EXPORTER":                 {"jaeger", "otlp,none", "otlp,zipkin", "prometheus"},
		"OTEL_METRICS_EXPORTER":                {"prometheus", "x"},
		"OTEL_PROPAGATORS":                     {"xray", "tracecontext,none", "TraceContext"},
		"OTEL_TRACES_SAMPLER":                  {"sometimes", "jaeger_remote"},
		"OTEL_TRACES_SAMPLER_ARG":              {"-0.1", "1.1", "x", "NaN"},
		"OTEL_EXPORTER_OTLP_ENDPOINT":          {"collector:4318", "collector", "grpc://a:1", "http://", "http://a b"},
		"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT":   {"127.0.0.1:4318"},
		"OTEL_EXPORTER_OTLP_PROTOCOL":          {"grpc", "http/json", "x"},
		"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL":   {"grpc"},
		"OTEL_EXPORTER_OTLP_COMPRESSION":       {"zstd"},
		"OTEL_EXPORTER_OTLP_TIMEOUT":           {"10s", "0", "-1"},
		"OTEL_EXPORTER_OTLP_HEADERS":           {"sesame", "=sesame", "a=b,sesame"},
		"OTEL_EXPORTER_OTLP_CERTIFICATE":       {"/nowhere", empty},
		"OTEL_EXPORTER_OTLP_CLIENT_KEY":        {"/nowhere"},
		"OTEL_BSP_SCHEDULE_DELAY":              {"5s"},
		"OTEL_METRIC_EXPORT_INTERVAL":          {"0"},
		"OTEL_EXPORTER_OTLP_TRACES_CLIENT_KEY": {"/nowhere"},
	} {
		for _, value := range values {
			env := map[string]string{"OTEL_TRACES_EXPORTER": "otlp", "OTEL_TRACES_SAMPLER": "traceidratio"}
			env[name] = value
			_, err := read(func(name string) string { return env[name] })
			if err == nil || !strings.HasPrefix(err.Error(), name+"=") || strings.Contains(err.Error(), "sesame") ||
				!strings.Contains(name, "HEADERS") && !strings.Contains(err.Error(), value) {
				t.Errorf("%s=%s: %v", name, value, err)
			}
		}
	}
}

func TestNoPasswordIsSaid(t *testing.T) {
	_, err := read(func(name string) string {
		return map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "ftp://me:sesame@collector"}[name]
	})
	if err == nil || strings.Contains(err.Error(), "sesame") || !strings.Contains(err.Error(), "collector") {
		t.Error(err)
	}
}

func TestWithoutVariablesNothingIsSetUp(t *testing.T) {
	registry, err := gabion.NewRegistry(nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := Start(registry, nil, slog.New(slog.DiscardHandler), false); got != nil || err != nil {
		t.Errorf("%v, %v", got, err)
	}
	t.Setenv("OTEL_TRACES_EXPORTER", "otlp")
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "a")
	if _, err := Start(registry, nil, slog.New(slog.DiscardHandler), false); err == nil || !strings.HasPrefix(err.Error(), "OTEL_RESOURCE_ATTRIBUTES=a: ") {
		t.Error(err)
	}
}

func TestHeadersOfATraceAreThoseThatAreNamed(t *testing.T) {
	for names, want := range map[string]string{"tracecontext": "traceparent tracestate", "b3": "b3", "baggage": "", "": "", "b3multi": "x-b3-flags x-b3-sampled x-b3-spanid x-b3-traceid"} {
		fields := map[string]bool{}
		for _, f := range headers(strings.Split(names, ",")).Fields() {
			fields[strings.ToLower(f)] = true
		}
		if got := strings.Join(slices.Sorted(maps.Keys(fields)), " "); got != want {
			t.Errorf("%s: %s", names, got)
		}
	}
}

func TestAnOutageIsLoggedWhenItBeginsAndEnds(t *testing.T) {
	var said bytes.Buffer
	o := outage{log: slog.New(slog.NewTextHandler(&said, nil))}
	bad := errors.New("refused")
	for _, err := range []error{nil, bad, bad, bad, nil, nil, bad} {
		o.sent(err)
	}
	o.other(bad)
	o.other(bad)
	text := said.String()
	if strings.Count(text, "can't be sent") != 2 || strings.Count(text, "sent again") != 1 || !strings.Contains(text, "lost_batches=3") || strings.Count(text, "msg=telemetry ") != 1 || !o.now() {
		t.Error(text)
	}
}
