package gabion

import (
	"context"
	"time"

	"github.com/gabion-go/gabion/internal/adapter"
	"github.com/gabion-go/gabion/internal/breaker"
	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/internal/machine"
	"github.com/gabion-go/gabion/policy"
)

func init() {
	adapter.NoSlot, adapter.NoQueue, adapter.Inside = CallOption{set: setNoSlot}, CallOption{set: setNoQueue}, CallOption{set: setInside}
	adapter.NoEndpoint = CallOption{set: setNoEndpoint}
	adapter.Repeat, adapter.Strict = CallOption{set: setRepeat}, CallOption{set: setStrict}
	adapter.HoldSlot = func(a any) { a.(*Attempt).holdSlot() }
	adapter.Spare = func(a any) { a.(*Attempt).spare() }
	adapter.Unspent = func(a any) { a.(*Attempt).unspent() }
	adapter.IsPart = func(a any) bool { return a.(*Attempt).partial }
	adapter.Sends = sends
	adapter.Join = func(r any) bool { return r.(*Registry).joined.CompareAndSwap(false, true) }
	adapter.Leave = func(r any) { r.(*Registry).joined.Store(false) }
	adapter.Of = func(d any) adapter.Dependency { return adapted{d.(*Dependency)} }
}

// adapted is a dependency as adapters see it.
type adapted struct{ d *Dependency }

// PolicyInForce implements adapter.Dependency.
func (a adapted) PolicyInForce() *policy.Policy { return &a.d.state.Rules().Policy }

// Classifier implements adapter.Dependency.
func (a adapted) Classifier() any {
	if a.d.judge == nil {
		return nil
	}
	return a.d.judge.given()
}

// Resent implements adapter.Dependency.
func (a adapted) Resent(ctx context.Context, n int) {
	a.d.state.Resent(a.d.now(), n)
	a.d.deliver(ctx)
}

// Inside implements adapter.Dependency.
func (a adapted) Inside(ctx context.Context) bool { return attemptOf(ctx).around(a.d) != nil }

// Means implements adapter.Dependency.
func (a adapted) Means(err error) (o policy.Outcome) {
	if a.d.judge != nil {
		o = a.d.judge.read(nil, err)
	}
	decide(a.d, err, &o)
	return o
}

// Room implements adapter.Dependency.
func (a adapted) Room() (calls int, after time.Duration) { return a.d.state.Room(a.d.now()) }

// Slots implements adapter.Dependency.
func (a adapted) Slots() int { return a.d.state.Slots() }

// Redelivery implements adapter.Dependency.
func (a adapted) Redelivery(o *policy.Outcome, runs int, seed uint64) (wait time.Duration, why policy.Reason) {
	return machine.Redelivery(&a.d.state.Rules().Policy.Retry, o, runs, seed)
}

// PutOff implements adapter.Dependency.
func (a adapted) PutOff(times int, seed uint64) time.Duration {
	return machine.PutOff(&a.d.state.Rules().Policy.Retry, times, seed)
}

// PutOffRefused implements adapter.Dependency.
func (a adapted) PutOffRefused(seed uint64) time.Duration { return a.d.state.PutOffRefused(seed) }

// NewAddress implements adapter.Dependency.
func (a adapted) NewAddress(name string) adapter.Address {
	return address{a.d, a.d.state.NewAddress(name)}
}

// address is one of several addresses behind a dependency, as adapters see it.
type address struct {
	d  *Dependency
	of *machine.Address
}

// Shut implements adapter.Address.
func (a address) Shut() bool { return a.of.Shut(a.d.now()) }

// Enter implements adapter.Address.
func (a address) Enter() (v adapter.Visit, ok bool) {
	now := a.d.now()
	v.Began = time.Duration(now)
	v.Permit, ok = a.of.Enter(now)
	return v, ok
}

// Leave implements adapter.Address.
func (a address) Leave(v adapter.Visit, class policy.Class) {
	a.of.Leave(clock.Instant(v.Began), a.d.now(), v.Permit, class)
}

// Lease implements adapter.Dependency.
func (a adapted) Lease(l *adapter.Lease) {
	if l == nil {
		machine.Grant(a.d.state, a.d.now(), nil)
	} else {
		machine.Grant(a.d.state, a.d.now(), &machine.Lease{Until: a.d.instant(l.Until), Share: l.Share, Lost: l.Lost})
	}
	a.d.deliver(nil)
}

// Wants implements adapter.Dependency.
func (a adapted) Wants() machine.Wants { return machine.WantsOf(a.d.state, a.d.now()) }

// Doubt implements adapter.Dependency.
func (a adapted) Doubt(partition string, until time.Time) {
	if b := a.d.state.Breaker(partition); b != nil {
		breaker.Doubt(b, a.d.instant(until))
	}
}

// Memory implements adapter.Dependency.
func (a adapted) Memory() machine.Memory { return machine.MemoryOf(a.d.state, a.d.now()) }

// Remember implements adapter.Dependency.
func (a adapted) Remember(m *machine.Memory, until time.Time) {
	machine.Remember(a.d.state, a.d.now(), a.d.instant(until), m)
	a.d.deliver(nil)
}

// Spent implements adapter.Dependency.
func (a adapted) Spent(used []policy.Spend) []policy.Spend { return a.d.state.Spent(used) }

// Observed implements adapter.Dependency.
func (a adapted) Observed() bool { return a.d.observed() }

// Tell implements adapter.Dependency.
func (a adapted) Tell(ctx context.Context, e policy.Event) {
	e.At = a.d.now()
	a.d.publishBut(ctx, &e, 0)
}
