package gabionprom_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/contrib/gabionprom"
	"github.com/gabion-go/gabion/policy"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/common/expfmt"
)

type traceKey struct{}

func traced(ctx context.Context) prometheus.Labels {
	if id, ok := ctx.Value(traceKey{}).(string); ok {
		return prometheus.Labels{"trace_id": id}
	}
	return nil
}

// TestDurationsHaveExemplars reads the exemplars as OpenMetrics has them.
func TestDurationsHaveExemplars(t *testing.T) {
	for _, c := range []struct {
		name, trace string
		took        time.Duration
		want        string
	}{
		{"a trace", "abc", 40 * time.Millisecond, `le="0.05"} 1 # {trace_id="abc"} 0.04 `},
		{"a time past the last bound", "abc", time.Minute, `le="+Inf"} 1 # {trace_id="abc"} 60.0 `},
		{"no trace", "", 40 * time.Millisecond, ""},
		{"labels that are too long", strings.Repeat("x", 128), time.Second, ""},
		{"labels that are no text", "\xff", time.Second, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := gabionprom.New(gabionprom.Config{Exemplar: traced})
			ctx := t.Context()
			if c.trace != "" {
				ctx = context.WithValue(ctx, traceKey{}, c.trace)
			}
			m.Observe(ctx, gabion.Event{Kind: policy.KindReturned, Dependency: "d", Attempt: 1, Took: c.took})
			text := openMetrics(t, m)
			if c.want == "" && strings.Contains(text, " # {") {
				t.Errorf("there is an exemplar:\n%s", text)
			}
			if !strings.Contains(text, c.want) {
				t.Errorf("no %s in\n%s", c.want, text)
			}
		})
	}
}

// TestAServerThatTakesNativeHistogramsGetsThem asks as Prometheus does.
func TestAServerThatTakesNativeHistogramsGetsThem(t *testing.T) {
	m := gabionprom.New(gabionprom.Config{Exemplar: traced})
	m.Observe(context.WithValue(t.Context(), traceKey{}, "abc"), gabion.Event{Kind: policy.KindReturned, Dependency: "d", Attempt: 1, Took: time.Second})
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(m)
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	seen := false
	for _, f := range families {
		if f.GetName() != "gabion_call_duration_seconds" {
			continue
		}
		h := f.GetMetric()[0].GetHistogram()
		seen = len(h.GetPositiveSpan()) == 1 && h.GetSchema() == 3 && len(h.GetBucket()) == 17 && len(h.GetExemplars()) == 1 && h.GetCreatedTimestamp() != nil
	}
	if !seen {
		t.Errorf("no native histogram in %v", families)
	}
}

func openMetrics(t *testing.T, m *gabionprom.Metrics) string {
	t.Helper()
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(m)
	req := httptest.NewRequest(http.MethodGet, "/metrics", nil)
	req.Header.Set("Accept", string(expfmt.NewFormat(expfmt.TypeOpenMetrics)))
	w := httptest.NewRecorder()
	promhttp.HandlerFor(reg, promhttp.HandlerOpts{EnableOpenMetrics: true}).ServeHTTP(w, req)
	text, _ := io.ReadAll(w.Body)
	return string(text)
}
