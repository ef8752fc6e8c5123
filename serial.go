package gabion

import (
	"context"

	"github.com/gabion-go/gabion/clock"
	"github.com/gabion-go/gabion/policy"
)

// serial drives a call that has one attempt out at a time: no lock, no goroutine,
// and no timer unless the call waits.
func serial[T any](ctx context.Context, d *Dependency, opts []CallOption, work func(context.Context) (T, error), keep bool) (T, *Attempt, error) {
	var s sending[T]
	s.work, s.keep = work, keep
	if err := s.prepare(ctx, d, opts); err != nil {
		return s.value, nil, err
	}
	return s.drive()
}

func (s *sending[T]) drive() (T, *Attempt, error) {
	now := s.begin()
	for {
		s.call.NextInto(now, &s.step)
		s.publish()
		switch s.step.Verb {
		case policy.Send:
			now = s.send(now)
		case policy.Wait:
			s.supersede(now, nil)
			now = s.pause(now, s.step.Again)
		case policy.Return:
			return s.answer()
		}
	}
}

// sending is a serial call and what its last attempt brought home.
type sending[T any] struct {
	runner
	work   func(context.Context) (T, error)
	keep   bool // results outlive the call
	have   bool // value and err are an attempt's
	value  T
	err    error
	step   policy.Step
	ticket policy.Ticket // of the attempt that is out, or was last
	at     *attemptContext
}

// send runs one attempt. Its deferred half runs also when work panics or leaves
// by Goexit: then the attempt settles as crashed and the panic goes on up.
func (s *sending[T]) send(now clock.Instant) (after clock.Instant) {
	s.supersede(now, &s.step.Ticket)
	s.ticket = s.step.Ticket
	s.at = s.context(&s.ticket)
	crashed := true
	defer func() {
		if crashed {
			s.crash()
		}
	}()
	s.value, s.err = s.work(s.at)
	s.have = true
	home := outcome(s.d, s.o.judge, s.value, s.err)
	crashed = false
	return s.home(home)
}

func (s *sending[T]) home(o policy.Outcome) clock.Instant {
	now := s.d.now()
	o.Open = s.keep && s.err == nil
	if !o.Open {
		s.at.end()
	}
	if o.Class != policy.Success && s.canceled() {
		s.call.Cancel(now)
	}
	s.call.Settle(now, s.ticket, o)
	s.publish()
	return now
}

// crash ends the call because a user's code left it: work, while an attempt is
// out, or Discard, also between two.
func (s *sending[T]) crash() {
	now := s.d.now()
	s.at.end()
	if s.canceled() {
		s.call.Cancel(now)
	}
	s.call.Settle(now, s.ticket, policy.Outcome{Class: policy.Crashed, Effect: policy.UnknownEffect})
	s.call.Cancel(now) // with nothing out, what was reserved for the retry goes back
	s.publish()
	s.finish()
	s.d.putLog(s.log)
}

// supersede lets go of the result of an attempt that is about to be repeated. The
// ticket of the one that repeats it, if it is out already, must come home too if
// Discard panics.
func (s *sending[T]) supersede(now clock.Instant, next *policy.Ticket) {
	if !s.have {
		return
	}
	s.have = false
	defer s.at.end() // after Discard: draining a body needs its context
	if s.keep && s.err == nil {
		s.call.Release(now, s.ticket, false)
	}
	if next != nil {
		s.ticket = *next
	}
	var lost T
	lost, s.value = s.value, lost
	if s.err == nil && s.o.discard != nil {
		s.discard(lost)
	}
}

func (s *sending[T]) discard(lost T) {
	crashed := true
	defer func() {
		if crashed {
			s.crash()
		}
	}()
	s.o.discard(lost)
	crashed = false
}

// answer ends the call for its caller.
func (s *sending[T]) answer() (T, *Attempt, error) {
	err := s.failure(s.err)
	if s.keep && s.have && s.err == nil {
		return s.value, s.opened(s.at, s.ticket), err
	}
	s.finish()
	s.d.putLog(s.log)
	return s.value, nil, err
}
