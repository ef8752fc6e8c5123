package gabion

import (
	"context"

	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/internal/machine"
	"github.com/gabion-go/gabion/policy"
)

// sending drives a call that has one attempt out at a time. It needs no lock and no
// goroutine, and a timer only if the call waits.
type sending[T any] struct {
	runner
	trial[T]               // the attempt that is out, or was last
	answered bool          // the caller has its answer
	after    clock.Instant // when a first attempt returned that has succeeded plainly
}

// drive makes the call. Without work it returns when an attempt may begin, and the
// caller does the work itself.
func (s *sending[T]) drive(work func(context.Context) (T, error)) (T, error) {
	now := s.begin()
	defer s.leave()
	if s.call.SendPlain(now, &s.step.Ticket) {
		s.makeContext(s.ctx, &s.runner)
		if work == nil {
			s.listen()
			return s.hand()
		}
		now = s.run(&s.runner, work)
		if s.succeeds(now) {
			return s.value, s.err
		}
		s.listen()
		if s.conclude(now); s.call.Over() {
			return s.answer()
		}
	}
	s.listen()
	return s.loop(now, work)
}

// succeeds ends a call whose first attempt has succeeded plainly. A result that lives on may have more to tell to
// observers, and then the call needs its log.
func (s *sending[T]) succeeds(now clock.Instant) bool {
	if s.means.Class != policy.ClassSuccess || s.part != nil || s.at.is(noted) || s.keep && s.tallied {
		return false
	}
	s.lives(s.outlives(&s.runner))
	if !s.open {
		s.end()
	}
	if !s.call.SucceedPlain(now, &s.step.Ticket, &s.means) {
		return false
	}
	if s.tallied {
		s.tallyPlain(now, &s.step.Ticket)
	}
	if !s.open {
		s.finish()
	}
	s.answered, s.after = true, now
	return true
}

// loop goes on with a call that is not plain, or no longer.
func (s *sending[T]) loop(now clock.Instant, work func(context.Context) (T, error)) (T, error) {
	for {
		s.call.NextInto(now, &s.step)
		s.publish()
		switch s.step.Verb {
		case machine.Send:
			var parent context.Context
			now, parent = s.start(now, &s.step.Ticket)
			if s.have {
				s.supersede(now)
			}
			s.makeContext(parent, &s.runner)
			if work == nil {
				return s.hand()
			}
			now = s.run(&s.runner, work)
			if s.conclude(now); s.call.Over() {
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

// conclude settles the attempt that has run.
func (s *sending[T]) conclude(after clock.Instant) {
	canceled := s.returned(&s.runner)
	if canceled {
		s.call.Cancel(after)
	}
	s.settle(&s.runner, after, s.outlives(&s.runner))
	s.publish()
}

// hand leaves the attempt to the caller.
func (s *sending[T]) hand() (T, error) {
	s.answered = true
	return s.value, nil
}

// supersede discards the result of an attempt that is about to be repeated. The
// machine says Wait as long as a result is open, so step still has the ticket of that
// result when it is released.
func (s *sending[T]) supersede(now clock.Instant) {
	if s.step.Verb == machine.Wait {
		s.release(&s.runner, now)
	}
	s.lose(&s.runner)
}

// answer ends the call for its caller.
func (s *sending[T]) answer() (T, error) {
	err := s.failure(s.err)
	if !s.outlives(&s.runner) {
		s.finish()
		s.d.logs.giveBack(s.log)
	}
	s.answered = true
	return s.value, err
}

// leave gives back a call that a user's code left.
func (s *sending[T]) leave() {
	if !s.answered {
		s.left()
	}
}

func (s *sending[T]) left() {
	s.listen()
	defer s.d.logs.giveBack(s.log)
	defer s.finish()
	giveBack(nil, &s.runner, &s.trial, nil)
}

// opening is a serial call whose result may outlive it. The machine lives as long as the
// result.
type opening[T any] struct {
	gate // guards what follows, once the caller has the attempt
	sending[T]
}

// serialOpen makes such a call for a result that outlives the call.
func serialOpen[T any](ctx context.Context, d *Dependency, of *part, opts []CallOption, work func(context.Context) (T, error)) (T, *Attempt, error) {
	g, ok := d.spares.Get().(*opening[T])
	if !ok {
		g = new(opening[T])
	}
	g.ctx, g.d, g.part, g.keep = ctx, d, of, true
	if err := prepare[T](&g.runner, opts); err != nil {
		g.retire()
		var zero T
		return zero, nil, err
	}
	g.o.NoHedge = true // a reload may have come since the driver was chosen
	v, err := g.drive(work)
	if !g.outlives(&g.runner) {
		g.retire()
		return v, nil, err
	}
	now := g.after
	if now == 0 { // observers may have taken time
		now = d.now()
	}
	return v, live(g, g.seen, g.at, g.watch, g.call.Succeeded(), now), err
}

// parts implements holder.
func (g *opening[T]) parts() (*gate, *runner, *machine.Ticket) {
	return &g.gate, &g.runner, &g.step.Ticket
}

// retire implements holder. The memory is used for another call.
func (g *opening[T]) retire() {
	d := g.d
	*g = opening[T]{}
	d.spares.Put(g)
}
