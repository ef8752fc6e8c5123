package bench

import (
	"context"
	"net/http"
	"time"

	cenkalti "github.com/cenkalti/backoff/v7"
	"github.com/failsafe-go/failsafe-go"
	fsbulkhead "github.com/failsafe-go/failsafe-go/bulkhead"
	"github.com/failsafe-go/failsafe-go/timeout"
	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/contrib/gabionotel"
	"github.com/gabion-go/gabion/contrib/gabionprom"
	"github.com/gabion-go/gabion/gabionhttp"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/semaphore"
)

// sampledShare is the part of the traces that is kept.
const sampledShare = 0.01

func watched() []*Contest {
	return []*Contest{
		{
			Name: "watched", Title: "The full stack, watched", Runs: 1, Headline: true, Floor: "context.WithTimeout",
			About: "The full stack with metrics for Prometheus, and with traces of which 1 % are kept. Gabion counts calls, attempts, retries, hedges, " +
				"deadlines and states by operation and code, with two histograms. The counters by hand are one counter by result and one histogram.",
			Entries: []Entry{
				watchedEntry("gabion", "unobserved", nil),
				watchedEntry("gabion-prom", "gabionprom", func(d *gabion.Dependency) { d.Observe(gabionprom.New(gabionprom.Config{})) }),
				watchedEntry("gabion-otel", "gabionotel's spans, 1 % kept", func(d *gabion.Dependency) { d.Observe(tracedBy(sampledTraces())) }),
				watchedEntry("gabion-both", "both: a root span is asked for each call", both),
				{Name: "gabion-both-below", Kind: Gabion, Note: "both, in requests that have a span, of which 1 % are kept", Start: belowRequests},
				{Name: "hand-counted", Kind: Hand, Note: "context.WithTimeout, cenkalti/backoff, gobreaker, x/sync, a counter and a histogram of client_golang", Start: stackCounted},
				{Name: "failsafe-go-counted", Note: "with a counter and a histogram of client_golang", Start: failsafeCounted},
			},
		},
		{
			Name: "watched-http", Title: "HTTP over loopback, traced", Runs: 1, CPU: true, Floor: "bare+WithTimeout",
			About:   "The GET of the contest above with traces of which 1 % are kept, and traceparent on the wire.",
			Modes:   []Mode{{"1", 1}, {"16", 16}},
			Entries: tracedClients(),
		},
	}
}

func watchedEntry(name, note string, watch func(*gabion.Dependency)) Entry {
	return Entry{Name: name, Kind: Gabion, Note: note, Start: func(*Run) func(*Worker) func() bool {
		d := gabion.New("bench", whole())
		if watch != nil {
			watch(d)
		}
		return doCalls(d)
	}}
}

func both(d *gabion.Dependency) {
	d.Observe(gabionprom.New(gabionprom.Config{}))
	d.Observe(tracedBy(sampledTraces()))
}

// belowRequests makes calls in the contexts of a hundred requests, one of which is
// sampled.
func belowRequests(*Run) func(*Worker) func() bool {
	d := gabion.New("bench", whole())
	both(d)
	var requests [1 / sampledShare]context.Context
	for i := range requests {
		of := trace.SpanContextConfig{TraceID: trace.TraceID{1, byte(i)}, SpanID: trace.SpanID{1, byte(i)}}
		if i == 0 {
			of.TraceFlags = trace.FlagsSampled
		}
		requests[i] = trace.ContextWithSpanContext(context.Background(), trace.NewSpanContext(of))
	}
	return func(w *Worker) func() bool {
		work, n := w.Work, 0
		return func() bool {
			n++
			v, err := gabion.Do(requests[n%len(requests)], d, work)
			return w.Right(v, err)
		}
	}
}

// sampledTraces makes spans and throws those that are kept away.
func sampledTraces() *sdktrace.TracerProvider {
	return sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(sampledShare))), sdktrace.WithSyncer(nowhere{}))
}

// nowhere is an exporter.
type nowhere struct{}

func (nowhere) ExportSpans(context.Context, []sdktrace.ReadOnlySpan) error { return nil }
func (nowhere) Shutdown(context.Context) error                             { return nil }

func tracedBy(p *sdktrace.TracerProvider) *gabionotel.Observer {
	return gabionotel.New(gabionotel.Config{TracerProvider: p, NoMetrics: true})
}

// handCounts are the two metrics that people write.
type handCounts struct {
	calls *prometheus.CounterVec
	took  prometheus.Histogram
}

func newHandCounts() handCounts {
	return handCounts{
		prometheus.NewCounterVec(prometheus.CounterOpts{Name: "calls_total"}, []string{"result"}),
		prometheus.NewHistogram(prometheus.HistogramOpts{Name: "call_duration_seconds"}),
	}
}

func (h handCounts) count(begun time.Time, err error) {
	result := "success"
	if err != nil {
		result = "failure"
	}
	h.calls.WithLabelValues(result).Inc()
	h.took.Observe(time.Since(begun).Seconds())
}

func stackCounted(*Run) func(*Worker) func() bool {
	b, s, counts := gobreakerOf(failRate, time.Second), semaphore.NewWeighted(slots), newHandCounts()
	return func(w *Worker) func() bool {
		parent := context.Background()
		return func() bool {
			begun := time.Now()
			ctx, cancel := context.WithTimeout(parent, limit)
			defer cancel()
			inner := func() (int, error) {
				if err := s.Acquire(ctx, 1); err != nil {
					return 0, err
				}
				defer s.Release(1)
				return w.Work(ctx)
			}
			try := func() (int, error) { return b.Execute(inner) }
			v, err := cenkalti.Retry(ctx, try, cenkalti.WithBackOff(&cenkalti.ZeroBackOff{}), cenkalti.WithMaxTries(attempts))
			counts.count(begun, err)
			return w.Right(v, err)
		}
	}
}

func failsafeCounted(*Run) func(*Worker) func() bool {
	e := failsafe.With[int](timeout.New[int](limit), failsafeRetry(), failsafeBreaker(failRate), fsbulkhead.New[int](slots))
	counts := newHandCounts()
	return func(w *Worker) func() bool {
		ctx := context.Background()
		work := func(x failsafe.Execution[int]) (int, error) { return w.Work(x.Context()) }
		return func() bool {
			begun := time.Now()
			v, err := e.WithContext(ctx).GetWithExecution(work)
			counts.count(begun, err)
			return w.Right(v, err)
		}
	}
}

func tracedClients() []Entry {
	entry := clientEntry(loopback)
	return []Entry{
		entry("bare+WithTimeout", Floor, "untraced", bareTimeout),
		entry("gabion", Gabion, "gabionotel, a span for the call and one for the attempt, whose traceparent is sent", func(base http.RoundTripper) get {
			d := gabion.New("bench", whole())
			d.Observe(tracedBy(sampledTraces()))
			return plain(&http.Client{Transport: &gabionhttp.Transport{Dependency: d, Base: &gabionotel.Transport{Base: base, Propagator: propagation.TraceContext{}}}})
		}),
		entry("hand-usual", Hand, "context.WithTimeout, cenkalti/backoff, gobreaker, x/sync over otelhttp: a span for the attempt", func(base http.RoundTripper) get {
			return handClient(otelhttp.NewTransport(base, otelhttp.WithTracerProvider(sampledTraces()), otelhttp.WithPropagators(propagation.TraceContext{})))
		}),
	}
}
