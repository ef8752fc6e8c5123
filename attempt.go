package gabion

import (
	"context"
	"sync"

	"github.com/gabion-go/gabion/classify"
	"github.com/gabion-go/gabion/policy"
)

// Attempt is one attempt that the caller holds by hand: its slot, its permit of
// the breaker, its timeout. It comes from [Begin] or [Open] and must be closed. It
// is safe for concurrent use.
type Attempt struct {
	ctx  context.Context // at, as work sees it
	at   *attemptContext
	gate gate // held round every verb of the machine, and round the fields below

	run     *runner
	ticket  policy.Ticket
	settled bool
	closed  bool
}

// gate serialises the verbs of a machine and tells what they decided.
type gate interface {
	lock()
	unlock()
}

// alone is the gate of a machine whose only attempt is held by hand.
type alone struct {
	mu      sync.Mutex
	run     runner
	attempt Attempt
}

func (g *alone) lock() { g.mu.Lock() }

// unlock tells the observer once the lock is gone: no code of a user's runs under
// it.
func (g *alone) unlock() {
	r := &g.run
	if r.log == nil {
		g.mu.Unlock()
		return
	}
	said := append([]Event(nil), r.log.Drain()...)
	g.mu.Unlock()
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
	for {
		step := r.call.Next(now)
		r.publish()
		switch step.Verb {
		case policy.Send:
			g.attempt = Attempt{gate: g, run: r, ticket: step.Ticket}
			g.attempt.at, g.attempt.ctx = r.context(&step.Ticket)
			return &g.attempt, nil
		case policy.Wait:
			now = r.pause(now, step.Again)
		case policy.Return:
			r.finish()
			return nil, r.failure(nil)
		}
	}
}

// opened hands an attempt whose verdict is given to the caller.
func (r *runner) opened(at *attemptContext, seen context.Context, t policy.Ticket) *Attempt {
	g := &alone{run: *r}
	g.attempt = Attempt{gate: g, run: &g.run, ctx: seen, at: at, ticket: t, settled: true}
	return &g.attempt
}

// Context is what the attempt's work must use. It ends with the attempt.
func (a *Attempt) Context() context.Context { return a.ctx }

// Settle gives the verdict: what err means is read by the dependency's
// classifier, nil being success. The attempt stays open until Close. It returns
// what Do would have returned. Only the first verdict counts; a later one is only
// answered, so that an error is never lost to an attempt that was closed meanwhile.
func (a *Attempt) Settle(err error) error {
	o := policy.Outcome{}
	switch {
	case a.run.o.judge != nil:
		o = a.run.o.judge(nil, err)
	case a.run.d.judge != nil:
		o = a.run.d.judge(nil, err)
	case err != nil:
		o = classify.Error(err)
	}
	return a.SettleOutcome(o, err)
}

// SettleOutcome is Settle for callers who know what the outcome means.
func (a *Attempt) SettleOutcome(o policy.Outcome, err error) error {
	a.gate.lock()
	defer a.gate.unlock()
	if a.settled {
		if err == nil {
			return nil
		}
		return a.run.failure(err)
	}
	a.settled = true
	r := a.run
	now := r.d.now()
	if o.Class != policy.Success && r.canceled() {
		r.call.Cancel(now)
	}
	o.Open = true
	r.call.Settle(now, a.ticket, o)
	for r.call.Next(now).Verb != policy.Return { // nothing is retried, so this is the end
		now = now.Add(1)
	}
	return r.failure(err)
}

// Close ends the attempt: slot, timeout and context go. If err is not nil the
// result broke after its verdict, as a body that fails midway does, and the
// breaker hears of one more failure, unless the caller gave up itself. Closing
// what was never settled says nothing about the dependency. Closing twice is
// harmless.
func (a *Attempt) Close(err error) {
	a.gate.lock()
	defer a.gate.unlock()
	if a.closed {
		return
	}
	a.closed = true
	r := a.run
	now := r.d.now()
	if !a.settled {
		a.settled = true
		r.call.Cancel(now)
		r.call.Settle(now, a.ticket, policy.Outcome{Class: policy.Ignored, Effect: policy.UnknownEffect})
	} else {
		r.call.Release(now, a.ticket, err != nil && !r.canceled())
	}
	a.at.end()
	r.finish()
}
