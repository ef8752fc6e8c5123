package telemetry

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"

	"go.opentelemetry.io/contrib/propagators/b3"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/exporters/stdout/stdoutmetric"
	"go.opentelemetry.io/otel/exporters/stdout/stdouttrace"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/contrib/gabionotel"
	"github.com/gabion-go/gabion/gabionproxy"
)

// scope names this package as the source of spans and metrics.
const scope = "github.com/gabion-go/gabion/cmd/gabion/internal/telemetry"

// Telemetry follows a proxy's requests. It implements gabionproxy.Telemetry, and is safe for concurrent use.
type Telemetry struct {
	tracer   trace.Tracer // nil means no traces
	headers  propagation.TextMapPropagator
	took     metric.Float64Histogram // nil means no metrics
	failing  outage
	shutdown []func(context.Context) error
}

var _ gabionproxy.Telemetry = (*Telemetry)(nil)

// Start sets up what the environment asks for, and follows all dependencies of the registry. It returns nil where the
// environment asks for nothing, and in a dry run. Console is where exporters of that name write.
func Start(registry *gabion.Registry, console io.Writer, log *slog.Logger, dry bool) (*Telemetry, error) {
	s, err := read(os.Getenv)
	if err != nil || s == nil {
		return nil, err
	}
	ctx := context.Background()
	about, err := resource.New(ctx, resource.WithAttributes(attribute.String("service.name", "gabion-proxy")), resource.WithTelemetrySDK(), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES=%s: %w", os.Getenv("OTEL_RESOURCE_ATTRIBUTES"), err)
	}
	if dry {
		return nil, nil
	}
	if s.logs {
		log.Warn("OTEL_LOGS_EXPORTER is not obeyed: the log is JSON on the standard error")
	}
	t := &Telemetry{headers: headers(s.propagators), failing: outage{log: log}}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(t.failing.other))
	config := gabionotel.Config{NoTraces: len(s.traces) == 0, NoMetrics: len(s.metrics) == 0, Stats: registry.Stats}
	if !config.NoTraces {
		p, err := t.traces(ctx, s.traces, about, console)
		if err != nil {
			return nil, err
		}
		config.TracerProvider, t.tracer = p, p.Tracer(scope)
	}
	if !config.NoMetrics {
		p, err := t.metrics(ctx, s.metrics, about, console)
		if err != nil {
			return nil, err
		}
		config.MeterProvider = p
		if t.took, err = p.Meter(scope).Float64Histogram("http.server.request.duration", metric.WithUnit("s"),
			metric.WithDescription("Duration of requests, until the end of the answer."), buckets); err != nil {
			return nil, err
		}
	}
	registry.Observe(gabionotel.New(config))
	return t, nil
}

// buckets are those that the semantic conventions name for durations of requests.
var buckets = metric.WithExplicitBucketBoundaries(0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10)

// headers are those in which a trace travels. Baggage is not among them: the proxy has nothing to say in it, and passes it on as it came.
func headers(names []string) propagation.TextMapPropagator {
	var all []propagation.TextMapPropagator
	for _, name := range names {
		switch name {
		case "tracecontext":
			all = append(all, propagation.TraceContext{})
		case "b3":
			all = append(all, b3.New(b3.WithInjectEncoding(b3.B3SingleHeader)))
		case "b3multi":
			all = append(all, b3.New(b3.WithInjectEncoding(b3.B3MultipleHeader)))
		}
	}
	return propagation.NewCompositeTextMapPropagator(all...)
}

// longest bounds the values of attributes: what clients send in paths and headers may be long, and thousands of spans wait.
const longest = 1024

func (t *Telemetry) traces(ctx context.Context, exporters []string, about *resource.Resource, console io.Writer) (*sdktrace.TracerProvider, error) {
	limits := sdktrace.NewSpanLimits()
	if limits.AttributeValueLengthLimit < 0 {
		limits.AttributeValueLengthLimit = longest
	}
	options := []sdktrace.TracerProviderOption{sdktrace.WithResource(about), sdktrace.WithRawSpanLimits(limits)}
	for _, name := range exporters {
		var to sdktrace.SpanExporter
		var err error
		if name == "console" {
			to, err = stdouttrace.New(stdouttrace.WithWriter(console))
		} else {
			to, err = otlptracehttp.New(ctx)
		}
		if err != nil {
			return nil, fmt.Errorf("%s=%s: %w", tracesExporter, name, err)
		}
		options = append(options, sdktrace.WithBatcher(spans{to, &t.failing}))
	}
	p := sdktrace.NewTracerProvider(options...)
	t.shutdown = append(t.shutdown, p.Shutdown)
	return p, nil
}

func (t *Telemetry) metrics(ctx context.Context, exporters []string, about *resource.Resource, console io.Writer) (*sdkmetric.MeterProvider, error) {
	options := []sdkmetric.Option{sdkmetric.WithResource(about)}
	for _, name := range exporters {
		var to sdkmetric.Exporter
		var err error
		if name == "console" {
			to, err = stdoutmetric.New(stdoutmetric.WithWriter(console))
		} else {
			to, err = otlpmetrichttp.New(ctx)
		}
		if err != nil {
			return nil, fmt.Errorf("%s=%s: %w", metricsExporter, name, err)
		}
		options = append(options, sdkmetric.WithReader(sdkmetric.NewPeriodicReader(points{to, &t.failing})))
	}
	p := sdkmetric.NewMeterProvider(options...)
	t.shutdown = append(t.shutdown, p.Shutdown)
	return p, nil
}

// The time that Flush takes at most: of one whose collector can't be reached it is not more than a try.
const (
	flushTime = 5 * time.Second
	flushTry  = time.Second
)

// Flush implements gabionproxy.Telemetry. Nothing is followed any more from then on.
func (t *Telemetry) Flush(ctx context.Context) {
	most := flushTime
	if t.failing.now() {
		most = flushTry
	}
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	var ending sync.WaitGroup
	for _, shut := range t.shutdown {
		ending.Go(func() { t.failing.ended(shut(ctx)) })
	}
	ending.Wait()
}
