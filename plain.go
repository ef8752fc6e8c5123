package gabion

import (
	"context"
	"time"

	"github.com/gabion-go/gabion/internal/adapter"
	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/internal/machine"
	"github.com/gabion-go/gabion/policy"
)

// plain drives a call as long as it is plain. It is part of no other call, its options are among plainOptions, and
// its observers tally if there are any. It has no more of the machine's call than its head, so there is little
// to set up. At the first thing that is not plain, sending goes on in its place.
type plain[T any] struct {
	call     machine.Short
	trial[T] // of its ticket, at is nil until work begins
	ctx      context.Context
	d        *Dependency
	heard    *audience     // nil without observers
	theirs   clock.Instant // the caller's own deadline; zero means none
	settled  bool          // it has succeeded, and holds nothing any more
	over     bool          // the caller has its answer, or sending goes on
}

// plainOptions are those that change nothing of how a plain call goes, but for its time and how it is read.
const plainOptions = 1<<setIdempotent | 1<<setNoRetry | 1<<setNoHedge | 1<<setStrict | 1<<setTimeout |
	1<<setPriority | 1<<setOperation | 1<<setJudge | 1<<setDiscard

// plainly reports whether a call with these options may begin as a plain one, and reads them into o.
func (o *callOptions) plainly(d *Dependency, opts []CallOption) bool {
	for i := range opts {
		if 1<<opts[i].set&plainOptions == 0 {
			return false
		}
	}
	o.discard = d.discard
	o.collect(opts)
	return o.Timeout == 0 || o.Timeout >= time.Microsecond
}

// readable reports whether the classifier of a call, or else that of its dependency, can read its results.
func readable[T any](by, orElse classifier) bool {
	if by == nil {
		by = orElse
	}
	return by == nil || reads[T](by)
}

// drive makes the call, under rules that are short. Without options o is nil. It is no field of p, since it would
// be moved to the heap.
func (p *plain[T]) drive(r *machine.Rules, o *callOptions, work func(context.Context) (T, error)) (v T, had bool, err error) {
	now := p.d.now()
	if now < 0 {
		return v, false, elsewhere(p.d)
	}
	if deadline, ok := p.ctx.Deadline(); ok {
		p.theirs = nonzero(p.d.instant(deadline))
	}
	if machine.BeginShort(&p.call, p.d.state, r, now, p.theirs, shardOf(&p.call, now)); o != nil {
		p.call.Declare(o.Safe, o.NoRetry, o.Timeout, p.theirs)
	}
	if p.d.tracked {
		arrive(p.d, now)
	}
	if !machine.SendShort(&p.call, &p.step.Ticket) {
		return p.goOn(now, o, work)
	}
	defer func() {
		if !p.over {
			p.leave(o)
		}
	}()
	p.at = new(attemptContext)
	p.at.set(p.ctx, p.d, &p.step.Ticket)
	p.value, p.err = work(p.at)
	now = p.d.now() // the time that a classifier takes is not the dependency's
	p.have = true
	switch {
	case o != nil:
		judge(o.judge, p.d, p.value, p.err, &p.means)
	case p.err != nil || p.d.judge != nil:
		byDependency(p.d, p.value, p.err, &p.means)
	default:
		p.means.Class = policy.ClassSuccess
	}
	if p.means.Class != policy.ClassSuccess || p.at.is(noted) {
		return p.goOn(now, o, work)
	}
	p.at.end()
	if !machine.SucceedShort(&p.call, now, &p.step.Ticket, &p.means) {
		return p.goOn(now, o, work)
	}
	p.settled = true
	if p.heard != nil {
		p.tally(now, o)
	}
	if p.d.tracked {
		p.d.out.Add(-1)
	}
	p.over = true
	return p.value, p.err == nil, p.err
}

// goOn lets sending go on: the attempt has ended, or nothing is sent yet.
func (p *plain[T]) goOn(now clock.Instant, o *callOptions, work func(context.Context) (T, error)) (v T, had bool, err error) {
	var s sending[T]
	p.give(&s, o)
	defer s.leave()
	s.listen()
	if s.have {
		if s.conclude(now); s.call.Over() {
			v, err = s.answer()
			return v, s.have && s.err == nil, err
		}
	}
	v, err = s.loop(now, work)
	return v, s.have && s.err == nil, err
}

// leave gives back a call that a user's code left. One that a Tallier or observer left
// has succeeded, and loses its result and no more.
func (p *plain[T]) leave(o *callOptions) {
	var s sending[T]
	if p.give(&s, o); !p.settled {
		s.left()
		return
	}
	defer s.finish()
	s.lose(&s.runner)
}

// give hands the call to s.
func (p *plain[T]) give(s *sending[T], o *callOptions) {
	p.over = true
	if s.o.discard = p.d.discard; o != nil {
		s.o = *o
	}
	s.ctx, s.told, s.d, s.began = p.ctx, p.ctx, p.d, p.call.Began()
	s.o.Deadline, s.o.Shard, s.o.NoHedge = p.theirs, p.call.Shard(), true
	if p.heard != nil {
		s.skip, s.tallied = p.heard.skip, true
	}
	machine.Resume(&s.call, &p.call, &s.o.Params, p.at != nil)
	if p.at != nil {
		s.trial = p.trial
		s.seen = p.at
	}
}

// tally tells of the success of a plain call.
func (p *plain[T]) tally(now clock.Instant, o *callOptions) {
	t := &p.step.Ticket
	said := adapter.PlainSuccess{Dependency: p.d.name, Took: now.Sub(t.Sent), Shard: p.call.Shard()}
	if said.Left, said.Slow = machine.Plain(now, &p.call, t); o != nil {
		said.Operation = o.operation
	}
	tally(p.ctx, p.d, &said)
	p.d.deliver(p.ctx)
}
