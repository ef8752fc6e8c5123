package gabionotel_test

import (
	"context"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/contrib/gabionotel"
)

// asked is a sampler that counts how often it is asked.
type asked struct {
	sdktrace.Sampler
	times *int
}

func (a asked) ShouldSample(p sdktrace.SamplingParameters) sdktrace.SamplingResult {
	*a.times++
	return a.Sampler.ShouldSample(p)
}

func TestWhoDecidesAboutSampling(t *testing.T) {
	unsampled := trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{1}}
	local := trace.ContextWithSpanContext(context.Background(), trace.NewSpanContext(unsampled))
	unsampled.Remote = true
	remote := trace.ContextWithSpanContext(context.Background(), trace.NewSpanContext(unsampled))
	always, follows := sdktrace.AlwaysSample(), sdktrace.ParentBased(sdktrace.AlwaysSample())
	cases := map[string]struct {
		around  context.Context
		sampler sdktrace.Sampler
		ask     bool
		asked   int
		spans   int
		own     bool // the attempt's context has a span of its own
	}{
		"nothing is around: the sampler":            {context.Background(), follows, false, 2, 2, true},
		"a remote span is around: the sampler":      {remote, always, false, 2, 2, true},
		"it may follow a remote span":               {remote, follows, false, 1, 0, true},
		"a span of ours is around: that":            {local, always, false, 0, 0, false},
		"unless the sampler is always asked":        {local, always, true, 2, 2, true},
		"which may follow the span":                 {local, follows, true, 1, 0, true},
		"of a call that is not sampled no attempts": {context.Background(), sdktrace.NeverSample(), true, 1, 0, true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			times := 0
			x := newExporter(sdktrace.WithSampler(asked{c.sampler, &times}))
			d := gabion.New("db", once, gabion.WithObserver(gabionotel.New(gabionotel.Config{TracerProvider: x.provider, NoMetrics: true, AskSampler: c.ask})))
			before := trace.SpanContextFromContext(c.around)
			gabion.Do(c.around, d, func(ctx context.Context) (int, error) {
				in := trace.SpanContextFromContext(ctx)
				if in.IsSampled() != (c.spans > 0) || in.SpanID() != before.SpanID() != c.own || before.IsValid() && in.TraceID() != before.TraceID() {
					t.Errorf("the attempt has %s of %s, sampled: %v", in.SpanID(), in.TraceID(), in.IsSampled())
				}
				return 1, nil
			})
			if spans := len(x.GetSpans()); times != c.asked || spans != c.spans {
				t.Errorf("the sampler was asked %d times, and there are %d spans", times, spans)
			}
		})
	}
}
