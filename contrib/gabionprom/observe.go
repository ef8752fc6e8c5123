package gabionprom

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/policy"
)

// lazy is a histogram that is made when it is first needed.
type lazy struct{ p atomic.Pointer[histogram] }

func (l *lazy) get() *histogram {
	if h := l.p.Load(); h != nil {
		return h
	}
	l.p.CompareAndSwap(nil, new(histogram))
	return l.p.Load()
}

// Wants implements [gabion.Selective]: of a first attempt all is known when it has settled.
func (m *Metrics) Wants(k policy.Kind) bool { return k != policy.KindAttemptSent }

// Observe counts an event. It implements [gabion.Observer].
func (m *Metrics) Observe(ctx context.Context, e gabion.Event) {
	switch e.Kind {
	case policy.KindAttemptSent:
		m.sent(&e)
	case policy.KindAttemptSettled, policy.KindLoserSettled:
		m.settled(ctx, &e)
	case policy.KindReturned:
		m.returned(ctx, &e)
	default:
		m.dependency(e.Dependency).note(m, &e)
	}
}

func (m *Metrics) sent(e *gabion.Event) {
	if kindOf(e) != kindRetry {
		return
	}
	code := e.Code
	if code == "" {
		code = e.Class.String()
	}
	m.operation(e.Dependency, e.Operation).code(m, code).Add(1)
}

func kindOf(e *gabion.Event) int {
	switch {
	case e.Hedge:
		return kindHedge
	case e.Attempt > 1:
		return kindRetry
	}
	return kindFirst
}

func (m *Metrics) settled(ctx context.Context, e *gabion.Event) {
	o := m.operation(e.Dependency, e.Operation)
	if e.Left != policy.NoDeadline {
		o.of.left.observe(e.Left)
	}
	if e.Slow {
		o.slow.Add(1)
	}
	if e.Reason == policy.AttemptTimeout {
		o.of.timeouts[layerAttempt].Add(1)
	}
	if e.Class == policy.ClassSuccess {
		m.time(ctx, &o.done[kindOf(e)], e.Took)
		return
	}
	o.attempts[kindOf(e)][clip(int(e.Class), numClasses)].Add(1)
	if e.Class != policy.ClassIgnored {
		m.time(ctx, &o.broken, e.Took)
	}
}

func (m *Metrics) time(ctx context.Context, l *lazy, took time.Duration) {
	h := l.get()
	h.observe(took)
	if m.config.Exemplar != nil {
		m.exemplify(ctx, h, took)
	}
}

func (m *Metrics) returned(ctx context.Context, e *gabion.Event) {
	o := m.operation(e.Dependency, e.Operation)
	verdict, retried := failure, 0
	tries := int(e.Attempt) - int(e.Hedges)
	if tries > 1 {
		retried = 1
	}
	switch e.Reason {
	case policy.None:
		verdict = success
		if tries > 1 {
			o.until[min(tries, untilCells)-1].Add(1)
			o.untilSum.Add(uint64(tries))
		}
	case policy.Canceled:
		verdict = canceled
		o.calls.add(e.Reason)
	default:
		o.calls.add(e.Reason)
		o.of.failed(e)
	}
	m.time(ctx, &o.took[verdict][retried], e.Took)
	if e.Hedges > 0 {
		o.of.hedged(e)
	}
}

// failed counts what a call that failed says of its dependency.
func (d *dependency) failed(e *gabion.Event) {
	if e.Reason == policy.CallTimeout {
		d.timeouts[layerCall].Add(1)
	}
	if suppressed(e) {
		d.suppressed.add(e.Reason)
	}
}

// suppressed reports whether a call ended although it had attempts left and its failure
// might have passed.
func suppressed(e *gabion.Event) bool {
	return e.Attempt > 0 && (slices.Contains(suppressing, e.Reason) || slices.Contains(refusingRetries, e.Reason))
}

func (d *dependency) hedged(e *gabion.Event) {
	lost := uint64(e.Hedges)
	if e.Hedge {
		d.hedges[1].Add(1)
		lost--
	}
	d.hedges[0].Add(lost)
}

// note counts what happens less often than calls.
func (d *dependency) note(m *Metrics, e *gabion.Event) {
	switch e.Kind {
	case policy.KindAttemptRefused:
		d.refused.add(e.Reason)
		if e.Reason == policy.QueueTimeout {
			d.timeouts[layerQueue].Add(1)
		}
	case policy.KindHedgeSkipped:
		d.skipped.add(e.Reason)
	case policy.KindWaiting:
		countWord(&d.waits, e.Wait, nil)
	case policy.KindBodyFailed:
		d.bodyFailed(e)
	case policy.KindOutlived:
		d.outlived.Add(1)
	case policy.KindFellBack:
		d.fallbacks.add(e.Reason)
	case policy.KindKeyDecided:
		countWord(&d.keys, e.Code, &m.overflow.result)
	case policy.KindMessageDisposed:
		countWord(&d.messages, e.Code, &m.overflow.disposition)
	default:
		d.noteState(e)
	}
}

func (d *dependency) bodyFailed(e *gabion.Event) {
	d.broken.add(e.Reason)
	switch e.Reason {
	case policy.IdleTimeout:
		d.timeouts[layerIdle].Add(1)
	case policy.BodyTimeout:
		d.timeouts[layerBody].Add(1)
	}
}

// noteState counts events about the dependency.
func (d *dependency) noteState(e *gabion.Event) {
	switch e.Kind {
	case policy.KindBreakerMoved:
		d.move(e)
	case policy.KindBreakerExceeded:
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.exceeded == nil {
			d.exceeded = map[policy.BreakerCause]uint64{}
		}
		d.exceeded[e.Cause]++
	case policy.KindPaceSet:
		d.paceSet.Add(1)
	case policy.KindLimitMoved:
		d.limits.Add(1)
	case policy.KindReloaded:
		d.reloads.Add(1)
	case policy.KindRetriesSwitched:
		d.switched.Add(1)
	case policy.KindResent:
		d.resent.Add(uint64(max(e.Count, 0)))
	case policy.KindLettersLost:
		d.lettersLost.Add(uint64(max(e.Count, 0)))
	case policy.KindEventsLost:
		d.eventsLost.Add(uint64(max(e.Count, 0)))
	}
}

// admits reports whether a breaker in that state lets all calls through. One that opens again because
// its probes failed was not closed in between.
func admits(s policy.BreakerState) bool {
	return s == policy.StateClosed || s == policy.StateDisabled || s == policy.StateObserveOnly
}

func (d *dependency) move(e *gabion.Event) {
	if e.To == policy.StateOpen && admits(e.From) {
		d.opens.Add(1)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.moves == nil {
		d.moves = map[move]uint64{}
	}
	d.moves[move{e.From, e.To, e.Cause}]++
}
