package sim

import (
	"time"

	"github.com/gabion-go/gabion/internal/machine"
	"github.com/gabion-go/gabion/policy"
)

// Recorded is a call that was recorded with what its attempts took and brought.
// Only the decisions about it are made anew: its service is not asked.
type Recorded struct {
	At      time.Duration
	Params  machine.Params // what it brought along; the run has its own Waker and Log
	Answers []Answer       // of each attempt in turn; the ones that are missing never came
}

// Answer is what an attempt took, until it was home, and brought.
type Answer struct {
	Took    time.Duration
	Never   bool // it did not come
	Outcome policy.Outcome
}

// recorded returns when the n-th call of a trace is made.
func (f *fleet) recorded(n int) (at time.Duration, ok bool) {
	switch {
	case n < len(f.Calls):
		return f.Calls[n].At, true
	case n < len(f.At):
		return f.At[n], true
	}
	return 0, false
}

// recorded returns what was recorded of the call that a job makes, or nil.
func (s *sim) recorded(j *job) *Recorded {
	if j.fleet < 0 || s.fleets[j.fleet].Calls == nil {
		return nil
	}
	return &s.fleets[j.fleet].Calls[j.id&(1<<fleetShift-1)-1]
}

// play sends an attempt of a recorded call, which ends as it was recorded.
func (s *sim) play(c *call, a *attempt) {
	if a.try > len(c.tape.Answers) || c.tape.Answers[a.try-1].Never {
		a.there = false
		s.arm(a)
		return
	}
	s.next(a, s.now.Add(c.tape.Answers[a.try-1].Took), evHome)
}

// brought is what the driver makes of an attempt that ended.
func (s *sim) brought(a *attempt) policy.Outcome {
	c := s.calls.at(a.call)
	e := &s.edges[a.edge]
	o := a.answer.outcome(a.after, &e.rules.Policy)
	switch {
	case c.tape != nil:
		o = c.tape.Answers[a.try-1].Outcome
	case e.repeats != nil:
		o = e.repeats.Of(a.answer.status(), o)
	case e.Blunt && o.Class != policy.ClassSuccess:
		o = withoutHints(o)
	}
	if c.tape == nil {
		hear(s, c, a, &o)
	}
	if c.log != nil && s.watch.Heard != nil {
		s.watch.Heard(c.id, c.edge, a.try, s.now.Sub(a.sent), o)
	}
	return o
}

// withoutHints is what a caller makes of a failure who reads nothing but that it is one.
func withoutHints(o policy.Outcome) policy.Outcome {
	if o.Class == policy.ClassThrottled {
		o.Class = policy.ClassServer
	}
	return policy.Outcome{Class: o.Class, Effect: policy.UnknownEffect, NeverSent: o.NeverSent, Code: o.Code}
}
