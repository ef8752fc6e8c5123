package idempotency

import "net/http"

// An Outcome is how work ended. What it means for the record depends on the [Guarantee].
type Outcome uint8

const (
	// OutcomeUnknown: the work broke off and has no answer. Under Hold the record becomes
	// StateUnknown, unless the work called [NoEffect]; otherwise the next request runs.
	// The zero value.
	OutcomeUnknown Outcome = iota
	// OutcomeSucceeded: the effects stand, and the result is kept.
	OutcomeSucceeded
	// OutcomeRejected: the work would end like this again. The result is kept, under Tx
	// without effects unless the work called [CommitError].
	OutcomeRejected
	// OutcomeFailed: the work failed and has an answer that says so. Under Hold that is
	// kept, unless the work called [NoEffect]; otherwise the next request runs.
	OutcomeFailed
	// OutcomeGivenUp is as OutcomeUnknown, but where the next request runs it may be another:
	// for work that is over for good unless a caller asks otherwise.
	OutcomeGivenUp
	// OutcomeRefused is as OutcomeUnknown, but where the next request runs, this run does not
	// count as an attempt: for work that a dependency of it refused.
	OutcomeRefused
	// OutcomeAbandoned is for work that did not return and may go on: its effect is unknown
	// under Hold, also if it called [NoEffect]. Under Tx its transaction must be cut off, as
	// the work may still use it. Otherwise the next request runs, and may run beside it.
	OutcomeAbandoned

	fenced // its context was cancelled because the lease was lost
	outcomes
)

// outcomeOf says how a handler ended by the status of its answer. A panic and
// runtime.Goexit are OutcomeUnknown.
func outcomeOf(status int) Outcome {
	switch {
	case status == http.StatusRequestTimeout, status == http.StatusTooEarly, status == http.StatusTooManyRequests, status >= 500:
		return OutcomeFailed
	case status >= 400:
		return OutcomeRejected
	}
	return OutcomeSucceeded
}

// left says that a run's end leaves the record as it is: another holds it, or will when
// the lease is over.
const left = StateRunning

// endStates are the states of the record after an outcome, under Hold, under Hold when the
// work said that nothing was done ([NoEffect]), and under Reexecute.
var endStates = [outcomes]struct{ hold, holdNoEffect, reexecute State }{
	OutcomeUnknown:   {StateUnknown, StateRetryable, StateRetryable},
	OutcomeSucceeded: {StateDone, StateDone, StateDone},
	OutcomeRejected:  {StateDone, StateDone, StateDone},
	OutcomeFailed:    {StateDone, StateRetryable, StateRetryable},
	OutcomeGivenUp:   {StateUnknown, StateRetryable, StateRetryable},
	OutcomeRefused:   {StateUnknown, StateRetryable, StateRetryable},
	OutcomeAbandoned: {StateUnknown, StateUnknown, StateRetryable},
	fenced:           {StateUnknown, StateRetryable, left},
}

// unverified says what an outcome comes to when the request's body was not verified:
// nothing that comes of such a body is kept as a success, or as an error that the body
// will meet again.
func (o Outcome) unverified() Outcome {
	switch o {
	case OutcomeSucceeded:
		return OutcomeUnknown
	case OutcomeRejected:
		return OutcomeFailed
	}
	return o
}

// broken says what an outcome comes to when the handler wrote less than the length that it
// declared: that is as little an answer as a panic.
func (o Outcome) broken() Outcome {
	if o == fenced {
		return o
	}
	return OutcomeUnknown
}

// Ends returns the change that ends a run that came out like this, without a result. NoEffect
// says that the work said so ([NoEffect]). A change with StateRunning changes nothing: the
// record is another run's.
func (o Outcome) Ends(g Guarantee, noEffect bool) Change {
	if o >= outcomes {
		o = OutcomeUnknown
	}
	states := &endStates[o]
	var to State
	switch {
	case g == GuaranteeReexecute:
		to = states.reexecute
	case noEffect:
		to = states.holdNoEffect
	default:
		to = states.hold
	}
	again := to == StateRetryable
	return Change{State: to, Free: again && o == OutcomeGivenUp, Unrun: again && o == OutcomeRefused}
}

// ends returns the change that ends a run, without a result. With the state left alone, the
// record does not change.
func (x *run) ends(o Outcome, g Guarantee) Change {
	c := o.Ends(g, x.noEffect.Load())
	if x.notKept.Load() {
		if o == OutcomeRejected {
			c.State = StateRetryable
		}
		c.Free = c.State == StateRetryable
	}
	return c
}

// endsTx says which of four a [TxStore] does: OutcomeSucceeded, OutcomeRejected,
// OutcomeFailed or OutcomeAbandoned. What was rolled back had no effect for certain.
func (x *run) endsTx(o Outcome) Outcome {
	switch {
	case o == OutcomeSucceeded, o == OutcomeRejected && x.commit.Load():
		return OutcomeSucceeded
	case o == OutcomeRejected && !x.notKept.Load():
		return OutcomeRejected
	case o == OutcomeAbandoned:
		return o
	}
	return OutcomeFailed
}
