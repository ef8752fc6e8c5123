package idempotency

import "net/http"

// An Ending is how work ended. What it means for the record depends on the [Guarantee].
type Ending uint8

const (
	// EndingUnknown: the work broke off and has no answer. Under Hold the record becomes
	// StateUnknown, unless the work called [NoEffect]; otherwise the next request runs.
	// The zero value.
	EndingUnknown Ending = iota
	// EndingSucceeded: the effects stand, and the result is kept.
	EndingSucceeded
	// EndingRejected: the work would end like this again. The result is kept, under Tx
	// without effects unless the work called [CommitError].
	EndingRejected
	// EndingFailed: the work failed and has an answer that says so. Under Hold that is
	// kept, unless the work called [NoEffect]; otherwise the next request runs.
	EndingFailed
	// EndingGivenUp is as EndingUnknown, but where the next request runs it may be another:
	// for work that is over for good unless a caller asks otherwise.
	EndingGivenUp
	// EndingRefused is as EndingUnknown, but where the next request runs, this run does not
	// count as an attempt: for work that a dependency of it refused.
	EndingRefused
	// EndingAbandoned is for work that did not return and may go on: its effect is unknown
	// under Hold, also if it called [NoEffect]. Under Tx its transaction must be cut off, as
	// the work may still use it. Otherwise the next request runs, and may run beside it.
	EndingAbandoned

	fenced // its context was cancelled because the lease was lost
	endings
)

// outcomeOf says how a handler ended by the status of its answer. A panic and
// runtime.Goexit are EndingUnknown.
func endingOf(status int) Ending {
	switch {
	case status == http.StatusRequestTimeout, status == http.StatusTooEarly, status == http.StatusTooManyRequests, status >= 500:
		return EndingFailed
	case status >= 400:
		return EndingRejected
	}
	return EndingSucceeded
}

// left says that a run's end leaves the record as it is: another holds it, or will when
// the lease is over.
const left = StateRunning

// endStates are the states of the record after an outcome, under Hold, under Hold when the
// work said that nothing was done ([NoEffect]), and under Reexecute.
var endStates = [endings]struct{ hold, holdNoEffect, reexecute State }{
	EndingUnknown:   {StateUnknown, StateRetryable, StateRetryable},
	EndingSucceeded: {StateDone, StateDone, StateDone},
	EndingRejected:  {StateDone, StateDone, StateDone},
	EndingFailed:    {StateDone, StateRetryable, StateRetryable},
	EndingGivenUp:   {StateUnknown, StateRetryable, StateRetryable},
	EndingRefused:   {StateUnknown, StateRetryable, StateRetryable},
	EndingAbandoned: {StateUnknown, StateUnknown, StateRetryable},
	fenced:          {StateUnknown, StateRetryable, left},
}

// unverified says what an outcome comes to when the request's body was not verified:
// nothing that comes of such a body is kept as a success, or as an error that the body
// will meet again.
func (o Ending) unverified() Ending {
	switch o {
	case EndingSucceeded:
		return EndingUnknown
	case EndingRejected:
		return EndingFailed
	}
	return o
}

// broken says what an outcome comes to when the handler wrote less than the length that it
// declared: that is as little an answer as a panic.
func (o Ending) broken() Ending {
	if o == fenced {
		return o
	}
	return EndingUnknown
}

// Ends returns the change that ends a run that came out like this, without a result. NoEffect
// says that the work said so ([NoEffect]). A change with StateRunning changes nothing: the
// record is another run's.
func (o Ending) Ends(g Guarantee, noEffect bool) Change {
	if o >= endings {
		o = EndingUnknown
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
	return Change{State: to, Free: again && o == EndingGivenUp, Unrun: again && o == EndingRefused}
}

// ends returns the change that ends a run, without a result. With the state left alone, the
// record does not change.
func (x *run) ends(o Ending, g Guarantee) Change {
	c := o.Ends(g, x.noEffect.Load())
	if x.notKept.Load() {
		if o == EndingRejected {
			c.State = StateRetryable
		}
		c.Free = c.State == StateRetryable
	}
	return c
}

// endsTx says which of four a [TxStore] does: EndingSucceeded, EndingRejected,
// EndingFailed or EndingAbandoned. What was rolled back had no effect for certain.
func (x *run) endsTx(o Ending) Ending {
	switch {
	case o == EndingSucceeded, o == EndingRejected && x.commit.Load():
		return EndingSucceeded
	case o == EndingRejected && !x.notKept.Load():
		return EndingRejected
	case o == EndingAbandoned:
		return o
	}
	return EndingFailed
}
