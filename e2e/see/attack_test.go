package see_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/contrib/gabionotel"
	"github.com/gabion-go/gabion/contrib/gabionprom"
	"github.com/gabion-go/gabion/dashboard"
	"github.com/gabion-go/gabion/gabionslog"
	"github.com/gabion-go/gabion/gabiontest"
	"github.com/gabion-go/gabion/internal/testrace"
	"github.com/gabion-go/gabion/policy"
	"github.com/gabion-go/gabion/record"
)

// nowhere takes spans and keeps none.
type nowhere struct{}

func (nowhere) ExportSpans(context.Context, []sdktrace.ReadOnlySpan) error { return nil }
func (nowhere) Shutdown(context.Context) error                             { return nil }

// readers are all that can be attached, with what reads the metrics.
type readers struct {
	all     []gabion.Observer
	scraped *prometheus.Registry
	reader  *sdkmetric.ManualReader
}

func newReaders() readers {
	metrics := gabionprom.New(gabionprom.Config{})
	r := readers{scraped: prometheus.NewRegistry(), reader: sdkmetric.NewManualReader()}
	r.scraped.MustRegister(metrics)
	r.all = []gabion.Observer{
		metrics,
		gabionotel.New(gabionotel.Config{
			TracerProvider: sdktrace.NewTracerProvider(sdktrace.WithSyncer(nowhere{})),
			MeterProvider:  sdkmetric.NewMeterProvider(sdkmetric.WithReader(r.reader)),
		}),
		&gabionslog.Observer{Logger: slog.New(slog.DiscardHandler)},
		record.NewWriter(io.Discard),
	}
	return r
}

// Names come from traffic: a hundred thousand hosts, and routes with an id in each.
func TestACardinalityAttackStaysBoundedEverywhere(t *testing.T) {
	testrace.Serial(t)
	const names = 100_000
	registry, err := gabion.NewRegistry(map[string]policy.Policy{"web": {}})
	if err != nil {
		t.Fatal(err)
	}
	d, _ := registry.Get("web")
	r := newReaders()
	page := dashboard.New(dashboard.Config{Registry: registry})
	defer page.Close()
	for _, o := range r.all {
		defer registry.Observe(o)()
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	fails := func(context.Context) error { return io.ErrUnexpectedEOF }
	for i := range names {
		name := fmt.Sprintf("host-%d.example", i)
		d.Run(t.Context(), fails, gabion.WithPartition(name), gabion.WithOperation("GET /users/"+name))
		if i%10 == 0 { // an instance each
			one, err := registry.Instance("web", name)
			if err != nil {
				t.Fatal(err)
			}
			one.Run(t.Context(), fails, gabion.WithOperation(name))
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := (int64(after.HeapAlloc) - int64(before.HeapAlloc)) >> 20; grown > 120 {
		t.Errorf("%d MiB are kept", grown)
	} else {
		t.Logf("%d MiB are kept of %d names", grown, names)
	}
	families, err := r.scraped.Gather()
	if err != nil {
		t.Fatal(err)
	}
	series, overflow := 0, 0.0
	for _, f := range families {
		series += len(f.GetMetric())
		if f.GetName() == "gabion_label_overflow_total" {
			for _, m := range f.GetMetric() {
				overflow += m.GetCounter().GetValue()
			}
		}
	}
	if series > 20_000 || overflow == 0 {
		t.Errorf("Prometheus has %d series, and %v labels were too many", series, overflow)
	}
	var data metricdata.ResourceMetrics
	if err := r.reader.Collect(t.Context(), &data); err != nil {
		t.Fatal(err)
	}
	points := 0
	for _, scope := range data.ScopeMetrics {
		for _, m := range scope.Metrics {
			switch x := m.Data.(type) {
			case metricdata.Sum[int64]:
				points += len(x.DataPoints)
			case metricdata.Histogram[float64]:
				points += len(x.DataPoints)
			}
		}
	}
	if points == 0 || points > 20_000 {
		t.Errorf("OpenTelemetry has %d data points", points)
	}
	w := httptest.NewRecorder()
	page.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/api/v1/state", nil))
	if n := w.Body.Len(); n > 4<<20 {
		t.Errorf("a frame of the page has %d bytes", n)
	}
	t.Logf("%d series, %d data points, a frame of %d bytes", series, points, w.Body.Len())
}

// Viewers that come, go, are slow or panic cost calls nothing.
func TestReadersComeAndGoUnderLoadAndCostCallsNothing(t *testing.T) {
	registry, err := gabion.NewRegistry(map[string]policy.Policy{"db": {
		Safe: true, Retry: policy.Retry{Backoff: backoff.Const(time.Millisecond)}, Hedge: policy.Hedge{Max: 1, Delay: 2 * time.Millisecond},
	}})
	if err != nil {
		t.Fatal(err)
	}
	d, _ := registry.Get("db")
	var sent, good atomic.Int64
	over := make(chan struct{})
	var readers, calls sync.WaitGroup
	for _, rude := range []gabion.Observer{
		gabion.ObserverFunc(func(context.Context, gabion.Event) { panic("rude") }),
		gabion.ObserverFunc(func(context.Context, gabion.Event) { runtime.Gosched() }),
	} {
		defer registry.Observe(rude)()
	}
	readers.Go(func() {
		for {
			r := newReaders()
			page := dashboard.New(dashboard.Config{Registry: registry})
			var stops []func()
			for _, o := range r.all {
				stops = append(stops, registry.Observe(o))
			}
			if _, err := r.scraped.Gather(); err != nil {
				t.Error(err)
			}
			page.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
			for _, stop := range stops {
				stop()
			}
			page.Close()
			select {
			case <-over:
				return
			default:
			}
		}
	})
	for range 4 {
		calls.Go(func() {
			for i := range 400 {
				v, err := gabion.Do(t.Context(), d, func(context.Context) (int, error) {
					if sent.Add(1)%4 == 0 {
						return 0, io.ErrUnexpectedEOF
					}
					return i, nil
				})
				if err == nil && v == i {
					good.Add(1)
				}
			}
		})
	}
	calls.Wait()
	close(over)
	readers.Wait()
	gabiontest.NothingHeld(t, d)
	total := d.Stats().Totals
	if total.Attempts != sent.Load() || total.Succeeded != good.Load() || total.Calls != 1600 || good.Load() < 1500 {
		t.Errorf("%+v, but %d were sent and %d calls got their own answer", total, sent.Load(), good.Load())
	}
}
