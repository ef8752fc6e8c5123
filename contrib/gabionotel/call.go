package gabionotel

import (
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/policy"
)

// call is the context of a call whose span is recorded, with what its later events need.
// It is found in the context that events come with, so nothing else refers to it: a call
// whose end is never told is garbage with its context.
type call struct {
	context.Context // has the call's span
	of              *Observer
	number          uint64
	span            trace.Span
	names           *operation

	mu       sync.Mutex // guards what follows; an attempt starts while other events are told
	attempts []attempt
	room     [2]attempt // the first array of attempts
}

// attempt is what is known of one attempt.
type attempt struct {
	number uint8
	span   trace.Span     // nil until it began
	ended  time.Time      // zero while it is out
	at     policy.Instant // the same by gabion's clock
}

type callKey struct{}

// Value implements context.Context.
func (c *call) Value(key any) any {
	if _, ok := key.(callKey); ok {
		return c
	}
	return c.Context.Value(key)
}

// find returns the call of that number, or nil if ctx has none whose span o records. A
// context may be that of a call inside another one, and several observers may put calls
// into one.
func (o *Observer) find(ctx context.Context, number uint64) *call {
	for inner := ctx; ; {
		c, ok := inner.Value(callKey{}).(*call)
		if !ok {
			return nil
		}
		if c.of == o && c.number == number {
			if c != ctx && !o.covered.Load() {
				o.covered.Store(true)
			}
			return c
		}
		inner = c.Context
	}
}

// TraceCall implements [gabion.Tracer]: it starts the call's span. A call that is not
// sampled is followed for metrics and for the deadline only.
func (o *Observer) TraceCall(ctx context.Context, e gabion.Event) (_ context.Context, follow bool) {
	follow = o.meter != nil || o.config.SendDeadline != nil
	if o.tracer == nil || !o.config.AskSampler && settledBefore(ctx) {
		return ctx, follow
	}
	names := o.names.dependency(e.Dependency).operation(e.Operation)
	made, span := o.tracer.Start(ctx, names.call)
	if !span.IsRecording() {
		if alreadyRecorded(ctx, e.Call) {
			return ctx, follow
		}
		return made, follow
	}
	if o.find(ctx, e.Call) != nil { // the observer was attached twice
		return ctx, follow
	}
	c := &call{Context: made, of: o, number: e.Call, span: span, names: names}
	c.attempts = c.room[:0]
	span.SetAttributes(about(&e)...)
	return c, true
}

// settledBefore reports whether the span around the call is one of this process that is
// not sampled: its call is not either, unless the sampler ignores parents.
func settledBefore(ctx context.Context) bool {
	span := trace.SpanFromContext(ctx)
	if span.IsRecording() {
		return false
	}
	around := span.SpanContext()
	return around.IsValid() && !around.IsSampled() && !around.IsRemote()
}

// alreadyRecorded reports whether another observer records this call. Its events come with
// the context that is returned, so its span must stay the innermost.
func alreadyRecorded(ctx context.Context, number uint64) bool {
	c, ok := ctx.Value(callKey{}).(*call)
	return ok && c.number == number
}

// about are the attributes that say what is called.
func about(e *gabion.Event) []attribute.KeyValue {
	as := make([]attribute.KeyValue, 0, 8)
	if e.Dependency != "" {
		as = append(as, keyDependency.String(e.Dependency))
	}
	if e.Operation != "" {
		as = append(as, keyOperation.String(e.Operation))
	}
	if e.Partition != "" {
		as = append(as, keyPartition.String(e.Partition))
	}
	return as
}

// TraceAttempt implements [gabion.Tracer]: it starts the attempt's span, if that of the
// call is recorded, and writes the time left into the baggage, if asked to.
func (o *Observer) TraceAttempt(ctx context.Context, e gabion.Event) context.Context {
	ctx = o.sendDeadline(ctx, &e)
	if o.tracer == nil || !o.recorded(ctx) {
		return ctx
	}
	c := o.find(ctx, e.Call)
	if c == nil || c.began(e.Attempt) {
		return ctx
	}
	as := append(about(&e), keyAttempt.Int(int(e.Attempt)), keyKind.String(kindOf(e.Attempt, e.Hedge)))
	if e.Attempt > 1 {
		as = append(as, keyResends.Int(int(e.Attempt)-1))
	}
	options := []trace.SpanStartOption{trace.WithSpanKind(o.config.AttemptKind), trace.WithAttributes(as...)}
	if e.Hedge {
		options = append(options, trace.WithLinks(c.out(e.At)...))
	}
	ctx, span := o.tracer.Start(ctx, c.names.attempt, options...)
	tellLeft(span, e.Left)
	c.begin(e.Attempt, span)
	return ctx
}

// kindOf is why an attempt was made.
func kindOf(number uint8, hedge bool) string {
	switch {
	case hedge:
		return "hedge"
	case number > 1:
		return "retry"
	}
	return "first"
}

// get returns the attempt of that number. It is called with the lock.
func (c *call) get(number uint8) *attempt {
	for i := range c.attempts {
		if c.attempts[i].number == number {
			return &c.attempts[i]
		}
	}
	c.attempts = append(c.attempts, attempt{number: number})
	return &c.attempts[len(c.attempts)-1]
}

// began reports whether the attempt has its span.
func (c *call) began(number uint8) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.get(number).span != nil
}

// begin keeps the attempt's span.
func (c *call) begin(number uint8, span trace.Span) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.get(number).span = span
}

// end returns the span of an attempt that is out, or nil. The attempt is no longer out then.
func (c *call) end(number uint8, at policy.Instant) trace.Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	a := c.get(number)
	if a.span == nil || !a.ended.IsZero() {
		return nil
	}
	a.ended, a.at = time.Now(), at
	return a.span
}

// settled returns the span of an attempt, and when it ended.
func (c *call) settled(number uint8) (trace.Span, time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a := c.get(number)
	return a.span, a.ended
}

// out are links to the attempts that were out at that time, which may have ended since.
func (c *call) out(at policy.Instant) (links []trace.Link) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.attempts {
		if a := &c.attempts[i]; a.span != nil && (a.ended.IsZero() || a.at > at) {
			links = append(links, trace.Link{SpanContext: a.span.SpanContext(), Attributes: []attribute.KeyValue{keyAttempt.Int(int(a.number))}})
		}
	}
	return links
}

// tellLeft adds how much time was left when the attempt was sent.
func tellLeft(span trace.Span, left time.Duration) {
	if left != policy.NoDeadline {
		span.SetAttributes(keyLeft.Float64(left.Seconds()))
	}
}
