package gabionotel

import (
	"context"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/policy"
)

// scope names this package as the source of spans and metrics.
const scope = "github.com/gabion-go/gabion/contrib/gabionotel"

// Config says where an [Observer] reports to. The zero Config uses the global providers.
type Config struct {
	// TracerProvider makes the spans. Nil means otel.GetTracerProvider().
	TracerProvider trace.TracerProvider

	// MeterProvider makes the instruments. Nil means otel.GetMeterProvider().
	MeterProvider metric.MeterProvider

	// NoTraces and NoMetrics switch one half off, for instance because another observer
	// reports the metrics.
	NoTraces, NoMetrics bool

	// AskSampler asks the sampler of each call. Zero means that a call below a span of this
	// process that is not sampled gets no span of its own: its requests carry that span's
	// traceparent. Samplers that follow the parent, as the SDK's does unless told otherwise,
	// would decide the same, but to ask costs more than the call itself.
	AskSampler bool

	// AttemptKind is the kind of the attempts' spans. Zero means trace.SpanKindClient. Use
	// trace.SpanKindInternal where otelhttp or something like it is below gabion and makes a
	// client span of its own for each attempt.
	AttemptKind trace.SpanKind

	// Stats reads the dependencies whose breakers, bulkheads and budgets are reported as
	// gauges: the method Stats of a Registry fits. It is called for each collection of the
	// metrics, by their reader. Nil means no gauges.
	Stats func() []gabion.Stats

	// SendDeadline says to which dependencies the attempt's time left is sent, as the member
	// [DeadlineMember] of the context's baggage. From attempts to others this member
	// is taken out, since it is an earlier hop's. The propagator must write baggage. Nil
	// means that baggage is left alone. It is called for each attempt and must be safe for
	// concurrent use.
	//
	// Baggage travels as far as anybody passes it on: name only dependencies of your own.
	SendDeadline func(dependency string) bool

	// DeadlineMargin is what this process keeps for itself of the time that it sends. Zero means
	// nothing but the rest below a millisecond. Choose it well below the attempts' timeout:
	// an attempt that has less than this sends 0.
	DeadlineMargin time.Duration
}

// Observer makes spans and metrics of a dependency's events: see [gabion.WithObserver]. Make
// one with [New]. One can serve any number of dependencies, but should be attached to each
// only once: attached twice, it counts twice. It may be attached and detached at any time. Of calls that
// are under way then there is no span, or none that ends. It is safe for concurrent use.
type Observer struct {
	config Config
	tracer trace.Tracer // nil means no traces
	meter  *meters      // nil means no metrics
	names  catalog

	// covered says that another Tracer's contexts lie around ours, so that a context that is
	// not ours has to be looked at twice.
	covered atomic.Bool
}

var _ gabion.Tracer = (*Observer)(nil)

// New makes an observer. An instrument that the provider refuses is reported to
// otel.Handle, and left out.
func New(c Config) *Observer {
	o := &Observer{config: c}
	if !c.NoTraces {
		p := c.TracerProvider
		if p == nil {
			p = otel.GetTracerProvider()
		}
		o.tracer = p.Tracer(scope)
	}
	if o.config.AttemptKind == trace.SpanKindUnspecified {
		o.config.AttemptKind = trace.SpanKindClient
	}
	if !c.NoMetrics {
		p := c.MeterProvider
		if p == nil {
			p = otel.GetMeterProvider()
		}
		o.meter = newMeters(p.Meter(scope))
		o.meter.gauges(o)
	}
	return o
}

// Close ends the reading of [Config.Stats]. The observer can still be used.
func (o *Observer) Close() error {
	if o.meter == nil || o.meter.reading == nil {
		return nil
	}
	return o.meter.reading.Unregister()
}

// Wants implements [gabion.Selective]: TraceAttempt sees what is sent.
func (o *Observer) Wants(k policy.Kind) bool { return k != policy.KindAttemptSent }

// Observe implements [gabion.Observer].
func (o *Observer) Observe(ctx context.Context, e gabion.Event) {
	if o.meter != nil && o.meter.on(ctx) {
		o.meter.record(ctx, o.names.dependency(e.Dependency), &e)
	}
	if o.tracer != nil && o.recorded(ctx) {
		o.tell(ctx, &e)
	}
}

// recorded reports whether ctx may be that of a call whose span is recorded. It is quick,
// for most are not. A span that has ended counts too, since losers end after their call.
func (o *Observer) recorded(ctx context.Context) bool {
	if _, is := ctx.(*call); is {
		return true
	}
	span := trace.SpanFromContext(ctx)
	return span.IsRecording() || o.covered.Load() && span.SpanContext().IsSampled()
}
