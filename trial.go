package gabion

import (
	"context"
	"runtime"

	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/internal/machine"
	"github.com/gabion-go/gabion/policy"
)

// trial is one attempt that a driver makes, and what it returned.
type trial[T any] struct {
	step  machine.Step    // its ticket is the attempt's
	at    *attemptContext // nil until work begins
	seen  context.Context // at, as work sees it
	watch *watch          // of at; only where results outlive the call
	have  bool            // work has returned, and value was not discarded
	open  bool            // the result lives on after its verdict
	value T
	err   error
	means policy.Outcome
}

// makeContext makes the attempt's context, right before the work begins.
func (k *trial[T]) makeContext(parent context.Context, r *runner) {
	k.at, k.seen = r.context(parent, &k.step.Ticket)
}

// run runs work, and reads what it returned.
func (k *trial[T]) run(r *runner, work func(context.Context) (T, error)) (after clock.Instant) {
	if r.keep {
		k.watch = k.at.timed(k.step.Ticket.Sent)
	}
	k.value, k.err = work(k.seen)
	after = r.d.now() // the time that a classifier takes is not the dependency's
	k.have = true
	k.classify(r)
	return after
}

// classify says what the work has returned means.
func (k *trial[T]) classify(r *runner) {
	if r.keep {
		k.err = k.at.told(k.err)
	}
	if k.err == nil && r.o.judge == nil && r.d.judge == nil { // as byDefault says, for nearly all
		k.means = policy.Outcome{Class: policy.ClassSuccess}
		return
	}
	judge(r.o.judge, r.d, k.value, k.err, &k.means)
}

// returned ends the attempt's context after run, unless the result may outlive the call. Canceled
// says that the attempt failed, and that the caller had given up by then.
func (k *trial[T]) returned(r *runner) (canceled bool) {
	if k.at.is(noted) {
		k.at.recall(k.value, &k.means)
	}
	canceled = k.means.Class != policy.ClassSuccess && r.canceled()
	if !k.outlives(r) {
		k.end()
	}
	return canceled
}

// outlives reports whether the result is one that may outlive the call.
func (k *trial[T]) outlives(r *runner) bool { return r.keep && k.have && k.err == nil }

// settle tells the machine what the attempt came to. Open says that its result lives on.
func (k *trial[T]) settle(r *runner, now clock.Instant, open bool) {
	k.lives(open)
	r.report(now, &k.step.Ticket, k.at, &k.means)
}

// lives says whether the result lives on after its verdict, which is given now.
func (k *trial[T]) lives(on bool) {
	k.open, k.means.Open = on, on
	if on {
		k.watch.verdict()
	}
}

// settleLeft tells the machine of an attempt that a user's code left, if it is still out.
func (k *trial[T]) settleLeft(r *runner, now clock.Instant) {
	if k == nil {
		return
	}
	o := policy.Outcome{Class: policy.ClassIgnored} // of work that never began
	if k.at != nil && k.at.number == k.step.Ticket.Attempt {
		o = policy.Outcome{Class: policy.ClassCrashed, Effect: policy.UnknownEffect}
	}
	r.report(now, &k.step.Ticket, k.at, &o)
}

// endLeft ends the context of an attempt that a user's code left. A result that is kept
// does that when it is discarded. K may be nil.
func (k *trial[T]) endLeft(r *runner) {
	if k != nil && !k.outlives(r) {
		k.end()
	}
}

// release gives back what the machine holds for a result that lives on. K may be nil.
func (k *trial[T]) release(r *runner, now clock.Instant) {
	if k != nil && k.open {
		r.call.Release(now, k.step.Ticket, false)
	}
}

// lose discards a result that no caller will see, if any. The attempt's context
// ends after that, since draining a body needs it. K may be nil.
func (k *trial[T]) lose(r *runner) {
	if k == nil || !k.have {
		return
	}
	var lost T
	lost, k.value, k.have = k.value, lost, false
	if k.err != nil {
		return
	}
	defer k.end()
	if r.o.discard != nil {
		r.o.discard(lost)
	}
}

// end ends the attempt's context, if it has one.
func (k *trial[T]) end() {
	if k.at == nil {
		return
	}
	k.at.end()
	if k.watch != nil {
		k.watch.release()
		k.watch = nil
	}
}

// crash is how a user's code left a timer's goroutine: by a panic with that value, or by
// runtime.Goexit if it is nil.
type crash struct{ value any }

// repeat makes the caller's goroutine leave in the same way.
func (c *crash) repeat() {
	if c.value == nil {
		runtime.Goexit()
	}
	panic(c.value)
}

// giveBack ends a call that a user's code left by a panic or by runtime.Goexit: work, a
// classifier, Discard, an observer, or the caller's context. Everything that the call
// holds is given back, also if Discard or an observer leaves again. The panic or Goexit
// then goes on.
//
// Every driver uses it. Mine is the last attempt of the goroutine that was left; nil means
// that it needs nothing. Rest, if not nil, is called under the lock. It returns the
// attempt whose result was kept for the caller, or nil, and the contexts of all attempts.
// These end without the lock, since that runs code of the caller's context.
func giveBack[T any](g *gate, r *runner, mine *trial[T], rest func() (kept *trial[T], live []*attemptContext)) {
	canceled, now := r.canceledSafely(), r.d.now()
	g.lock()
	if canceled {
		r.call.Cancel(now)
	}
	var kept *trial[T]
	var live []*attemptContext
	if rest != nil {
		kept, live = rest()
	}
	mine.settleLeft(r, now)
	r.call.Cancel(now) // with nothing out, what was reserved for the retry goes back
	mine.release(r, now)
	kept.release(r, now)
	defer kept.lose(r)
	defer mine.lose(r)
	defer endEach(live)
	defer mine.endLeft(r)
	g.unlock(r)
}

// endEach ends all of them, also if the caller's context panics when one ends.
func endEach(all []*attemptContext) {
	if len(all) > 0 {
		defer endEach(all[1:])
		all[0].end()
	}
}
