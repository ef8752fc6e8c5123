package gabion

import (
	"strings"
	"sync/atomic"
	"time"
	"unicode"

	"github.com/gabion-go/gabion/internal/breaker"
	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/internal/machine"
)

// Breaker moves one of a dependency's breakers, for operators and tests. Every move is
// an event. It is safe for concurrent use. The zero Breaker has no breaker, and its moves
// do nothing.
type Breaker struct {
	d   *Dependency
	b   *breaker.Breaker
	who string
}

// Breaker returns the breaker of that partition, or with "" of the calls that name no partition;
// calls through package gabionhttp name their host. To move one moves no other. It reports false if
// the policy has no breaker, or the partition was never called or is forgotten. [Dependency.Stats]
// has the names.
func (d *Dependency) Breaker(partition string) (Breaker, bool) {
	b := d.state.Breaker(partition)
	return Breaker{d: d, b: b}, b != nil
}

// By returns the same breaker for moves whose events say who made them, as
// [policy.Event.Code]: the name of an operator, a program, a ticket. A name longer than
// 128 bytes is cut and ends in a hash of the whole, and what does not print is a
// question mark. With "" the events have no name.
func (b Breaker) By(who string) Breaker {
	b.who = printable(who)
	return b
}

// ForceOpen refuses every call for that long, whatever the dependency does; then
// the breaker probes. Zero or less means until Reset.
func (b Breaker) ForceOpen(lasts time.Duration) { b.last(lasts, breaker.Hand.ForceOpen) }

// Trip opens the breaker for its usual open time, and then it probes. Until then no probe
// goes, however many calls are refused; HalfOpen and Reset end it. A breaker that is open
// already sends no more probes for what is left of its time.
func (b Breaker) Trip() { b.move(breaker.Hand.Trip) }

// Disable admits every call and counts nothing for that long. Then the breaker is closed
// with nothing counted, or only observes if the policy says so. Zero or less means until
// Reset.
func (b Breaker) Disable(lasts time.Duration) { b.last(lasts, breaker.Hand.Disable) }

// ObserveOnly counts and reports, but never refuses, for that long. It ends as Disable
// does.
func (b Breaker) ObserveOnly(lasts time.Duration) { b.last(lasts, breaker.Hand.Observe) }

// Reset closes the breaker with nothing counted, from any state, and ends isolations.
func (b Breaker) Reset() { b.move(breaker.Hand.Reset) }

// HalfOpen lets an open breaker probe now. It is an error in any other state:
// a breaker that is closed has nothing to probe for, and one that is isolated refuses all.
func (b Breaker) HalfOpen() error {
	if b.b == nil {
		return breaker.ErrNotOpen
	}
	err := b.b.By(b.who).TryHalfOpen(b.d.now())
	b.d.deliver(nil)
	return err
}

// Isolate refuses every call until release is called. Several isolations hold independently;
// releasing twice is harmless. What ForceOpen, Disable or ObserveOnly set before the last release
// holds after it; Trip and HalfOpen have no effect. Only Reset ends isolations, all of them, so
// that one whose release is lost does not last for ever.
func (b Breaker) Isolate() (release func()) {
	if b.b == nil {
		return func() {}
	}
	hand := b.b.By(b.who)
	i := hand.Isolate(b.d.now())
	b.d.deliver(nil)
	var released atomic.Bool
	return func() {
		if released.Swap(true) {
			return
		}
		hand.Release(b.d.now(), i)
		b.d.deliver(nil)
	}
}

func (b Breaker) move(f func(breaker.Hand, clock.Instant)) {
	if b.b == nil {
		return
	}
	f(b.b.By(b.who), b.d.now())
	b.d.deliver(nil)
}

// last moves to a state that lasts for so long.
func (b Breaker) last(long time.Duration, f func(h breaker.Hand, now, until clock.Instant)) {
	b.move(func(h breaker.Hand, now clock.Instant) { f(h, now, ending(now, long)) })
}

// ending is when a state ends that was set by hand for so long. Zero or less is never.
func ending(now clock.Instant, lasts time.Duration) clock.Instant {
	if lasts <= 0 {
		return clock.Never
	}
	return now.Add(lasts)
}

// printable returns a name as events show it.
func printable(who string) string {
	return machine.BoundedName(strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, who))
}

// Retries switches the retries and hedges of one dependency, and with it those of the
// instances that a [Registry] made of it, for operators and tests. Every change is an
// event. It is safe for concurrent use.
type Retries struct {
	d   *Dependency
	who string
}

// Retries returns the switch of the dependency's retries and hedges, and with them those of the instances that a
// [Registry] made of it.
func (d *Dependency) Retries() Retries { return Retries{d: d} }

// By returns the same switch for changes whose events say who made them, as
// [Breaker.By] does.
func (r Retries) By(who string) Retries {
	r.who = printable(who)
	return r
}

// Stop switches them off at once for that long, also for calls that have begun. Zero or
// less means until Resume.
func (r Retries) Stop(lasts time.Duration) {
	now := r.d.now()
	r.d.state.StopRetries(now, ending(now, lasts), r.who)
	r.d.deliver(nil)
}

// Resume switches them on again.
func (r Retries) Resume() {
	r.d.state.ResumeRetries(r.d.now(), r.who)
	r.d.deliver(nil)
}

// retriesOff is the process-wide kill switch.
var retriesOff atomic.Bool

// SetRetries switches the retries and hedges of every dependency in the process
// on or off at once, also for calls that have begun. It is for outages, and for tests
// that want exactly one attempt. They are on at the start. It is no event: [Stats] says
// that they are off.
func SetRetries(on bool) { retriesOff.Store(!on) }
