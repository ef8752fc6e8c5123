package breaker

import "github.com/gabion-go/gabion/policy"

// State is what a breaker does with calls.
type State = policy.BreakerState

// The states of a breaker. Every other state than these is a bug.
const (
	Closed      = policy.StateClosed
	Open        = policy.StateOpen
	HalfOpen    = policy.StateHalfOpen
	Disabled    = policy.StateDisabled
	ForcedOpen  = policy.StateForcedOpen
	ObserveOnly = policy.StateObserveOnly

	numStates = ObserveOnly + 1
)

func refuses(s State) bool { return s == Open || s == ForcedOpen }
func counts(s State) bool  { return s == Closed || s == ObserveOnly }
func lapses(s State) bool  { return s == Disabled || s == ObserveOnly }

// Result is what the end of a call says about the dependency.
type Result uint8

// What a call can say. Whether it was slow is decided here, from its permit.
const (
	Good    Result = iota // it worked
	Bad                   // it failed
	Neutral               // it says nothing: cancelled, crashed, lost a race, never sent
)

// Cause says why a breaker moved.
type Cause = policy.BreakerCause

// Why a breaker moves. The first four are the rules of a closed breaker.
const (
	FailureRate  Cause = iota // too large a share of the calls failed
	SlowRate                  // too large a share of the calls was slow
	Failures                  // too many failures in the window
	Consecutive               // too many failures in a row
	ProbeFailed               // the probes failed
	ProbesPassed              // the probes succeeded
	ProbeExpired              // a probe did not end in time
	CooldownOver              // the open time is over
	CallsRefused              // enough calls were refused that one may probe
	Forced                    // by hand, to the state that the change names
	Isolated                  // by Isolate
	Released                  // the last isolation was released
	WasReset                  // by Reset
	OverrideOver              // the time is over for which it was disabled or made to observe, by hand
	numCauses
)

// Causes is a set of causes.
type Causes uint16

// Has reports whether c is in the set.
func (s Causes) Has(c Cause) bool { return s>>c&1 != 0 }

// first returns the cause that stands for the set: the first in order.
func (s Causes) first() Cause {
	for c := range numCauses {
		if s.Has(c) {
			return c
		}
	}
	return numCauses
}

func only(cs ...Cause) (s Causes) {
	for _, c := range cs {
		s |= 1 << c
	}
	return s
}

// moves are all the moves there are: from one state to another, and what may
// cause it. A move that is not here does not happen.
var moves = [numStates][numStates]Causes{
	Closed: {
		Closed:      only(WasReset),
		Open:        only(FailureRate, SlowRate, Failures, Consecutive, Forced),
		Disabled:    only(Forced),
		ForcedOpen:  only(Forced, Isolated),
		ObserveOnly: only(Forced),
	},
	Open: {
		Closed:      only(WasReset),
		HalfOpen:    only(CooldownOver, CallsRefused, Forced),
		Disabled:    only(Forced),
		ForcedOpen:  only(Forced, Isolated),
		ObserveOnly: only(Forced),
	},
	HalfOpen: {
		Closed:      only(ProbesPassed, ProbeExpired, WasReset),
		Open:        only(ProbeFailed, ProbeExpired, Forced),
		Disabled:    only(Forced),
		ForcedOpen:  only(Forced, Isolated),
		ObserveOnly: only(Forced),
	},
	Disabled: {
		Closed:      only(WasReset, OverrideOver),
		Open:        only(Forced),
		Disabled:    only(Forced),
		ForcedOpen:  only(Forced, Isolated),
		ObserveOnly: only(Forced, OverrideOver),
	},
	ForcedOpen: {
		Closed:      only(WasReset, Released),
		HalfOpen:    only(CooldownOver, Forced),
		Disabled:    only(Forced, Released),
		ForcedOpen:  only(Forced, Isolated, Released),
		ObserveOnly: only(Forced, Released),
	},
	ObserveOnly: {
		Closed:      only(WasReset, OverrideOver),
		Open:        only(Forced),
		Disabled:    only(Forced),
		ForcedOpen:  only(Forced, Isolated),
		ObserveOnly: only(FailureRate, SlowRate, Failures, Consecutive, Forced, OverrideOver),
	},
}
