package gabion

import (
	"context"

	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/internal/machine"
)

// plain drives a call as long as it is plain. It begins without options and without a classifier, it is part of no
// other call, and its observers tally if there are any. It has no more of the machine's call than its head, so
// there is little to set up. At the first thing that is not plain, sending goes on in its place.
type plain[T any] struct {
	call     machine.Short
	ticket   machine.Ticket
	ctx      context.Context
	d        *Dependency
	at       *attemptContext // nil until work begins
	began    clock.Instant
	deadline clock.Instant // the caller's own; zero means none
	heard    *audience     // nil without observers
	over     bool          // the caller has its answer, or sending goes on
}

// drive makes the call, under rules that are short.
func (p *plain[T]) drive(r *machine.Rules, work func(context.Context) (T, error)) (v T, had bool, err error) {
	d := p.d
	now := d.now()
	if now < 0 {
		return v, false, elsewhere(d)
	}
	if deadline, ok := p.ctx.Deadline(); ok {
		p.deadline = nonzero(d.instant(deadline))
	}
	p.began = now
	machine.BeginShort(&p.call, d.state, r, now, p.deadline, shardOf(&p.call, now))
	if d.tracked {
		arrive(d, now)
	}
	if !machine.SendShort(&p.call, &p.ticket) {
		return p.goOn(now, work, v, nil)
	}
	defer p.leave()
	p.at = new(attemptContext)
	p.at.set(p.ctx, d, &p.ticket)
	v, err = work(p.at)
	now = d.now()
	if err != nil || p.at.is(noted) {
		return p.goOn(now, work, v, err)
	}
	p.at.end()
	machine.SucceedShort(&p.call, now, &p.ticket)
	if p.heard != nil {
		p.tally(now)
	}
	if d.tracked {
		d.out.Add(-1)
	}
	p.over = true
	return v, true, nil
}

// goOn lets sending go on: the work has returned v and err, or nothing is sent yet.
func (p *plain[T]) goOn(now clock.Instant, work func(context.Context) (T, error), v T, err error) (T, bool, error) {
	var s sending[T]
	p.give(&s)
	defer s.leave()
	if s.at != nil {
		s.value, s.err, s.have = v, err, true
		s.classify(&s.runner)
		s.listen()
		if s.conclude(now); s.call.Over() {
			v, err = s.answer()
			return v, s.have && s.err == nil, err
		}
	}
	s.listen()
	v, err = s.loop(now, work)
	return v, s.have && s.err == nil, err
}

// leave gives back a call that a user's code left.
func (p *plain[T]) leave() {
	if p.over {
		return
	}
	var s sending[T]
	p.give(&s)
	s.left()
}

// give hands the call to s.
func (p *plain[T]) give(s *sending[T]) {
	p.over = true
	s.ctx, s.told, s.d, s.began = p.ctx, p.ctx, p.d, p.began
	s.o.Deadline, s.o.Shard, s.o.NoHedge, s.o.discard = p.deadline, p.call.Shard(), true, p.d.discard
	if p.heard != nil {
		s.skip, s.tallied = p.heard.skip, true
	}
	machine.Resume(&s.call, &p.call, p.at != nil)
	if p.at != nil {
		s.at, s.seen, s.step.Ticket = p.at, p.at, p.ticket
	}
}

// tally tells of the success of a plain call.
func (p *plain[T]) tally(now clock.Instant) {
	left, slow := machine.Plain(now, &p.call, &p.ticket)
	tally(p.ctx, p.d, &PlainSuccess{Dependency: p.d.name, Took: now.Sub(p.ticket.Sent), Left: left, Slow: slow, Shard: p.call.Shard()})
	p.d.deliver(p.ctx)
}
