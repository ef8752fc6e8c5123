package gabion

import (
	"context"
	"sync"
	"time"

	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/internal/machine"
	"github.com/gabion-go/gabion/policy"
)

// racing drives a call that may have several attempts out. The first runs on the
// caller's goroutine; a timer's own goroutine runs a hedge, if one really starts.
// Whoever holds mu drives the machine; events are queued under it and told
// outside, so that they stay in order without a user's code under a lock.
type racing[T any] struct {
	waker waker

	mu    sync.Mutex    // guards what follows, from begin on
	timer *time.Timer   // its goroutine runs due
	rings clock.Instant // when it does; Never = it is not set
	round[T]
}

// round is one call of a racer.
type round[T any] struct {
	work func(context.Context) (T, error)
	keep bool // results outlive the call

	run    runner
	step   machine.Step  // the caller's
	askAt  clock.Instant // when to ask the machine for a hedge, while the caller is inside work; Never = no more
	inside bool          // the caller's goroutine is inside work
	left   bool          // the caller is gone
	live   []*attemptContext
	lives  [2]*attemptContext // what live begins with
	kept   *kept[T]           // what the attempt that settled last before the end brought; nil once nobody wants it
	err    error              // that attempt's
	own    [2]kept[T]         // for the caller's own attempts, which take turns with the one kept
	crash  *crash
	said   []Event
	told   bool // somebody is telling the observer
}

// kept is what one attempt brought home.
type kept[T any] struct {
	have   bool
	open   bool // it lives on after its verdict
	value  T
	err    error
	ticket machine.Ticket
	at     *attemptContext
	watch  *watch          // of at; only where results outlive the call
	seen   context.Context // at, as work sees it
	home   policy.Outcome
	crash  *crash // it left without a result, on another goroutine than the caller's
}

// end ends the attempt's context, for good.
func (k *kept[T]) end() {
	k.at.end()
	if k.watch != nil {
		k.watch.release()
		k.watch = nil
	}
}

// crash is how work on another goroutine than the caller's left without a result.
type crash struct {
	value  any
	goexit bool
}

// race drives a call. Had says that work returned the result that comes with the
// error as a good one, which whoever does not hand it on must discard.
func race[T any](ctx context.Context, d *Dependency, opts []CallOption, work func(context.Context) (T, error), keep bool) (v T, had bool, a *Attempt, err error) {
	x := racer[T](d)
	x.work, x.keep = work, keep
	if err := prepare[T](ctx, &x.run, d, opts); err != nil {
		return v, false, nil, err
	}
	x.lock()
	now := x.run.begin()
	x.run.wakeBy(x.waker)
	answered := false
	defer func() {
		if !answered { // else x may serve another call by now
			x.abandon()
		}
	}()
	for {
		x.run.call.NextInto(now, &x.step)
		switch x.step.Verb {
		case machine.Send:
			x.arm(now, x.step.Again)
			now = x.send(&x.step.Ticket, true)
		case machine.Wait:
			x.letGo(x.superseded(now), true)
			x.run.sleep(x.step.Again)
			canceled := x.run.canceled()
			x.lock()
			if now = x.run.d.now(); canceled {
				x.run.call.Cancel(now)
			}
		case machine.Return:
			return x.answer(&answered)
		}
	}
}

// racer returns one that a call before is done with, or a new one.
func racer[T any](d *Dependency) *racing[T] {
	x, ok := d.spares.Get().(*racing[T])
	if !ok {
		x = &racing[T]{waker: make(waker, 1), rings: clock.Never}
	}
	x.live = x.lives[:0]
	return x
}

// reusable reports whether only the caller's goroutine ever held something of this
// call. The timer may still ring, in another call or in none: it knows of none, and
// asks what is due by then.
func (x *racing[T]) reusable() bool {
	return (x.kept == nil || !x.kept.open) && x.run.log == nil && x.run.call.End().Attempts <= 1
}

// superseded takes the result that a retry is about to replace: its slot must be
// free before the retry asks for one.
func (x *racing[T]) superseded(now clock.Instant) *kept[T] {
	lost := x.kept
	if lost == nil || !lost.have || x.run.call.Out() > 0 || !x.run.call.Resting() {
		return nil
	}
	x.kept = nil
	if lost.open {
		x.run.call.Release(now, lost.ticket, false)
	}
	return lost
}

// arm sees to it that due runs when the next hedge may be due, while the caller is
// inside work. While the caller waits, it keeps the time itself.
func (x *racing[T]) arm(now, again clock.Instant) {
	x.askAt = clock.Never
	if again != clock.Never && x.run.call.Hedges() {
		x.askAt = again
		x.ring(now)
	}
}

// ring sets the timer, unless it rings before that anyway. So it is not stopped when
// a call ends, and most calls find it set by one before: to set and stop a timer
// takes as long as the rest of a call that needs no hedge.
func (x *racing[T]) ring(now clock.Instant) {
	if x.rings <= x.askAt {
		return
	}
	x.rings = x.askAt
	wait := max(x.askAt.Sub(now), 0)
	if x.timer == nil {
		x.timer = time.AfterFunc(wait, x.due)
		return
	}
	x.timer.Reset(wait)
}

// due runs on the timer's goroutine when a hedge may be due, or would have been in a
// call before. A caller that is not inside work keeps the time itself.
func (x *racing[T]) due() {
	x.lock()
	x.rings = clock.Never
	if x.left || !x.inside || x.askAt == clock.Never {
		x.unlock()
		return
	}
	now := x.run.d.now()
	step := x.run.call.Next(now) // too early changes nothing, and says when
	if step.Verb == machine.Return {
		step.Again = clock.Never
	}
	x.arm(now, step.Again)
	if step.Verb != machine.Send {
		x.unlock()
		return
	}
	x.send(&step.Ticket, false)
	x.unlock()
}

// send runs one attempt, on the caller's goroutine or on a timer's. It is called
// with the lock and returns with it, and gives it up in between. A panic or Goexit
// on a timer's goroutine is kept for the caller; on the caller's own it just rises.
func (x *racing[T]) send(t *machine.Ticket, inline bool) clock.Instant {
	k := x.next(inline)
	k.ticket = *t
	k.at, k.seen = x.run.context(t, x.keep)
	x.live = append(x.live, k.at)
	x.inside = x.inside || inline
	if x.left || x.run.call.Over() {
		k.at.end()
	}
	k.home = policy.Outcome{Class: policy.ClassIgnored} // of work that never began
	crashed := true
	defer func() {
		if !crashed {
			return
		}
		var v any
		if !inline {
			v = recover()
		}
		x.crashed(k, v, inline)
	}()
	x.depart(k)
	if x.keep {
		k.watch = x.run.d.timed(k.ticket.Sent, k.at)
	}
	k.home = policy.Outcome{Class: policy.ClassCrashed, Effect: policy.UnknownEffect}
	k.value, k.err = x.work(k.seen)
	now := x.run.d.now() // what a classifier takes is not the dependency's
	if x.keep {
		k.err = k.at.told(k.err)
	}
	var o policy.Outcome
	judge(&x.run, k.value, k.err, &o)
	canceled := o.Class != policy.ClassSuccess && x.run.canceled()
	k.have, k.home = true, o
	crashed = false
	return x.home(now, k, inline, canceled)
}

// depart unlocks for the work. What observers take before it is not the dependency's,
// nor does a hedge become due meanwhile.
func (x *racing[T]) depart(k *kept[T]) {
	if x.run.log == nil {
		x.unlock()
		return
	}
	x.askAt = clock.Never
	x.unlock()
	x.mu.Lock()
	defer x.mu.Unlock()
	now := x.run.d.now()
	again := x.run.call.Start(now, &k.ticket)
	k.at.deadline = k.ticket.Deadline
	if k.ticket.Final() {
		k.at.cause = policy.CallTimeout
	}
	x.arm(now, again)
}

// next returns where an attempt brings what it has. The caller's own attempts
// follow one another, so that two places are enough for them.
func (x *racing[T]) next(inline bool) *kept[T] {
	switch {
	case !inline:
		return new(kept[T])
	case x.kept == &x.own[0]:
		x.own[1] = kept[T]{}
		return &x.own[1]
	}
	x.own[0] = kept[T]{}
	return &x.own[0]
}

// crashed settles an attempt whose work left without a result. On a timer's
// goroutine the panic would end the process, so it was recovered there and the
// caller's goroutine panics with the same value.
func (x *racing[T]) crashed(k *kept[T], v any, inline bool) {
	if !inline {
		k.crash = &crash{value: v, goexit: v == nil}
	}
	x.home(x.run.d.now(), k, inline, x.run.gone())
	if inline || k.crash.goexit {
		x.unlock() // nobody is left on this goroutine to do it
	}
}

// home brings an attempt in and returns with the lock. The result settled last
// before the end is kept; the one that it replaces, and any that comes too late,
// is discarded. Canceled says that the caller gave up meanwhile.
func (x *racing[T]) home(now clock.Instant, k *kept[T], inline, canceled bool) clock.Instant {
	x.lock()
	c := &x.run.call
	if canceled {
		c.Cancel(now)
	}
	late := c.Over()
	k.open = x.keep && k.have && k.err == nil && !late
	k.home.Open = k.open
	c.SettleFrom(now, &k.ticket, &k.home)
	lost := k
	if !late {
		lost, x.kept, x.err = x.kept, k, k.err
		x.crash = k.crash // a crash ends the call, so there is no other
	}
	if lost != nil && lost.open {
		c.Release(now, lost.ticket, false)
	}
	x.settleOthers(now, inline)
	if k.open {
		k.watch.verdict()
	} else {
		k.end()
	}
	if !inline {
		x.run.waker.Wake()
	}
	if lost == nil && x.run.log == nil {
		return now
	}
	if lost != nil && !inline { // the caller may need the place while this is discarded
		copied := *lost
		lost = &copied
	}
	x.letGo(lost, inline)
	x.lock()
	return now
}

// letGo unlocks, and discards what nobody wants, also if an observer leaves when it
// is told.
func (x *racing[T]) letGo(lost *kept[T], inline bool) {
	defer x.discardSafely(lost, inline)
	x.unlock()
}

// discardSafely ends a panic of Discard on a timer's goroutine, where it would end
// the process.
func (x *racing[T]) discardSafely(lost *kept[T], inline bool) {
	if !inline {
		defer x.keepCrash()
	}
	x.discard(lost)
}

// keepCrash ends a panic of Discard on a timer's goroutine, where it would end the
// process, and keeps it for the caller if it is still there.
func (x *racing[T]) keepCrash() {
	v := recover()
	if v == nil {
		return
	}
	x.lock()
	if x.crash == nil {
		x.crash = &crash{value: v}
	}
	x.run.call.Cancel(x.run.d.now())
	x.endAll()
	x.unlock()
	x.run.waker.Wake()
}

// settleOthers ends the siblings of a call that is over; of one that goes on, it
// sees to it that the machine is asked again.
func (x *racing[T]) settleOthers(now clock.Instant, inline bool) {
	if inline {
		x.inside = false
	}
	if x.run.call.Over() {
		x.endAll()
		return
	}
	if x.inside {
		x.askAt = now
		x.ring(now)
	}
}

// endAll ends every attempt's context but that of a result that lives on.
func (x *racing[T]) endAll() {
	for _, a := range x.live {
		if x.kept == nil || !x.kept.open || a != x.kept.at {
			a.end()
		}
	}
}

// discard ends what nobody wants, after Discard: draining a body needs its context.
func (x *racing[T]) discard(k *kept[T]) {
	if k == nil {
		return
	}
	defer k.end()
	if k.have && k.err == nil && x.run.o.discard != nil {
		x.run.o.discard(k.value)
	}
}
