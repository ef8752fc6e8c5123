package gabion

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/internal/machine"
	"github.com/gabion-go/gabion/policy"
)

// Attempt is one attempt that the caller holds by hand: its slot, its permit of
// the breaker, its context. It comes from [Begin] or [Open] and must be closed. Until
// its verdict it has the attempt's timeout, and from then on the limits of a result:
// see [Open]. It is safe for concurrent use.
type Attempt struct {
	ctx    context.Context // at, as work sees it
	at     *attemptContext
	gate   gate        // held round every verb of the machine, and round settled; gone once closed, if well
	closed atomic.Bool // by whoever set it, who then gives back

	settled bool
	well    bool         // the call succeeded before the attempt was handed out; never changes
	users   atomic.Int32 // of the gate: the holder until Close, and the watch while it rings
	watch   *watch
}

// live returns the attempt of a result that outlives its call.
func live(g gate, ctx context.Context, at *attemptContext, w *watch, well bool) *Attempt {
	a := &Attempt{gate: g, ctx: ctx, at: at, watch: w, settled: true, well: well}
	a.users.Store(1)
	r, t := g.machine()
	now := r.d.now()
	w.keep(now, a, r.call.Limits(now, t))
	return a
}

// take keeps the gate from being retired until drop. It reports false when it was.
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
	if a.users.Add(-1) == 0 && a.well {
		a.gate.retire()
		a.gate = nil
	}
}

// gate serialises the verbs of a machine and tells what they decided.
type gate interface {
	lock()
	unlock()
	machine() (*runner, *machine.Ticket)
	retire() // nobody will ask it for anything any more
}

// alone is the gate of a machine whose only attempt is held by hand.
type alone struct {
	mu     sync.Mutex
	run    runner
	ticket machine.Ticket
}

func (g *alone) machine() (*runner, *machine.Ticket) { return &g.run, &g.ticket }

func (g *alone) lock() { g.mu.Lock() }

func (g *alone) unlock() { g.run.tellAfter(&g.mu) }

func (g *alone) retire() {}

// tellAfter unlocks, and then tells the observer: no code of a user's runs under a
// lock.
func (r *runner) tellAfter(mu *sync.Mutex) {
	if r.log == nil {
		mu.Unlock()
		return
	}
	said := append([]Event(nil), r.log.Drain()...)
	mu.Unlock()
	for _, e := range said {
		r.tell(e)
	}
	r.d.deliver(r.ctx)
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
	if err := admissible(ctx, d, false); err != nil {
		return nil, err
	}
	g := new(alone)
	r := &g.run
	if err := prepare[struct{}](ctx, r, d, opts); err != nil {
		return nil, err
	}
	r.o.NoRetry = true
	now := r.begin()
	handed := false
	defer func() {
		if !handed {
			g.abandon()
		}
	}()
	for {
		step := r.call.Next(now)
		g.ticket = step.Ticket
		r.publish()
		switch step.Verb {
		case machine.Send:
			r.start(now, &g.ticket)
			a := &Attempt{gate: g}
			a.users.Store(1)
			a.at, a.ctx = r.context(&g.ticket, true)
			a.watch = r.d.timed(now, a.at)
			handed = true
			return a, nil
		case machine.Wait:
			now = r.pause(now, step.Again)
		case machine.Return:
			return nil, r.failure(nil)
		}
	}
}

// abandon ends a call that hands out no attempt: it was refused, or an observer left
// by runtime.Goexit.
func (g *alone) abandon() {
	defer g.run.finish()
	now := g.run.d.now()
	g.run.call.Cancel(now)
	g.run.call.Settle(now, g.ticket, policy.Outcome{Class: policy.ClassIgnored})
	g.run.publish()
}

// Context is what the attempt's work must use. It ends with Close, with the caller's
// own, and with the limit that is hit, which is its cause: the attempt's time before
// the verdict, [IdleTimeout] or [BodyTimeout] after it.
func (a *Attempt) Context() context.Context { return a.ctx }

// Settle gives the verdict: what err means is read by the dependency's
// classifier, nil being success. The attempt stays open until Close. It returns
// what Do would have returned. Only the first verdict counts; a later one is only
// answered, so that an error is never lost to an attempt that was closed meanwhile.
func (a *Attempt) Settle(err error) error {
	if a.well {
		return err
	}
	r, _ := a.gate.machine()
	now := r.d.now()
	var o policy.Outcome
	judge[any](r, nil, err, &o)
	return a.settleAt(now, o, err)
}

// SettleOutcome is Settle for callers who know what the outcome means.
func (a *Attempt) SettleOutcome(o policy.Outcome, err error) error {
	if a.well {
		return err
	}
	r, _ := a.gate.machine()
	return a.settleAt(r.d.now(), o, err)
}

func (a *Attempt) settleAt(now clock.Instant, o policy.Outcome, err error) error {
	r, _ := a.gate.machine()
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
	a.gate.lock()
	defer a.gate.unlock()
	r, t := a.gate.machine()
	if a.settled {
		return r.call.End(), false
	}
	a.settled = true
	if canceled {
		r.call.Cancel(now)
	}
	o.Open = true
	r.call.Settle(now, *t, o)
	a.watch.keep(now, a, r.call.Limits(now, t))
	for r.call.Next(now).Verb != machine.Return { // nothing is retried, so this is the end
		now = now.Add(1)
	}
	return r.call.End(), true
}

// Expect says that somebody waits for more of the result from now on, and Arrived
// that something came, or an end. If timeout.idle passes in between, the attempt's
// context ends, [IdleTimeout] being its cause, and the breaker hears of a failure. A
// result whose holder says neither may be silent for as long as it likes.
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
	a.watch.outlived(a)
	a.outlive()
}

func (a *Attempt) outlive() {
	r, t := a.gate.machine()
	a.gate.lock()
	defer a.gate.unlock()
	r.call.Outlive(r.d.now(), t)
}

// strike ends a result that ran into a limit. Waited says that somebody waited for
// more of it, so that the dependency is what was slow.
func (a *Attempt) strike(why policy.Reason, waited bool) {
	r, t := a.gate.machine()
	a.gate.lock()
	defer a.gate.unlock()
	r.call.Strike(r.d.now(), *t, why, waited)
	a.at.strike(why)
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
	r, t := a.gate.machine()
	broke := err != nil && r.ctx.Err() == nil
	defer a.watch.release()
	a.gate.lock()
	defer a.gate.unlock()
	now := r.d.now()
	if !a.settled {
		a.settled = true
		r.call.Cancel(now)
		r.call.Settle(now, *t, policy.Outcome{Class: policy.ClassIgnored, Effect: policy.UnknownEffect})
	} else {
		r.call.Release(now, *t, broke)
	}
	a.at.end()
	r.finish()
}
