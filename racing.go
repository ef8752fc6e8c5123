package gabion

import (
	"context"
	"time"

	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/internal/machine"
	"github.com/gabion-go/gabion/policy"
)

// racing drives a call that may have several attempts out. The caller's goroutine makes
// the first attempt and the retries. A timer's goroutine makes a hedge that is due while
// the caller is inside work.
type racing[T any] struct {
	waker waker

	gate                // guards what follows, once the call has begun
	timer *time.Timer   // calls due
	rings clock.Instant // when timer fires; Never = it is not set
	round[T]
}

// round is the part of a racing that belongs to one call.
type round[T any] struct {
	work func(context.Context) (T, error)

	run    runner
	askAt  clock.Instant // when to ask the machine for a hedge, while the caller is inside work; Never = no more
	inside bool          // the caller's goroutine is inside work
	live   []*attemptContext
	lives  [2]*attemptContext // the first array of live
	own    [2]trial[T]        // for the caller's attempts: one runs while the other is kept
	mine   *trial[T]          // the caller's attempt that is out, or was last
	kept   *trial[T]          // the attempt that was settled last before the end; nil once its result is not wanted
	err    error              // of the attempt that was settled last before the end
	crash  *crash
}

// race drives a call. Had says that v is a result that work returned without an error,
// also where the call failed.
func race[T any](ctx context.Context, d *Dependency, opts []CallOption, work func(context.Context) (T, error), keep bool) (v T, had bool, a *Attempt, err error) {
	x := racer[T](d)
	x.work = work
	x.run.ctx, x.run.d, x.run.keep = ctx, d, keep
	if err := prepare[T](&x.run, opts); err != nil {
		return v, false, nil, err
	}
	x.lock()
	now := x.run.begin()
	if x.run.tallied {
		x.run.listen()
		x.run.number() // here, since events and contexts are made by several goroutines
	}
	x.run.wakeBy(x.waker)
	answered := false
	defer func() {
		switch {
		case answered: // x may serve another call by now
		case x.outrun():
			crash := recover()
			d.reportLoser(crash)
			if crash != nil {
				v, had, a, err = x.passOver(&answered)
				return
			}
			fallthrough // runtime.Goexit can't be held up: the caller's goroutine ends
		default:
			x.leave()
		}
	}()
	for {
		k := x.place()
		x.run.call.NextInto(now, &k.step)
		switch k.step.Verb {
		case machine.Send:
			x.arm(now, k.step.Again)
			now = x.send(k)
		case machine.Wait:
			x.unlockAndLose(x.superseded(now))
			x.run.sleep(k.step.Again)
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

// outrun reports whether the caller's goroutine was inside work when another attempt had
// won the call already.
func (x *racing[T]) outrun() bool {
	x.lock()
	defer x.mu.Unlock()
	return x.inside && x.crash == nil && x.kept != nil && x.run.call.Succeeded()
}

// passOver returns the answer of the attempt that won a call, after work panicked on the
// caller's goroutine that had lost it.
func (x *racing[T]) passOver(answered *bool) (v T, had bool, a *Attempt, err error) {
	defer func() {
		if !*answered { // an observer left
			x.leave()
		}
	}()
	x.lock()
	x.mine.settleLeft(&x.run, x.run.d.now())
	return x.answer(answered)
}

// racer returns one that an earlier call has finished with, or a new one.
func racer[T any](d *Dependency) *racing[T] {
	x, ok := d.spares.Get().(*racing[T])
	if !ok {
		x = &racing[T]{waker: make(waker, 1), rings: clock.Never}
	}
	x.live = x.lives[:0]
	return x
}

// place returns the trial for the caller's next attempt. The caller makes one attempt
// after another, so two are enough.
func (x *racing[T]) place() *trial[T] {
	k := &x.own[0]
	if x.kept == k {
		k = &x.own[1]
	}
	if k.step.Verb == machine.Send { // it was used
		*k = trial[T]{}
	}
	return k
}

// superseded takes the result that a retry is about to replace. Its slot must be free
// before the retry asks for one.
func (x *racing[T]) superseded(now clock.Instant) *trial[T] {
	lost := x.kept
	if lost == nil || !lost.have || x.run.call.Out() > 0 || !x.run.call.Resting() {
		return nil
	}
	x.kept = nil
	lost.release(&x.run, now)
	return lost
}

// send makes an attempt on the caller's goroutine. It is called with the lock and
// returns with it, but does not hold it in between.
func (x *racing[T]) send(k *trial[T]) clock.Instant {
	x.mine, x.inside = k, true
	x.start(k)
	now := k.run(&x.run, x.work)
	x.settle(now, k, k.returned(&x.run))
	return now
}

// start makes the attempt's context, and unlocks for the work. The time that observers take before
// the work is not the dependency's, and no hedge becomes due in it.
func (x *racing[T]) start(k *trial[T]) {
	parent := x.run.told
	if x.run.log != nil {
		x.askAt = clock.Never
		to := machine.EndpointOf(&x.run.call, &k.step.Ticket)
		x.unlock(&x.run)
		parent, _ = x.run.trace(&k.step.Ticket, to)
		x.lock()
		now := x.run.d.now()
		x.arm(now, x.run.call.Start(now, &k.step.Ticket))
	}
	k.makeContext(parent, &x.run)
	x.live = append(x.live, k.at)
	if x.run.call.Over() {
		k.at.end()
	}
	x.mu.Unlock()
}

// settle takes back an attempt that has run, and returns with the lock. Its result is
// kept in place of the one before, which is discarded. A result that comes after the end
// is discarded itself. Canceled says that the caller has given up.
func (x *racing[T]) settle(now clock.Instant, k *trial[T], canceled bool) {
	x.lock()
	c := &x.run.call
	if canceled && !c.Over() {
		if c.Cancel(now); x.kept == nil {
			x.err = k.err // the call's error says what this attempt met
		}
	}
	late, inline := c.Over(), k == x.mine
	k.settle(&x.run, now, !late && k.outlives(&x.run))
	lost := k
	if !late {
		lost, x.kept, x.err = x.kept, k, k.err
	}
	if inline {
		x.inside = false
	} else {
		x.waker.Wake()
	}
	rest := x.settleOthers(now)
	if lost == nil && rest == nil && x.run.log == nil {
		return
	}
	if lost != nil {
		lost.release(&x.run, now)
		if !inline { // the caller may use its place while the result is discarded
			moved := *lost
			*lost = trial[T]{}
			lost = &moved
		}
	}
	x.unlockAndEnd(lost, rest)
	x.lock()
}

// unlockAndEnd unlocks and ends the attempts that are not wanted any more.
func (x *racing[T]) unlockAndEnd(lost *trial[T], rest []*attemptContext) {
	defer endEach(rest)
	x.unlockAndLose(lost)
}

// unlockAndLose discards a result that is not wanted, also if an observer ends the goroutine.
func (x *racing[T]) unlockAndLose(lost *trial[T]) {
	defer lost.lose(&x.run)
	x.unlock(&x.run)
}

// settleOthers returns the contexts of the attempts of a call that is over, to be ended
// without the lock. If the call goes on, it makes sure that the machine is asked again.
func (x *racing[T]) settleOthers(now clock.Instant) []*attemptContext {
	if x.run.call.Over() {
		return x.others()
	}
	if x.inside {
		x.askAt = now
		x.ring(now)
	}
	return nil
}

// others returns the contexts of all attempts but that of a result that lives on, if
// there is more than one attempt: one alone ends itself. It is called once the call is
// over, so none is added to them.
func (x *racing[T]) others() []*attemptContext {
	if len(x.live) < 2 {
		return nil
	}
	return x.unkept()
}

func (x *racing[T]) unkept() []*attemptContext {
	if x.kept == nil || !x.kept.open {
		return x.live
	}
	all := make([]*attemptContext, 0, len(x.live))
	for _, a := range x.live {
		if a != x.kept.at {
			all = append(all, a)
		}
	}
	return all
}

// leave gives back a call of which a user's code left the caller's goroutine.
func (x *racing[T]) leave() {
	defer x.run.finish()
	giveBack(&x.gate, &x.run, x.mine, func() (kept *trial[T], live []*attemptContext) {
		x.stop()
		live = x.unkept()
		kept, x.kept = x.kept, nil
		return kept, live
	})
}

// answer returns what the caller gets. It is called with the lock. Until answered is
// set, an observer or the caller's context may leave.
func (x *racing[T]) answer(answered *bool) (v T, had bool, _ *Attempt, err error) {
	if crash := x.crash; crash != nil {
		x.unlock(&x.run)
		crash.repeat()
	}
	if rest := x.others(); rest != nil { // the deadline may have ended the call, which ends no attempt
		x.mu.Unlock()
		endEach(rest)
		x.lock()
	}
	k, end := x.kept, x.run.call.End()
	if err = x.err; k != nil {
		v, had = k.value, k.have && err == nil
	}
	open := k != nil && k.open
	spare := !open && x.run.log == nil && end.Attempts <= 1 // no other goroutine has anything of this call
	if !spare {
		x.stop()
	}
	if !spare || end.Reason != policy.None {
		x.unlock(&x.run)
		err = x.run.failed(end, err)
		x.lock()
	}
	*answered = true
	if open {
		x.mu.Unlock()
		return v, had, live(x, k.seen, k.at, k.watch, end.Reason == policy.None, x.run.d.now()), err
	}
	x.run.finish()
	x.end(spare)
	return v, had, nil, err
}

// end unlocks, and keeps a racing that is spare for the next call. Its timer may still fire: due
// then looks at that call. A wake-up that was not received makes that call look once more.
func (x *racing[T]) end(spare bool) {
	d := x.run.d
	if spare {
		x.round = round[T]{}
	}
	x.mu.Unlock()
	if spare {
		d.spares.Put(x)
	}
}

// parts implements holder.
func (x *racing[T]) parts() (*gate, *runner, *machine.Ticket) {
	return &x.gate, &x.run, &x.kept.step.Ticket
}

// retire implements holder. Other attempts may still be out, so nothing is used again.
func (x *racing[T]) retire() {}
