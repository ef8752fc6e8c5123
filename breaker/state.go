package breaker

// State is what a breaker does with calls.
type State uint8

// The states of a breaker. Every other state than these is a bug.
const (
	Closed      State = iota // admits and counts
	Open                     // refuses until its time is over
	HalfOpen                 // admits a few probes and refuses the rest
	Disabled                 // admits everything and counts nothing
	ForcedOpen               // refuses until its end, if it has one, and counts nothing
	ObserveOnly              // admits and counts, says when it would have opened
	numStates
)

var stateText = [numStates]string{"closed", "open", "half_open", "disabled", "forced_open", "observe_only"}

// String returns the text that logs and docs use.
func (s State) String() string {
	if s < numStates {
		return stateText[s]
	}
	return "state(unknown)"
}

func (s State) refuses() bool { return s == Open || s == ForcedOpen }
func (s State) counts() bool  { return s == Closed || s == ObserveOnly }

// Verdict is what a call that came home says about the dependency.
type Verdict uint8

// What a call can say. Whether it was slow is decided here, from its permit.
const (
	Good    Verdict = iota // it worked
	Bad                    // it failed
	Neutral                // it says nothing: cancelled, crashed, lost a race, never sent
)

// Cause says why a breaker moved.
type Cause uint8

// Why a breaker moves. The first four are the rules of a closed breaker.
const (
	FailureRate  Cause = iota // too large a share of the calls failed
	SlowRate                  // too large a share of the calls was slow
	Failures                  // too many failures in the window
	Consecutive               // too many failures in a row
	ProbeFailed               // the probes' verdict is bad
	ProbesPassed              // the probes' verdict is good
	ProbeExpired              // a probe did not come home in time
	CooldownOver              // the open time is over
	CallsRefused              // so many calls were refused that one may probe
	Forced                    // by hand, to the state that the change names
	Isolated                  // by Isolate
	Released                  // the last isolation was released
	WasReset                  // by Reset
	numCauses
)

var causeText = [numCauses]string{
	"failure_rate", "slow_rate", "failures", "consecutive", "probe_failed", "probes_passed",
	"probe_expired", "cooldown_over", "calls_refused", "forced", "isolated", "released", "reset",
}

// String returns the text that logs and docs use.
func (c Cause) String() string {
	if c < numCauses {
		return causeText[c]
	}
	return "cause(unknown)"
}

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
		Closed:      only(WasReset),
		Open:        only(Forced),
		ForcedOpen:  only(Forced, Isolated),
		ObserveOnly: only(Forced),
	},
	ForcedOpen: {
		Closed:      only(WasReset, Released),
		HalfOpen:    only(CooldownOver, Forced),
		Disabled:    only(Forced, Released),
		ForcedOpen:  only(Forced, Isolated, Released),
		ObserveOnly: only(Forced, Released),
	},
	ObserveOnly: {
		Closed:      only(WasReset),
		Open:        only(Forced),
		Disabled:    only(Forced),
		ForcedOpen:  only(Forced, Isolated),
		ObserveOnly: only(FailureRate, SlowRate, Failures, Consecutive),
	},
}
