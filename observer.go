package gabion

import (
	"context"
	"log/slog"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gabion-go/gabion/internal/adapter"
	"github.com/gabion-go/gabion/internal/machine"
	"github.com/gabion-go/gabion/policy"
)

// Event is one decision, by value.
type Event = policy.Event

// Observer gets every decision about a dependency and its calls as an event. Events of
// one call come in the order of its decisions. Events about the dependency, such as a
// breaker that opened, come in the order in which they happened. Both come outside every
// lock, with the context of a call.
//
// An observer may use the dependency. It should be quick: the call waits for it. If it
// panics, the call goes on, and the first panic is logged. If it leaves by
// runtime.Goexit, as t.FailNow does, the call ends there, and its next events may be lost.
type Observer interface {
	Observe(context.Context, Event)
}

// ObserverFunc makes a function an Observer.
type ObserverFunc func(context.Context, Event)

// Observe calls f.
func (f ObserverFunc) Observe(ctx context.Context, e Event) { f(ctx, e) }

// Tracer is an [Observer] that also puts something into contexts, such as a span: a
// request that carries a trace must carry the span of its attempt. A dependency asks
// each of its observers that is one. What it returns must be ctx or made of it, or the work would
// not see its caller's end; nil counts as ctx. If it panics, the call goes on with ctx. If it
// leaves by runtime.Goexit, the call ends there, as with any Observer.
type Tracer interface {
	Observer

	// TraceCall returns what the events and attempts of a call get as their context. The
	// event tells dependency, operation, partition, number and time. Without follow the
	// Tracer gets neither the attempts nor the events of this call, as it may want for
	// one that is not sampled.
	TraceCall(ctx context.Context, call Event) (made context.Context, follow bool)

	// TraceAttempt returns what an attempt's context is made of. It gets what TraceCall
	// returned. The event is that of KindAttemptSent, without what failed before.
	// It was observed just before, or, where a hedge is sent, may be observed a moment later. It
	// may come after the call's KindReturned, too. The time that it takes is not the attempt's.
	TraceAttempt(ctx context.Context, attempt Event) context.Context
}

// Selective is an [Observer] that does not want every event, so that calls which nothing else
// observes cost less. Wants is asked once for each kind, when the observer is attached. Without
// policy.KindAttemptSent an observer is spared the events of first attempts only: it still gets
// those of retries and hedges. The event of an attempt that has settled tells Left, too.
type Selective interface {
	Observer

	// Wants reports whether the observer wants events of a kind.
	Wants(policy.Kind) bool
}

// subscription is an observer of one dependency, or of all those of a registry.
type subscription struct {
	observer Observer
	tracer   Tracer          // observer, if it is one
	tallier  adapter.Tallier // likewise
	skip     machine.Kinds
	ended    atomic.Bool
}

func newSubscription(o Observer) *subscription {
	t, _ := o.(Tracer)
	s := &subscription{observer: o, tracer: t}
	s.tallier, _ = o.(adapter.Tallier)
	if choosy, ok := o.(Selective); ok {
		for _, k := range policy.Kinds() {
			if !choosy.Wants(k) {
				s.skip = s.skip.With(k)
			}
		}
	}
	return s
}

// wants reports whether the observer gets an event.
func (s *subscription) wants(e *Event) bool {
	return !s.skip.Has(e.Kind) || e.Kind == policy.KindAttemptSent && (e.Attempt > 1 || e.Hedge)
}

// audience is who observes a dependency. It is never changed, but replaced.
type audience struct {
	all     []seat
	again   []*subscription // of observers that have a seat already
	traced  bool            // one of them is a Tracer
	tallies bool            // each is a Tallier
	skip    machine.Kinds   // what none of them wants
}

// seat is an observer's place in an audience, which it keeps while it observes.
type seat struct {
	*subscription
	bit uint64 // a call says by it that the observer does not follow it; zero past the 64th
}

// newAudience seats those that observe from now on. A place that became free may be taken by
// another observer, which then may get nothing of calls that have begun.
func newAudience(have []seat, all []*subscription) *audience {
	a := &audience{skip: ^machine.Kinds(0), tallies: true}
	taken := uint64(0)
	for _, s := range have {
		taken |= s.bit
	}
	for _, one := range all {
		if one.ended.Load() {
			continue
		}
		if slices.ContainsFunc(a.all, func(s seat) bool { return same(s.observer, one.observer) }) {
			a.again = append(a.again, one)
			continue
		}
		s := seat{one, 0}
		if i := slices.IndexFunc(have, func(h seat) bool { return h.subscription == one }); i >= 0 {
			s.bit = have[i].bit
		} else {
			s.bit = ^taken & (taken + 1) // the lowest that is free
			taken |= s.bit
		}
		a.all = append(a.all, s)
		a.traced = a.traced || one.tracer != nil
		a.tallies = a.tallies && one.tallier != nil && one.tracer == nil && one.skip.Has(policy.KindAttemptSent)
		a.skip &= one.skip
	}
	if len(a.all) == 0 {
		return nil
	}
	return a
}

// same reports whether two are one observer. Functions are never known to be.
func same(a, b Observer) bool { return reflect.ValueOf(a).Comparable() && a == b }

// without returns what remains where some of the audience do not follow a call: what none of the
// others wants, and whether one of them is a Tracer.
func (a *audience) without(muted uint64) (skip machine.Kinds, traced bool) {
	if muted == 0 {
		return a.skip, a.traced
	}
	skip = ^machine.Kinds(0)
	for _, s := range a.all {
		if muted&s.bit == 0 {
			skip, traced = skip&s.skip, traced || s.tracer != nil
		}
	}
	return skip, traced
}

// callNumbers numbers the observed calls of the process, so that a recording of several
// dependencies names each call once.
var callNumbers atomic.Uint64

// Observe sends every event about the dependency and its calls to o from now on, until
// stop is called. Of calls that have begun o may get nothing, or the rest of their
// events. An event that is on its way when stop is called may still arrive after it; no
// later one does. Calling stop twice is harmless. One that is attached twice, here or to a
// registry, gets each event once, until both are stopped; functions can't be compared.
// A [Tracer] that comes during a call gets the contexts of its attempts without what it
// would have put into the call's. Observing nothing, with a nil o, is no error.
func (d *Dependency) Observe(o Observer) (stop func()) {
	s := newSubscription(o)
	d.attach(s)
	return func() {
		s.ended.Store(true)
		d.prune()
	}
}

// attach adds an observer, if it is one and not there yet.
func (d *Dependency) attach(s *subscription) {
	if s.observer == nil {
		return
	}
	d.setAudience(func(have []*subscription) []*subscription {
		if slices.Contains(have, s) {
			return have
		}
		return append(slices.Clip(have), s)
	})
}

// prune forgets the observers that have ended.
func (d *Dependency) prune() {
	d.setAudience(func(have []*subscription) []*subscription { return have })
}

// attaching is held during a change of any dependency's audience.
var attaching sync.Mutex

func (d *Dependency) setAudience(change func([]*subscription) []*subscription) {
	attaching.Lock()
	defer attaching.Unlock()
	var have []seat
	var all []*subscription
	if a := d.audience.Load(); a != nil {
		have = a.all
		for _, s := range have {
			all = append(all, s.subscription)
		}
		all = append(all, a.again...)
	}
	next := newAudience(have, change(all))
	d.audience.Store(next)
	if d.state != nil { // else it is being made
		d.state.Listen(next != nil)
	}
}

// observed reports whether anybody observes.
func (d *Dependency) observed() bool { return d.audience.Load() != nil }

// publish tells each observer. If one panics, the others still get the event.
// The event is handed down by pointer, since it is large, and up to here it is not kept.
func (d *Dependency) publish(ctx context.Context, e *Event) { d.publishBut(ctx, e, 0) }

// publishBut is publish for a call that some do not follow.
func (d *Dependency) publishBut(ctx context.Context, e *Event, muted uint64) {
	a := d.audience.Load()
	if a == nil {
		return
	}
	e.Dependency = d.name
	for _, s := range a.all {
		if muted&s.bit == 0 {
			s.tell(ctx, d, e)
		}
	}
}

func (s *subscription) tell(ctx context.Context, d *Dependency, e *Event) {
	if s.ended.Load() || !s.wants(e) {
		return
	}
	defer d.survive(ctx)
	s.observer.Observe(ctx, *e)
}

// traceCall lets every Tracer put what it needs into the context of a call. Muted are those
// of the audience that do not follow the call, by their places.
func (a *audience) traceCall(ctx context.Context, d *Dependency, e *Event) (made context.Context, muted uint64) {
	e.Dependency = d.name
	for _, s := range a.all {
		if s.tracer == nil || s.ended.Load() {
			continue
		}
		var follow bool
		if ctx, follow = s.traceCall(ctx, d, e); !follow {
			muted |= s.bit
		}
	}
	return ctx, muted
}

func (s *subscription) traceCall(ctx context.Context, d *Dependency, e *Event) (made context.Context, follow bool) {
	made, follow = ctx, true
	defer d.survive(ctx)
	got, follows := s.tracer.TraceCall(ctx, *e)
	if got != nil {
		made = got
	}
	return made, follows
}

// traceAttempt lets every Tracer that follows the call put what it needs into the context of
// an attempt.
func (a *audience) traceAttempt(ctx context.Context, d *Dependency, e *Event, muted uint64) context.Context {
	e.Dependency = d.name
	for _, s := range a.all {
		if s.tracer != nil && muted&s.bit == 0 && !s.ended.Load() {
			ctx = s.traceAttempt(ctx, d, e)
		}
	}
	return ctx
}

func (s *subscription) traceAttempt(ctx context.Context, d *Dependency, e *Event) (made context.Context) {
	made = ctx
	defer d.survive(ctx)
	if got := s.tracer.TraceAttempt(ctx, *e); got != nil {
		made = got
	}
	return made
}

// turnAway counts, and tells the observer, that a call ended with err before it began. It returns err.
func (d *Dependency) turnAway(ctx context.Context, o *callOptions, err error) error {
	d.state.TurnAway(0, ReasonOf(err))
	a := d.audience.Load()
	if a == nil {
		return err
	}
	now, id, why, left := d.now(), callNumbers.Add(1), ReasonOf(err), d.wouldHave(ctx, o)
	ctx, muted := a.traceCall(ctx, d, &Event{At: now, Operation: o.operation, Call: id})
	d.publishBut(ctx, &Event{
		Kind: policy.KindAttemptRefused, At: now, Until: now, Reason: why, Attempt: 1, Operation: o.operation, Call: id, Left: left,
	}, muted)
	d.publishBut(ctx, &Event{
		Kind: policy.KindReturned, At: now, Reason: why, Effect: EffectOf(err), Operation: o.operation, Call: id,
	}, muted)
	return err
}

// wouldHave is how long a call would have had that did not begin.
func (d *Dependency) wouldHave(ctx context.Context, o *callOptions) time.Duration {
	left := policy.NoDeadline
	if limit := d.state.Rules().Policy.Timeout.Call; limit > 0 {
		left = limit
	}
	if o.Timeout > 0 {
		left = o.Timeout
	}
	if deadline, ok := ctx.Deadline(); ok {
		left = min(left, time.Until(deadline))
	}
	return left
}

// survive ends an observer's panic. Only the first is logged, since a log line for every
// event would be one more outage.
func (d *Dependency) survive(ctx context.Context) {
	crash := recover()
	if crash == nil {
		return
	}
	if d.crashes.Add(1) > 1 {
		return
	}
	d.state.Note(Event{Kind: policy.KindObserverCrashed, At: d.now()})
	d.logCrash(ctx, "gabion: observer panicked", crash)
}

// reportLoser logs that work panicked in an attempt that another one had beaten, or, if crash
// is nil, that it called runtime.Goexit. Its call ended well, so the panic is not raised.
func (d *Dependency) reportLoser(crash any) {
	if crash == nil {
		crash = "runtime.Goexit"
	}
	d.logCrash(context.Background(), "gabion: work panicked in an attempt that another one had beaten", crash)
}

func (d *Dependency) logCrash(ctx context.Context, what string, crash any) {
	defer func() { _ = recover() }() // the log's handler may panic, too
	loggerOf(d).LogAttrs(ctx, slog.LevelError, what, slog.String("dependency", d.name), slog.Any("panic", crash))
}

// deliver tells the observer what happened to the dependency, and reports whether there was
// anything. A call of an instance may also have found that something of its parent is over.
func (d *Dependency) deliver(ctx context.Context) (told bool) {
	if d.parent != nil {
		told = d.parent.deliver(ctx)
	}
	if !d.observed() || !d.state.Pending() {
		return told
	}
	if ctx == nil {
		ctx = context.Background()
	}
	d.state.Deliver(func(e Event) { d.publish(ctx, &e) })
	return true
}

func loggerOf(d *Dependency) *slog.Logger {
	if d.logger == nil {
		return slog.Default()
	}
	return d.logger
}
