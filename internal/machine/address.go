package machine

import (
	"time"

	"github.com/gabion-go/gabion/internal/breaker"
	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/policy"
)

// Address is what is known of one of several addresses behind a dependency, among which a
// balancer chooses for each attempt. Its breaker leaves the address out while it fails. The
// breaker of the dependency, or of the partition, still judges all addresses together. An
// Address is safe for concurrent use.
type Address struct {
	state   *State
	breaker *breaker.Breaker
}

// outlier are the rules by which an address is left out. They are stricter than those of a
// policy: the others take its attempts, so leaving one out costs little. Eight failures in a
// row are hardly ever chance below 40 % of errors. A whole dependency that fails as much takes
// all addresses out, and then none is.
var outlier = breaker.Rules{
	Window: 10 * time.Second, MinCalls: 20, FailureRate: 0.5, Consecutive: 8,
	Open: 2 * time.Second, OpenMax: 10 * time.Second, OpenGrowth: 2, OpenJitter: 0.1,
	Probes: 1, ProbeCalls: 1, CloseAfter: 1, ReopenAfter: 1, ProbeTimeout: 10 * time.Second,
}

// NewAddress makes an Address. Events of its breaker have the name as their partition.
func (s *State) NewAddress(name string) *Address {
	return newAddress(s, BoundedName(name), &outlier)
}

func newAddress(s *State, name string, rules *breaker.Rules) *Address {
	a := &Address{state: s}
	var log breaker.Log
	if s.box() != nil {
		log = partitionLog{s, name, rules}
	}
	a.breaker = breaker.New(rules, 1, s.draws.Add(1), log)
	return a
}

// off reports whether the policy has no breaker that may refuse.
func (a *Address) off() bool {
	r := a.state.rules.Load()
	return !r.guarded || r.Policy.Breaker.Observe
}

// Shut reports whether an attempt would not be let in now. It takes nothing.
func (a *Address) Shut(now clock.Instant) bool {
	if a.off() {
		return false
	}
	return a.breaker.State() == breaker.HalfOpen || a.shut(now) // one probe at a time, and it may fail
}

func (a *Address) shut(now clock.Instant) bool {
	_, shut := a.breaker.Shut(now)
	return shut
}

// Enter asks to send an attempt there. The permit goes to Leave.
func (a *Address) Enter(now clock.Instant) (breaker.Permit, bool) {
	if a.off() {
		return breaker.Permit{}, true
	}
	p, _, ok := a.breaker.Acquire(now, 0)
	return p, ok
}

// Leave says what an attempt brought that began then. That it took too long says nothing
// where it had hardly any time.
func (a *Address) Leave(began, now clock.Instant, p breaker.Permit, class policy.Class) {
	r := a.state.rules.Load()
	shows := r.shows(class)
	if class == policy.ClassTimeout && now.Sub(began) < r.due() {
		shows = breaker.Neutral
	}
	a.breaker.Settle(now, 0, p, shows, 0)
}
