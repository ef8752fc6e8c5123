package gabionprom_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/contrib/gabionprom"
	"github.com/gabion-go/gabion/policy"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// success are the events of a call that succeeds at once.
func success() []gabion.Event {
	e := gabion.Event{Dependency: "payments", Operation: "POST /charges", Attempt: 1, Left: 15 * time.Second, Took: 12 * time.Millisecond, Class: policy.ClassSuccess}
	return []gabion.Event{withKind(e, policy.KindAttemptSent), withKind(e, policy.KindAttemptSettled), withKind(e, policy.KindReturned)}
}

func TestAllocationsOfASuccess(t *testing.T) {
	m := gabionprom.New(gabionprom.Config{})
	events, ctx := success(), t.Context()
	observe := func() {
		for i := range events {
			m.Observe(ctx, events[i])
		}
	}
	observe()
	if n := testing.AllocsPerRun(1000, observe); n != 0 {
		t.Errorf("%v allocations", n)
	}
	retry := with(sent(2, time.Second), func(e *gabion.Event) { e.Dependency, e.Code = "payments", "503" })
	m.Observe(ctx, retry)
	if n := testing.AllocsPerRun(1000, func() { m.Observe(ctx, retry) }); n != 0 {
		t.Errorf("%v allocations of a retry", n)
	}
}

// BenchmarkObserve is what the events of one successful call cost.
func BenchmarkObserve(b *testing.B) {
	m := gabionprom.New(gabionprom.Config{})
	events, ctx := success(), context.Background()
	b.Run("serial", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			for i := range events {
				m.Observe(ctx, events[i])
			}
		}
	})
	b.Run("parallel", func(b *testing.B) {
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				for i := range events {
					m.Observe(ctx, events[i])
				}
			}
		})
	})
}

// BenchmarkCall is a whole call: what it costs unobserved, with an observer that does nothing, and with
// Metrics.
func BenchmarkCall(b *testing.B) {
	nothing := func(context.Context) error { return nil }
	for _, c := range []struct {
		name    string
		options []gabion.Option
	}{
		{"unobserved", nil},
		{"observed by nothing", []gabion.Option{gabion.WithObserver(gabion.ObserverFunc(func(context.Context, gabion.Event) {}))}},
		{"metrics", []gabion.Option{gabion.WithObserver(gabionprom.New(gabionprom.Config{}))}},
	} {
		b.Run(c.name, func(b *testing.B) {
			d := gabion.New("payments", policy.Policy{}, c.options...)
			ctx := context.Background()
			b.ReportAllocs()
			for b.Loop() {
				d.Run(ctx, nothing, gabion.WithOperation("POST /charges"))
			}
		})
	}
}

// BenchmarkScrape is a scrape of 1,000 dependencies that all have been called: gathered,
// and as a server gets it.
func BenchmarkScrape(b *testing.B) {
	policies := map[string]policy.Policy{}
	for i := range 1000 {
		policies[fmt.Sprintf("dependency-%03d", i)] = policy.Policy{}
	}
	reg, m := registry(b, gabionprom.Config{}, policies)
	for name := range policies {
		d, _ := reg.Get(name)
		for range 20 {
			d.Run(b.Context(), works, gabion.WithOperation("GET /"))
		}
	}
	r := prometheus.NewRegistry()
	r.MustRegister(m)
	b.Run("gathered", func(b *testing.B) {
		for b.Loop() {
			r.Gather()
		}
	})
	handler := promhttp.HandlerFor(r, promhttp.HandlerOpts{DisableCompression: true})
	for name, accept := range map[string]string{
		"text":     "",
		"protobuf": "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited",
	} {
		b.Run(name, func(b *testing.B) {
			size := 0
			for b.Loop() {
				req := httptest.NewRequest(http.MethodGet, "/metrics", nil)
				req.Header.Set("Accept", accept)
				w := httptest.NewRecorder()
				handler.ServeHTTP(w, req)
				size = w.Body.Len()
			}
			b.ReportMetric(float64(size), "B/scrape")
		})
	}
}
