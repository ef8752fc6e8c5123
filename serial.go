package gabion

import (
	"context"

	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/internal/machine"
	"github.com/gabion-go/gabion/policy"
)

// serial drives a call that has one attempt out at a time: no lock, no goroutine,
// and no timer unless the call waits.
func serial[T any](ctx context.Context, d *Dependency, opts []CallOption, work func(context.Context) (T, error)) (v T, had bool, err error) {
	var s sending[T]
	if err := prepare[T](ctx, &s.runner, d, opts); err != nil {
		return s.value, false, err
	}
	s.o.NoHedge = true // a reload may have come since the driver was chosen
	v, err = s.drive(work)
	return v, s.have && s.err == nil, err
}

func (s *sending[T]) drive(work func(context.Context) (T, error)) (T, error) {
	now := s.begin()
	defer s.leave()
	for {
		s.call.NextInto(now, &s.step)
		s.publish()
		switch s.step.Verb {
		case machine.Send:
			now = s.start(now, &s.step.Ticket)
			if now = s.send(now, work); s.call.Over() {
				return s.answer()
			}
		case machine.Wait:
			if s.have {
				s.supersede(now)
			}
			now = s.pause(now, s.step.Again)
		case machine.Return:
			return s.answer()
		}
	}
}

// sending is a serial call and what its last attempt brought home.
type sending[T any] struct {
	runner
	keep     bool // results outlive the call
	have     bool // value and err are an attempt's
	answered bool // the caller has what it called for
	value    T
	err      error
	step     machine.Step // its ticket is of the attempt that is out, or was last
	at       *attemptContext
	watch    *watch          // of at; only where results outlive the call
	seen     context.Context // at, as work sees it; only where results outlive the call
	home     policy.Outcome
}

// send runs one attempt.
func (s *sending[T]) send(now clock.Instant, work func(context.Context) (T, error)) (after clock.Instant) {
	if s.have {
		s.supersede(now)
	}
	at, seen := s.context(&s.step.Ticket, s.keep)
	s.at = at
	if s.keep {
		s.seen, s.watch = seen, s.d.timed(now, at)
	}
	s.value, s.err = work(seen)
	after = s.d.now() // what a classifier takes is not the dependency's
	s.have = true
	if s.keep {
		s.err = at.told(s.err)
	}
	judge(&s.runner, s.value, s.err, &s.home)
	s.settle(after)
	return after
}

func (s *sending[T]) settle(now clock.Instant) {
	s.home.Open = s.keep && s.err == nil
	if s.home.Open {
		s.watch.verdict()
	} else {
		s.endAttempt()
	}
	if s.home.Class != policy.ClassSuccess && s.canceled() {
		s.call.Cancel(now)
	}
	s.call.SettleFrom(now, &s.step.Ticket, &s.home)
	s.publish()
}

// endAttempt ends the context of the attempt that is out, or was last.
func (s *sending[T]) endAttempt() {
	s.at.end()
	if s.watch != nil {
		s.watch.release()
		s.watch = nil
	}
}

// supersede lets go of the result of an attempt that is about to be repeated. One
// that is open is released before the step has the next ticket: while a result is
// open, the machine says Wait.
func (s *sending[T]) supersede(now clock.Instant) {
	if s.keep && s.err == nil && s.step.Verb == machine.Wait {
		s.call.Release(now, s.step.Ticket, false)
	}
	s.lose()
}

// lose discards a result that nobody will see. Its context ends after that:
// draining a body needs it.
func (s *sending[T]) lose() {
	var lost T
	lost, s.value = s.value, lost
	had := s.have && s.err == nil
	if s.have = false; !had {
		return
	}
	if s.o.discard != nil {
		s.o.discard(lost)
	}
	s.endAttempt()
}

// open reports whether the result of an ended call lives on.
func (s *sending[T]) open() bool { return s.keep && s.have && s.err == nil }

// answer ends the call for its caller.
func (s *sending[T]) answer() (T, error) {
	err := s.failure(s.err)
	if !s.open() {
		s.finish()
		s.d.putLog(s.log)
	}
	s.answered = true
	return s.value, err
}

// leave ends a call that a user's code left by a panic or by Goexit: work, a
// classifier, Discard, an observer. What left goes on up; nothing stays behind.
func (s *sending[T]) leave() {
	if !s.answered {
		s.crash()
	}
}

func (s *sending[T]) crash() {
	defer s.crashed()
	o := policy.Outcome{Class: policy.ClassIgnored} // of work that never began
	if s.at != nil && s.at.number == s.step.Ticket.Attempt {
		o = policy.Outcome{Class: policy.ClassCrashed, Effect: policy.UnknownEffect}
	}
	if s.at != nil && !s.open() {
		s.endAttempt()
	}
	now := s.d.now()
	if s.gone() {
		s.call.Cancel(now)
	}
	s.call.Settle(now, s.step.Ticket, o)
	s.call.Cancel(now) // with nothing out, what was reserved for the retry goes back
	s.call.Release(now, s.step.Ticket, false)
	s.publish()
}

// crashed is the last of a call that somebody left, and also comes to its end if that
// happens again.
func (s *sending[T]) crashed() {
	defer s.d.putLog(s.log)
	defer s.finish()
	if s.at != nil {
		defer s.endAttempt()
	}
	s.lose()
}
