package gabionotel_test

import (
	"context"
	"testing"
	"time"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/contrib/gabionotel"
	"github.com/gabion-go/gabion/policy"
)

// full is the stack that docs/performance.md measures.
var full = policy.Policy{
	Safe: true, Timeout: policy.Timeout{Call: 5 * time.Second}, Retry: policy.Retry{Attempts: 4},
	Breaker: policy.Breaker{Window: 10 * time.Second, MinCalls: 100}, Bulkhead: policy.Bulkhead{Limit: 64},
}

// provider makes spans and drops them.
func provider(s sdktrace.Sampler) *sdktrace.TracerProvider {
	return sdktrace.NewTracerProvider(sdktrace.WithSampler(s), sdktrace.WithSpanProcessor(drop{}))
}

type drop struct{}

func (drop) OnStart(context.Context, sdktrace.ReadWriteSpan) {}
func (drop) OnEnd(sdktrace.ReadOnlySpan)                     {}
func (drop) Shutdown(context.Context) error                  { return nil }
func (drop) ForceFlush(context.Context) error                { return nil }

func share(of float64) sdktrace.Sampler {
	return sdktrace.ParentBased(sdktrace.TraceIDRatioBased(of))
}

// attached are what may be attached to the dependency.
func attached() []struct {
	name string
	opts []gabion.Option
} {
	traces := func(s sdktrace.Sampler) []gabion.Option {
		return []gabion.Option{gabion.WithObserver(gabionotel.New(gabionotel.Config{TracerProvider: provider(s), NoMetrics: true}))}
	}
	meter := sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader()))
	return []struct {
		name string
		opts []gabion.Option
	}{
		{"unobserved", nil},
		{"observed", []gabion.Option{gabion.WithObserver(gabion.ObserverFunc(func(context.Context, gabion.Event) {}))}},
		{"traces/none", traces(sdktrace.NeverSample())},
		{"traces/1%", traces(share(0.01))},
		{"traces/100%", traces(share(1))},
		{"metrics", []gabion.Option{gabion.WithObserver(gabionotel.New(gabionotel.Config{MeterProvider: meter, NoTraces: true}))}},
		{"metrics+traces/1%", []gabion.Option{gabion.WithObserver(gabionotel.New(gabionotel.Config{MeterProvider: meter, TracerProvider: provider(share(0.01))}))}},
	}
}

// requests are contexts as a server has them, of which one in a hundred is sampled.
func requests() []context.Context {
	all := make([]context.Context, 100)
	sampled, not := provider(sdktrace.AlwaysSample()), provider(sdktrace.NeverSample())
	for i := range all {
		from := not
		if i == 0 {
			from = sampled
		}
		all[i], _ = from.Tracer("server").Start(context.Background(), "GET /orders")
	}
	return all
}

// BenchmarkCall measures a success with all that may be attached: calls that nothing is
// around, and calls below the span of a request, of which 1 % are sampled.
func BenchmarkCall(b *testing.B) {
	work := func(context.Context) (int, error) { return 1, nil }
	for where, around := range map[string][]context.Context{"root": {context.Background()}, "request": requests()} {
		for _, c := range attached() {
			if len(around) > 1 && (c.name == "traces/none" || c.name == "traces/100%") {
				continue // the request's span decides
			}
			d := gabion.New("payments", full, c.opts...)
			op := gabion.WithOperation("charge")
			b.Run(where+"/"+c.name, func(b *testing.B) {
				b.ReportAllocs()
				i := 0
				for b.Loop() {
					gabion.Do(around[i%len(around)], d, work, op)
					i++
				}
			})
		}
	}
}
