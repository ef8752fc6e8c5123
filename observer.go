package gabion

import (
	"context"
	"log/slog"

	"github.com/gabion-go/gabion/internal/machine"
	"github.com/gabion-go/gabion/policy"
)

// Event is one decision, by value.
type Event = policy.Event

// Observer is told of every decision about a dependency and its calls. Events of
// one call come in the order of its decisions, events about the dependency (its
// breaker moved, it asked for time) in the order in which they happened, both
// outside every lock and with the context of a call. An observer may use the
// dependency. It should be quick: the call waits for it. If it panics, the call
// goes on and the first panic is logged. If it leaves by runtime.Goexit, as t.FailNow
// does, the call ends there, and what was to be told next may not be.
type Observer interface {
	Observe(context.Context, Event)
}

// ObserverFunc makes a function an Observer.
type ObserverFunc func(context.Context, Event)

// Observe calls f.
func (f ObserverFunc) Observe(ctx context.Context, e Event) { f(ctx, e) }

// observers tells several.
type observers []watcher

// Observe tells each in turn. One that panics takes nothing from the others.
func (os observers) Observe(ctx context.Context, e Event) {
	for _, o := range os {
		o.observe(ctx, e)
	}
}

// watcher is one of several observers of a dependency.
type watcher struct {
	d *Dependency
	Observer
}

func (w watcher) observe(ctx context.Context, e Event) {
	defer w.d.survive(ctx)
	w.Observe(ctx, e)
}

// watch adds an observer, if it is one.
func (d *Dependency) watch(o Observer) {
	if o == nil {
		return
	}
	switch have := d.observer.(type) {
	case nil:
		d.observer = o
	case observers:
		d.observer = append(have, watcher{d, o})
	default:
		d.observer = observers{{d, have}, {d, o}}
	}
}

// log returns an empty log for one call.
func (d *Dependency) log() *machine.Log {
	if l, ok := d.logs.Get().(*machine.Log); ok {
		return l
	}
	return new(machine.Log)
}

// putLog takes back the log of a call that will say nothing more.
func (d *Dependency) putLog(l *machine.Log) {
	if l != nil {
		l.Drain()
		d.logs.Put(l)
	}
}

// publish tells the observer, whatever the observer does.
func (d *Dependency) publish(ctx context.Context, e Event) {
	defer d.survive(ctx)
	e.Dependency = d.name
	d.observer.Observe(ctx, e)
}

// turnAway tells the observer of a call that ended with err before it began.
func (d *Dependency) turnAway(ctx context.Context, operation string, err error) error {
	if d.observer == nil {
		return err
	}
	now, id, why := d.now(), d.calls.Add(1), ReasonOf(err)
	d.publish(ctx, Event{Kind: policy.KindAttemptRefused, At: now, Until: now, Reason: why, Attempt: 1, Operation: operation, Call: id})
	d.publish(ctx, Event{Kind: policy.KindReturned, At: now, Reason: why, Effect: EffectOf(err), Operation: operation, Call: id})
	return err
}

// survive ends an observer's panic. It is reported once: a log that grows with
// every event would be one more outage.
func (d *Dependency) survive(ctx context.Context) {
	crash := recover()
	if crash == nil {
		return
	}
	if d.crashes.Add(1) > 1 {
		return
	}
	d.state.Note(Event{Kind: policy.KindObserverCrashed, At: d.now()})
	defer func() { _ = recover() }() // a handler that panics too is told to nobody
	logger := d.logger
	if logger == nil {
		logger = slog.Default()
	}
	logger.LogAttrs(ctx, slog.LevelError, "gabion: observer panicked",
		slog.String("dependency", d.name), slog.Any("panic", crash))
}

// deliver hands what happened to the dependency to the observer.
func (d *Dependency) deliver(ctx context.Context) {
	if d.observer == nil || !d.state.Pending() {
		return
	}
	if ctx == nil {
		ctx = context.Background()
	}
	d.state.Deliver(func(e Event) { d.publish(ctx, e) })
}
