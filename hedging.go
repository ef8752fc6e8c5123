package gabion

import (
	"slices"
	"time"

	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/internal/machine"
)

// This file is about the hedges of a racing call: the timer that is set for them, and the
// attempts on its goroutine.

// arm makes the timer fire when the next hedge may be due, while the caller is inside
// work. A caller that waits needs no timer for that.
func (x *racing[T]) arm(now, again clock.Instant) {
	x.askAt = clock.Never
	if again != clock.Never && x.run.call.Hedges() {
		x.askAt = again
		x.ring(now)
	}
}

// ring sets the timer for askAt, unless it fires before that anyway. The timer is not
// stopped when a call ends, so most calls find it set: setting and stopping a timer
// costs as much as the rest of a call that needs no hedge.
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

// due runs on the timer's goroutine. The timer may have been set for an earlier call, or
// fire while the caller is not inside work: then there is nothing to do.
func (x *racing[T]) due() {
	x.lock()
	x.rings = clock.Never
	if !x.inside || x.askAt == clock.Never {
		x.unlock(&x.run)
		return
	}
	if x.run.call.Keyed() && !x.used() {
		x.run.call.DropHedges()
	}
	now := x.run.d.now()
	step := x.run.call.Next(now) // too early changes nothing, and says when
	if step.Verb == machine.Return {
		step.Again = clock.Never
	}
	x.arm(now, step.Again)
	if step.Verb != machine.Send {
		x.unlock(&x.run)
		return
	}
	x.hedge(&trial[T]{step: step})
}

// used reports whether an attempt of the call has read its key. A hedge of work that did not
// would be the same work twice at once.
func (x *racing[T]) used() bool {
	return slices.ContainsFunc(x.live, func(a *attemptContext) bool { return a.is(used) })
}

// hedge makes an attempt on the timer's goroutine. It is called with the lock, and
// returns without it.
func (x *racing[T]) hedge(k *trial[T]) {
	settled := false
	defer func() {
		v := recover()
		switch {
		case !settled:
			x.caught(k, v)
		case v != nil: // of Discard
			x.caught(nil, v)
		}
	}()
	x.start(k)
	now := k.run(&x.run, x.work)
	canceled := k.returned(&x.run)
	settled = true
	x.settle(now, k, canceled)
	x.unlock(&x.run)
}

// caught gives back a call of which a user's code left the timer's goroutine. A panic there would
// end the process. So the caller's goroutine leaves in the same way, if it still waits. An attempt
// that comes after the end is dropped. K is nil if Discard panicked after the attempt was settled.
func (x *racing[T]) caught(k *trial[T], v any) {
	defer func() { _ = recover() }() // of Discard: the caller has a panic already
	defer x.waker.Wake()
	late := false
	defer func() {
		if late {
			x.run.d.reportLoser(v)
		}
	}()
	giveBack(&x.gate, &x.run, k, func() (*trial[T], []*attemptContext) {
		switch {
		case k != nil && x.run.call.Over():
			late = true
		case x.crash == nil:
			x.crash = &crash{v}
		}
		return nil, x.unkept() // the caller's goroutine gives back what was kept
	})
}

// stop stops the timer of a call that is not driven any more.
func (x *racing[T]) stop() {
	if x.timer != nil {
		x.timer.Stop()
	}
}
