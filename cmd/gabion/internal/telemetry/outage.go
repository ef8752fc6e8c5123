package telemetry

import (
	"context"
	"log/slog"
	"sync"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// outage is the time in which nothing can be sent. It is logged when it begins and when it ends, and not for each batch.
type outage struct {
	log  *slog.Logger
	mu   sync.Mutex
	is   bool
	lost int             // batches
	said map[string]bool // other errors
}

func (o *outage) now() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.is
}

// sent notes what became of a batch.
func (o *outage) sent(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case err != nil && !o.is:
		o.is, o.lost = true, 1
		o.log.Warn("telemetry can't be sent: it is lost until this works again, and requests go on", "error", err.Error())
	case err != nil:
		o.lost++
	case o.is:
		o.is = false
		o.log.Info("telemetry is sent again", "lost_batches", o.lost)
	}
}

// ended notes the end of what sends.
func (o *outage) ended(err error) {
	if err != nil {
		o.sent(err)
	}
}

// mostSaid bounds how many other errors are remembered.
const mostSaid = 32

// other logs an error of the SDK's own, once.
func (o *outage) other(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	text := err.Error()
	if o.said[text] || len(o.said) >= mostSaid {
		return
	}
	if o.said == nil {
		o.said = map[string]bool{}
	}
	o.said[text] = true
	o.log.Warn("telemetry", "error", text)
}

// spans sends spans. Errors end here, since the SDK would report each.
type spans struct {
	sdktrace.SpanExporter
	of *outage
}

// ExportSpans implements [sdktrace.SpanExporter].
func (s spans) ExportSpans(ctx context.Context, all []sdktrace.ReadOnlySpan) error {
	s.of.sent(s.SpanExporter.ExportSpans(ctx, all))
	return nil
}

// points sends metrics. Errors end here, since the SDK would report each.
type points struct {
	sdkmetric.Exporter
	of *outage
}

// Export implements [sdkmetric.Exporter].
func (p points) Export(ctx context.Context, all *metricdata.ResourceMetrics) error {
	p.of.sent(p.Exporter.Export(ctx, all))
	return nil
}
