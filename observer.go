package gabion

import (
	"context"
	"log/slog"

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

// observers are several observers.
type observers []watcher

// Observe calls each in turn. If one panics, the others still get the event.
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

// log returns an empty log for a call.
func (d *Dependency) log() *machine.Log {
	if l, ok := d.logs.Get().(*machine.Log); ok {
		return l
	}
	return new(machine.Log)
}

// putLog takes back the log of a call that has ended.
func (d *Dependency) putLog(l *machine.Log) {
	if l != nil {
		l.Drain()
		d.logs.Put(l)
	}
}

// publish tells the observer, and survives its panic.
func (d *Dependency) publish(ctx context.Context, e Event) {
	defer d.survive(ctx)
	e.Dependency = d.name
	d.observer.Observe(ctx, e)
}

// turnAway tells the observer that a call ended with err before it began. It returns err.
func (d *Dependency) turnAway(ctx context.Context, operation string, err error) error {
	if d.observer == nil {
		return err
	}
	now, id, why := d.now(), d.calls.Add(1), ReasonOf(err)
	d.publish(ctx, Event{Kind: policy.KindAttemptRefused, At: now, Until: now, Reason: why, Attempt: 1, Operation: operation, Call: id})
	d.publish(ctx, Event{Kind: policy.KindReturned, At: now, Reason: why, Effect: EffectOf(err), Operation: operation, Call: id})
	return err
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
	defer func() { _ = recover() }() // the log's handler may panic, too
	logger := d.logger
	if logger == nil {
		logger = slog.Default()
	}
	logger.LogAttrs(ctx, slog.LevelError, "gabion: observer panicked",
		slog.String("dependency", d.name), slog.Any("panic", crash))
}

// deliver tells the observer what happened to the dependency.
func (d *Dependency) deliver(ctx context.Context) {
	if d.observer == nil || !d.state.Pending() {
		return
	}
	if ctx == nil {
		ctx = context.Background()
	}
	d.state.Deliver(func(e Event) { d.publish(ctx, e) })
}
