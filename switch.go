package gabion

import (
	"sync/atomic"
	"time"

	"github.com/gabion-go/gabion/internal/breaker"
	"github.com/gabion-go/gabion/internal/clock"
)

// Breaker moves one of a dependency's breakers, for operators and tests. Every move is
// an event. It is safe for concurrent use. The zero Breaker has no breaker, and its moves
// do nothing.
type Breaker struct {
	d *Dependency
	b *breaker.Breaker
}

// Breaker returns the breaker of that partition, or with "" of the calls that name
// none; calls through package gabionhttp name their host. To move one moves no other. It
// reports false if there is none: the policy has no breaker, or the partition
// was never called or is forgotten. [Dependency.Stats] has the names.
func (d *Dependency) Breaker(partition string) (Breaker, bool) {
	b := d.state.Breaker(partition)
	return Breaker{d, b}, b != nil
}

// ForceOpen refuses every call for that long, whatever the dependency does; then
// the breaker probes. Zero or less means until Reset.
func (b Breaker) ForceOpen(lasts time.Duration) {
	if b.b == nil {
		return
	}
	until := clock.Never
	now := b.d.now()
	if lasts > 0 {
		until = now.Add(lasts)
	}
	b.b.ForceOpen(now, until)
	b.d.deliver(nil)
}

// Trip opens the breaker for its usual open time, and then it probes. Until then no probe
// goes, however many calls are refused; HalfOpen and Reset end it. A breaker that is open
// already sends no more probes for what is left of its time.
func (b Breaker) Trip() { b.move((*breaker.Breaker).Trip) }

// Disable admits every call and counts nothing until Reset.
func (b Breaker) Disable() { b.move((*breaker.Breaker).Disable) }

// ObserveOnly counts and reports, but never refuses, until Reset.
func (b Breaker) ObserveOnly() { b.move((*breaker.Breaker).Observe) }

// Reset closes the breaker with nothing counted, from any state.
func (b Breaker) Reset() { b.move((*breaker.Breaker).Reset) }

// HalfOpen lets an open breaker probe now. It is an error in any other state:
// a breaker that is closed has nothing to probe for.
func (b Breaker) HalfOpen() error {
	if b.b == nil {
		return breaker.ErrNotOpen
	}
	err := b.b.TryHalfOpen(b.d.now())
	b.d.deliver(nil)
	return err
}

// Isolate refuses every call until release is called. Several isolations hold
// independently; releasing twice is harmless.
func (b Breaker) Isolate() (release func()) {
	if b.b == nil {
		return func() {}
	}
	i := b.b.Isolate(b.d.now())
	b.d.deliver(nil)
	var released atomic.Bool
	return func() {
		if released.Swap(true) {
			return
		}
		b.b.Release(b.d.now(), i)
		b.d.deliver(nil)
	}
}

func (b Breaker) move(f func(*breaker.Breaker, clock.Instant)) {
	if b.b == nil {
		return
	}
	f(b.b, b.d.now())
	b.d.deliver(nil)
}
