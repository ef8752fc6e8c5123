package gabion

import (
	"context"
	"sync/atomic"

	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/internal/machine"
	"github.com/gabion-go/gabion/policy"
)

// Attempt is one attempt that the caller has in hand: its slot, its permit of the breaker
// and its context. It comes from [Begin] or [Open] and must be closed. Until its verdict
// it has the attempt's timeout, and after that the limits of a result: see [Open]. It is
// safe for concurrent use.
type Attempt struct {
	ctx    context.Context // at, as work sees it
	at     *attemptContext
	holder holder      // its gate guards the machine and settled; nil once it is retired
	closed atomic.Bool // the goroutine that sets it gives back

	settled bool
	partial bool         // it is part of another attempt; never changes
	well    bool         // the call succeeded before the caller got the attempt; never changes
	users   atomic.Int32 // of the holder: the caller until Close, and the watch while its timer runs
	watch   *watch
}

// live returns the attempt of a result that outlives its call from now on.
func live(g holder, ctx context.Context, at *attemptContext, w *watch, well bool, now clock.Instant) *Attempt {
	var a *Attempt
	if o, ok := ctx.(*openContext); ok {
		a = &o.attempt
	} else {
		a = new(Attempt)
	}
	a.holder, a.ctx, a.at, a.watch, a.settled, a.well = g, ctx, at, w, true, well
	a.users.Store(1)
	_, r, t := g.parts()
	a.partial = r.part != nil
	w.keep(now, a, r.call.Limits(now, t))
	return a
}

// take keeps the holder from being retired until drop. It reports false if it was.
func (a *Attempt) take() bool {
	for {
		n := a.users.Load()
		if n == 0 {
			return false
		}
		if a.users.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

func (a *Attempt) drop() {
	well := a.well // read before: after the last user, an attempt of Begin serves another call
	if a.users.Add(-1) == 0 && well {
		a.holder.retire()
		a.holder = nil
	}
}

// Begin asks every layer of d to admit one attempt, waiting where the policy says
// so, for work that does not fit into a function. It does not retry. The attempt
// must be closed, and its work must use its context:
//
//	a, err := gabion.Begin(ctx, payments)
//	if err != nil {
//		return err
//	}
//	defer a.Close(nil)
//	err = a.Settle(work(a.Context()))
func Begin(ctx context.Context, d *Dependency, opts ...CallOption) (*Attempt, error) {
	if mistaken(ctx, d) || ctx.Err() != nil {
		return nil, inadmissible(ctx, d, false)
	}
	g, ok := d.begun.Get().(*beginning)
	if !ok {
		g = new(beginning)
	}
	g.ctx, g.d, g.part, g.keep = ctx, d, partOf(d, attemptOf(ctx)), true
	if err := prepare[struct{}](&g.runner, opts); err != nil {
		return nil, err
	}
	g.o.NoRetry = true
	if _, err := g.drive(nil); err != nil {
		return nil, err
	}
	a := &g.attempt
	a.holder, a.ctx, a.at, a.watch = g, g.seen, g.at, g.at.timed(g.step.Ticket.Sent)
	a.partial = g.part != nil
	a.users.Store(1)
	return a, nil
}

// unspent says that the attempt's work had no need to run.
func (a *Attempt) unspent() {
	g, r, t := a.holder.parts()
	g.lock()
	defer g.unlock(r)
	r.call.Unspent(r.d.now(), t)
}

// A beginning is an opening with the attempt of which Begin hands out.
type beginning struct {
	opening[struct{}]
	attempt Attempt
}

// spare gives back the memory of an attempt of Begin that was closed. The attempt is not used any
// more; its context may live on. While the watch's timer runs the memory is left to the collector.
func (a *Attempt) spare() {
	g, ok := a.holder.(*beginning)
	if !ok || a.users.Load() != 0 {
		return
	}
	d := g.d
	d.logs.giveBack(g.log)
	*g = beginning{}
	d.begun.Put(g)
}

// Context is what the attempt's work must use. It ends with Close, with the caller's
// own, and with the limit that is hit, which is its cause: the attempt's time before
// the verdict, [policy.IdleTimeout] or [policy.BodyTimeout] after it.
func (a *Attempt) Context() context.Context { return a.ctx }

// Settle gives the verdict. The dependency's classifier says what err means; nil is a
// success. The attempt stays open until Close. Settle returns what Do would have
// returned. Only the first verdict counts: after that Settle returns the error, and
// changes nothing.
func (a *Attempt) Settle(err error) error {
	if a.well {
		return err
	}
	_, r, _ := a.holder.parts()
	now := r.d.now()
	var o policy.Outcome
	judge[any](r.o.judge, r.d, nil, err, &o)
	return a.settleAt(now, o, err)
}

// SettleOutcome is Settle for callers who know what the outcome means. One without a
// class is read by the error, as package classify does.
func (a *Attempt) SettleOutcome(o policy.Outcome, err error) error {
	if a.well {
		return err
	}
	_, r, _ := a.holder.parts()
	now := r.d.now()
	decide(r.d, err, &o)
	return a.settleAt(now, o, err)
}

func (a *Attempt) settleAt(now clock.Instant, o policy.Outcome, err error) error {
	_, r, _ := a.holder.parts()
	if a.at.is(noted) {
		a.at.recall(nil, &o)
	}
	err = a.at.told(err)
	verdict, first := a.settle(now, o, o.Class != policy.ClassSuccess && r.canceled())
	if !first && err == nil {
		return nil
	}
	return r.failed(verdict, err)
}

// settle gives the first verdict. Canceled says that the caller gave up: its context
// is not asked under the lock, since it may be of a user's making.
func (a *Attempt) settle(now clock.Instant, o policy.Outcome, canceled bool) (v machine.End, first bool) {
	g, r, t := a.holder.parts()
	g.lock()
	defer g.unlock(r)
	if a.settled {
		return r.call.End(), false
	}
	a.settled = true
	if canceled {
		r.call.Cancel(now)
	}
	o.Open = true
	r.report(now, t, a.at, &o)
	a.watch.keep(now, a, r.call.Limits(now, t))
	for r.call.Next(now).Verb != machine.Return { // nothing is retried, so this is the end
		now = now.Add(1)
	}
	return r.call.End(), true
}

// Expect says that the caller waits for more of the result from now on. Arrived says that something
// arrived, or that the result ended. If timeout.idle passes in between, the attempt's context ends
// with the cause [policy.IdleTimeout], and the breaker counts a failure. Without Expect a result
// may be silent for any time.
func (a *Attempt) Expect() { a.watch.expect(a) }

// Arrived ends what Expect began.
func (a *Attempt) Arrived() { a.watch.arrived(a) }

// Outlive gives the attempt's slot back before its time is over. It is for results
// that are known to last, such as event streams and connections that were upgraded.
// It does nothing before the verdict, and nothing the second time.
func (a *Attempt) Outlive() {
	if !a.take() {
		return
	}
	defer a.drop()
	a.outlive()
}

// holdSlot keeps the slot until Close, and the limits of results away.
func (a *Attempt) holdSlot() {
	if !a.take() {
		return
	}
	defer a.drop()
	a.watch.hold(a)
}

func (a *Attempt) outlive() {
	g, r, t := a.holder.parts()
	g.lock()
	defer g.unlock(r)
	r.call.Outlive(r.d.now(), t)
}

// strike ends a result that ran into a limit. Waited says that the caller waited for more of it, so
// that the dependency is what was slow.
func (a *Attempt) strike(why policy.Reason, waited bool) {
	g, r, t := a.holder.parts()
	defer a.at.strike(why) // without the lock, for it runs code of the caller's context
	g.lock()
	defer g.unlock(r)
	r.call.Strike(r.d.now(), *t, why, waited)
}

// Close ends the attempt: slot and context go. If err is not nil the result broke
// after its verdict, as a body does that fails midway, and the attempt is a failure to
// the breaker, unless the caller's own context ended. Closing what was never settled
// says nothing about the dependency. Closing twice is harmless.
func (a *Attempt) Close(err error) {
	if a.closed.Swap(true) {
		return
	}
	defer a.drop()
	a.giveBack(err)
}

func (a *Attempt) giveBack(err error) {
	g, r, t := a.holder.parts()
	broke := err != nil && r.wanted()
	defer a.watch.release()
	defer a.at.end() // without the lock, for it runs code of the caller's context
	g.lock()
	defer g.unlock(r)
	now := r.d.now()
	if !a.settled {
		a.settled = true
		r.call.Cancel(now)
		r.report(now, t, a.at, &policy.Outcome{Class: policy.ClassIgnored, Effect: policy.UnknownEffect})
	} else {
		r.call.Release(now, *t, broke)
	}
	r.finish()
}
