package idempotency

import "net/http"

// An ending is what a run that ended does to its record.
type ending uint8

const (
	completes ending = iota // Complete: the answer is kept
	releases                // Release: the next request runs
	abandons                // Abandon: nobody knows
	leaves                  // nothing: another holds the record, or will when the lease is over
)

// A Manner is how work ended. What it means for the record depends on the
// [Guarantee].
type Manner uint8

const (
	Succeeded Manner = iota // its effects stand: the result is kept
	Rejected                // it would end like this next time too: the result is kept, under Tx without effects
	Later                   // it asks to come back: kept under Hold unless NoEffect, else the next request runs
	Failed                  // it broke and has an answer that says so: as Later
	Lost                    // it broke and has no answer: under Hold nobody knows what it did, unless NoEffect; else the next request runs
	GivenUp                 // as Lost, and where the next request runs it may be another: for work that waits until it is asked otherwise
	fenced                  // its context was cancelled because the lease was lost
	manners
)

// mannerOf says how a handler ended by its answer. A panic and runtime.Goexit are
// Lost.
func mannerOf(status int, h lines) Manner {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return Later
	case http.StatusServiceUnavailable:
		if first(h.get("Retry-After")) != "" {
			return Later
		}
	}
	switch {
	case status >= 500:
		return Failed
	case status >= 400:
		return Rejected
	}
	return Succeeded
}

// endings says what a manner means under Hold and Reexecute, and under Hold when
// the handler said that nothing was done ([NoEffect]).
var endings = [manners]struct{ hold, holdNoEffect, reexecute ending }{
	Succeeded: {completes, completes, completes},
	Rejected:  {completes, completes, completes},
	Later:     {completes, releases, releases},
	Failed:    {completes, releases, releases},
	Lost:      {abandons, releases, releases},
	GivenUp:   {abandons, releases, releases},
	fenced:    {abandons, releases, leaves},
}

// unverified says what a manner comes to when the request's body was not verified:
// nothing that comes of such a body is kept as a success, or as an error that the body
// will meet again.
func (m Manner) unverified() Manner {
	switch m {
	case Succeeded:
		return Lost
	case Rejected:
		return Failed
	}
	return m
}

// broken says what a manner comes to when the handler wrote less than the length that it
// declared: as little as can be told of work that panicked, whatever its status was.
func (m Manner) broken() Manner {
	if m == fenced {
		return m
	}
	return Lost
}

// ending says what a manner does to the run's record, and whether that is free for
// another request then.
func (x *run) ending(m Manner, g Guarantee) (e ending, free bool) {
	e = m.ending(g, x.noEffect.Load())
	if m == Rejected && x.notKept.Load() {
		e = releases
	}
	return e, e == releases && (m == GivenUp || x.notKept.Load())
}

// verdict is the same for Tx. What is committed is kept.
func (x *run) verdict(m Manner) Verdict {
	v := m.verdict(x.commit.Load())
	if v == KeepResult && x.notKept.Load() {
		return Forget
	}
	return v
}

func (m Manner) ending(g Guarantee, noEffect bool) ending {
	switch {
	case g == Reexecute:
		return endings[m].reexecute
	case noEffect:
		return endings[m].holdNoEffect
	}
	return endings[m].hold
}

// verdict is the same for Tx: what was rolled back had no effect for certain. An
// error that will be the same next time is kept without the effects, unless the
// handler asked for them ([CommitError]).
func (m Manner) verdict(commitError bool) Verdict {
	switch {
	case m == Succeeded, m == Rejected && commitError:
		return CommitResult
	case m == Rejected:
		return KeepResult
	}
	return Forget
}
