package gabionotel

import (
	"context"
	"strings"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/policy"
)

// meters are the instruments.
type meters struct {
	calls           metric.Int64Counter
	callDuration    metric.Float64Histogram
	attempts        metric.Int64Counter
	attemptDuration metric.Float64Histogram
	left            metric.Float64Histogram
	hedges          metric.Int64Counter
	suppressed      metric.Int64Counter
	refused         metric.Int64Counter
	skipped         metric.Int64Counter
	outlived        metric.Int64Counter
	transitions     metric.Int64Counter
	results         metric.Int64Counter
	fallbacks       metric.Int64Counter
	resent          metric.Int64Counter
	idempotency     metric.Int64Counter
	messages        metric.Int64Counter
	letters         metric.Int64Counter
	lost            metric.Int64Counter
	overflows       metric.Int64Counter

	meter   metric.Meter
	reading metric.Registration // of the gauges; nil means none
}

// buckets are those that the semantic conventions name for durations of requests.
var buckets = metric.WithExplicitBucketBoundaries(0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10)

func newMeters(m metric.Meter) *meters {
	return &meters{
		calls:           counter(m, "gabion.calls", "{call}", "Calls that ended, by outcome."),
		callDuration:    duration(m, "gabion.call.duration", "Duration of whole calls, with their waits and retries."),
		attempts:        counter(m, "gabion.attempts", "{attempt}", "Attempts that ended: first ones, retries and hedges."),
		attemptDuration: duration(m, "gabion.attempt.duration", "Duration of attempts."),
		left:            duration(m, "gabion.deadline.remaining", "Time until the call's deadline when an attempt is sent."),
		hedges:          counter(m, "gabion.hedges", "{hedge}", "Hedges that were sent, and whether one brought the answer."),
		suppressed:      counter(m, "gabion.retries.suppressed", "{call}", "Calls that failed although attempts were left, by why none was made."),
		refused:         counter(m, "gabion.attempts.refused", "{attempt}", "Attempts that were not made, by reason."),
		skipped:         counter(m, "gabion.hedges.skipped", "{hedge}", "Hedges that were due and not made, by reason."),
		outlived:        counter(m, "gabion.results.outlived", "{result}", "Results that were open when their attempt's time was over."),
		transitions:     counter(m, "gabion.breaker.transitions", "{transition}", "Changes of a breaker's state, by cause."),
		results:         counter(m, "gabion.results.broken", "{result}", "Results that broke after their attempt's verdict, such as bodies."),
		fallbacks:       counter(m, "gabion.fallbacks", "{answer}", "Answers that a fallback gave, by what it answered for."),
		resent:          counter(m, "gabion.resent_below", "{request}", "Requests that something below the policy sent again, unasked."),
		idempotency:     counter(m, "gabion.idempotency", "{request}", "Requests with an idempotency key, by what was decided."),
		messages:        counter(m, "gabion.messages", "{message}", "Messages, by what became of them."),
		letters:         counter(m, "gabion.dead_letters.lost", "{letter}", "Dead letters that were removed unseen, since their store was full."),
		lost:            counter(m, "gabion.events.lost", "{event}", "Events about dependencies that the queue had no room for."),
		overflows:       counter(m, "gabion.label.overflow", "{measurement}", "Measurements counted under _other, since there were too many names."),
		meter:           m,
	}
}

func counter(m metric.Meter, name, unit, means string) metric.Int64Counter {
	c, err := m.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(means))
	report(err)
	return c
}

func duration(m metric.Meter, name, means string) metric.Float64Histogram {
	h, err := m.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(means), buckets)
	report(err)
	return h
}

// report reports an instrument that was refused. The API returns one that does nothing.
func report(err error) {
	if err != nil {
		otel.Handle(err)
	}
}

// on reports whether anybody reads the metrics.
func (m *meters) on(ctx context.Context) bool { return m.calls.Enabled(ctx) }

// record counts an event.
func (m *meters) record(ctx context.Context, d *dependency, e *gabion.Event) {
	switch e.Kind {
	case policy.KindAttemptSettled, policy.KindLoserSettled:
		set := m.attemptSet(ctx, d, e)
		if e.Left != policy.NoDeadline {
			m.left.Record(ctx, e.Left.Seconds(), d.operation(e.Operation).plain.record...)
		}
		m.attempts.Add(ctx, 1, set.add...)
		m.attemptDuration.Record(ctx, e.Took.Seconds(), set.record...)
	case policy.KindReturned:
		m.returned(ctx, d, e)
	case policy.KindAttemptRefused:
		m.refused.Add(ctx, 1, d.few('r', keyReason, e.Reason.String()).add...)
	case policy.KindHedgeSkipped:
		m.skipped.Add(ctx, 1, d.few('s', keyReason, e.Reason.String()).add...)
	case policy.KindOutlived:
		m.outlived.Add(ctx, 1, d.set.add...)
	case policy.KindBodyFailed:
		m.results.Add(ctx, 1, d.few('b', keyReason, brokenBy(e)).add...)
	case policy.KindFellBack:
		m.fallbacks.Add(ctx, 1, d.few('f', keyReason, e.Reason.String()).add...)
	case policy.KindKeyDecided:
		m.idempotency.Add(ctx, 1, d.decided('i', e.Code).add...)
	case policy.KindMessageDisposed:
		m.messages.Add(ctx, 1, d.decided('m', e.Code).add...)
	case policy.KindBreakerMoved:
		m.transitions.Add(ctx, 1, d.move(e).add...)
	case policy.KindResent:
		m.resent.Add(ctx, e.Count, d.set.add...)
	case policy.KindLettersLost:
		m.letters.Add(ctx, e.Count, d.set.add...)
	case policy.KindEventsLost:
		m.lost.Add(ctx, e.Count, d.set.add...)
	}
}

func (m *meters) returned(ctx context.Context, d *dependency, e *gabion.Event) {
	set := m.callSet(ctx, d, e)
	m.calls.Add(ctx, 1, set.add...)
	m.callDuration.Record(ctx, e.Took.Seconds(), set.record...)
	if others := int64(e.Hedges); others > 0 {
		if e.Hedge {
			m.hedges.Add(ctx, 1, d.few('h', keyWon, "true").add...)
			others--
		}
		if others > 0 {
			m.hedges.Add(ctx, others, d.few('h', keyWon, "false").add...)
		}
	}
	if e.Attempt > 0 && suppresses(e.Reason) {
		m.suppressed.Add(ctx, 1, d.few('n', keyReason, e.Reason.String()).add...)
	}
}

// suppresses reports whether a call that ended for this reason, after an attempt, might
// have been repeated otherwise. That its attempts are used up is no such reason.
func suppresses(why policy.Reason) bool {
	switch why {
	case policy.None, policy.NotRetryable, policy.UnclassifiedError, policy.AttemptsExhausted, policy.AttemptTimeout,
		policy.CallTimeout, policy.IdleTimeout, policy.BodyTimeout, policy.Canceled, policy.WorkCrashed, policy.Invalid:
		return false
	}
	return true
}

// brokenBy is the limit that ended a result, or "broken".
func brokenBy(e *gabion.Event) string {
	if e.Reason == policy.None {
		return "broken"
	}
	return e.Reason.String()
}

// operation returns that of the event, and counts those that have no room.
func (m *meters) operation(ctx context.Context, d *dependency, e *gabion.Event) *operation {
	o := d.operation(e.Operation)
	if o == d.other {
		m.overflows.Add(ctx, 1, d.set.add...)
	}
	return o
}

// callSet returns the label set of a call that ended.
func (m *meters) callSet(ctx context.Context, d *dependency, e *gabion.Event) *measured {
	o := m.operation(ctx, d, e)
	if set := o.calls.get(uint8(e.Reason)); set != nil {
		return set
	}
	if !d.room(o, ofCalls) {
		m.overflows.Add(ctx, 1, d.set.add...)
		o = d.other
	}
	return o.calls.put(uint8(e.Reason), maxSets, func() *measured {
		return newMeasured(keyDependency.String(d.name), keyOperation.String(o.name), keyOutcome.String(e.Reason.String()))
	})
}

// attemptSet returns the label set of an attempt that ended.
func (m *meters) attemptSet(ctx context.Context, d *dependency, e *gabion.Event) *measured {
	o := m.operation(ctx, d, e)
	how := ended{class: uint8(e.Class), code: e.Code}
	switch {
	case e.Hedge:
		how.kind = 2
	case e.Attempt > 1:
		how.kind = 1
	}
	if o == d.other && how.code != "" {
		how.code = overflow
	}
	if set := o.attempts.get(how); set != nil {
		return set
	}
	if len(how.code) > maxName || !d.room(o, ofAttempts) {
		m.overflows.Add(ctx, 1, d.set.add...)
		o = d.other
		if how.code != "" {
			how.code = overflow
		}
	}
	how.code = strings.Clone(how.code)
	kind, class := kindOf(e.Attempt, e.Hedge), e.Class.String()
	return o.attempts.put(how, maxSets, func() *measured {
		return newMeasured(keyDependency.String(d.name), keyOperation.String(o.name), keyKind.String(kind), keyClass.String(class), keyCode.String(how.code))
	})
}
