package gabion

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/gabion-go/gabion/classify"
	"github.com/gabion-go/gabion/clock"
	"github.com/gabion-go/gabion/policy"
)

// Attempt is one attempt that the caller holds by hand: its slot, its permit of
// the breaker, its timeout. It comes from [Begin] or [Open] and must be closed. It
// is safe for concurrent use.
type Attempt struct {
	ctx    context.Context // at, as work sees it
	at     *attemptContext
	gate   gate        // held round every verb of the machine, and round settled; gone once closed, if well
	closed atomic.Bool // by whoever set it, who then gives back

	settled bool
	well    bool // the call succeeded before the attempt was handed out; never changes
}

// gate serialises the verbs of a machine and tells what they decided.
type gate interface {
	lock()
	unlock()
	machine() (*runner, *policy.Ticket)
	retire() // nobody will ask it for anything any more
}

// alone is the gate of a machine whose only attempt is held by hand.
type alone struct {
	mu     sync.Mutex
	run    runner
	ticket policy.Ticket
}

func (g *alone) machine() (*runner, *policy.Ticket) { return &g.run, &g.ticket }

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
	if err := r.prepare(ctx, d, opts); err != nil {
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
		case policy.Send:
			r.start(now, &g.ticket)
			a := &Attempt{gate: g}
			a.at, a.ctx = r.context(&g.ticket)
			handed = true
			return a, nil
		case policy.Wait:
			now = r.pause(now, step.Again)
		case policy.Return:
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
	g.run.call.Settle(now, g.ticket, policy.Outcome{Class: policy.Ignored})
	g.run.publish()
}

// Context is what the attempt's work must use. It ends with the attempt.
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
	o := policy.Outcome{}
	switch {
	case r.o.judge != nil:
		o = r.o.judge(nil, err)
	case r.d.judge != nil:
		o = r.d.judge(nil, err)
	case err != nil:
		o = classify.Error(err)
	}
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
	verdict, first := a.settle(now, o, o.Class != policy.Success && r.canceled())
	if !first && err == nil {
		return nil
	}
	return r.failed(verdict, err)
}

// settle gives the first verdict. Canceled says that the caller gave up: its context
// is not asked under the lock, since it may be of a user's making.
func (a *Attempt) settle(now clock.Instant, o policy.Outcome, canceled bool) (v policy.Verdict, first bool) {
	a.gate.lock()
	defer a.gate.unlock()
	r, t := a.gate.machine()
	if a.settled {
		return r.call.Verdict(), false
	}
	a.settled = true
	if canceled {
		r.call.Cancel(now)
	}
	o.Open = true
	r.call.Settle(now, *t, o)
	for r.call.Next(now).Verb != policy.Return { // nothing is retried, so this is the end
		now = now.Add(1)
	}
	return r.call.Verdict(), true
}

// Close ends the attempt: slot, timeout and context go. If err is not nil the
// result broke after its verdict, as a body that fails midway does, and the
// breaker hears of one more failure, unless the caller gave up itself. Closing
// what was never settled says nothing about the dependency. Closing twice is
// harmless.
func (a *Attempt) Close(err error) {
	if a.closed.Swap(true) {
		return
	}
	a.giveBack(err)
	if a.well {
		a.gate.retire()
		a.gate = nil
	}
}

func (a *Attempt) giveBack(err error) {
	r, t := a.gate.machine()
	broke := err != nil && !r.canceled()
	a.gate.lock()
	defer a.gate.unlock()
	now := r.d.now()
	if !a.settled {
		a.settled = true
		r.call.Cancel(now)
		r.call.Settle(now, *t, policy.Outcome{Class: policy.Ignored, Effect: policy.UnknownEffect})
	} else {
		r.call.Release(now, *t, broke)
	}
	a.at.end()
	r.finish()
}
