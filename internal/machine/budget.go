package machine

import (
	"time"

	"github.com/gabion-go/gabion/internal/budget"
	"github.com/gabion-go/gabion/internal/chance"
	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/policy"
)

// fund compiles the rules of the budget's shape.
func (r *Rules) fund(b policy.Budget) {
	ratio := float64(on(b.Ratio))
	switch b.Shape {
	case policy.BudgetEarned:
		r.earns, r.earned = true, budget.NewEarnedRules(ratio, b.Window, on(b.Reserve), on(b.Start))
	case policy.BudgetWindow:
		r.windowed, r.deposits, r.budget = true, true, budget.NewRules(ratio, float64(on(b.Floor)), b.Window)
	case policy.BudgetTokens:
		r.bucket, r.settles = true, true
		r.tokens = budget.NewBucketRules(b.Capacity, b.Cost, ratio)
	case policy.BudgetGRPC:
		r.bucket, r.settles = true, true
		r.tokens = budget.NewBucketRules(b.Capacity, 1, ratio)
	case policy.BudgetQuota:
		r.bucket, r.settles = true, true
		r.tokens = budget.NewBucketRules(b.Capacity, b.Cost, ratio)
		r.costs.cheap = budget.NewBucketRules(b.Capacity, b.ThrottledCost, ratio)
		r.costs.dear = budget.NewBucketRules(b.Capacity, b.TimeoutCost, ratio)
	case policy.BudgetShare:
		r.shares, r.deposits, r.settles = true, true, true
		r.share = budget.NewShareRules(ratio, on(b.MinInFlight))
	}
}

// costOf returns the rules by which a charge was paid.
func (r *Rules) costOf(charge things) budget.BucketRules {
	switch {
	case charge&aCheap != 0:
		return r.costs.cheap
	case charge&aDear != 0:
		return r.costs.dear
	}
	return r.tokens
}

// costAfter says which cost of a quota a retry after that failure has.
func costAfter(class policy.Class) things {
	switch class {
	case policy.ClassThrottled:
		return aCheap
	case policy.ClassTimeout:
		return aDear
	}
	return 0
}

// deposit counts a call, when its first attempt is sent.
func (c *Call) deposit(now clock.Instant) {
	if c.rules.shares {
		c.state.share().Begin(c.shard)
		return
	}
	if c.repeat { // its call has paid
		return
	}
	c.count(now)
}

// count counts a call for a budget that is a window.
func (c *Short) count(now clock.Instant) { c.state.window().Deposit(now, c.shard) }

// takeCharge reserves what the retry of the last failure costs, of the budget that it
// is for.
func (c *Call) takeCharge(now clock.Instant) (ok bool) {
	class := c.retry.failed.Class
	if class != policy.ClassContention {
		return c.takeResend(now, class)
	}
	if c.rules.Policy.Retry.Contention.Repeats < 0 {
		return true
	}
	if c.taken.charge, ok = c.state.contention().TryWithdraw(now, c.rules.repeats); ok {
		c.taken.has |= aCharge | aRepeat
	}
	return ok
}

// takeResend reserves one re-send of the budget, after a failure of that class.
func (c *Call) takeResend(now clock.Instant, after policy.Class) (ok bool) {
	r := budgetRules(c, now)
	b := &r.Policy.Retry.Budget
	if b.Off {
		return true
	}
	var cost things
	more := false // a whole one is left after it, as far as is known
	switch b.Shape {
	case policy.BudgetTokens:
		ok = c.state.tokens().TryWithdraw(r.tokens)
	case policy.BudgetGRPC:
		c.spend(false)
		return c.state.tokens().OverHalf(r.tokens) // the failure has paid
	case policy.BudgetQuota:
		cost = costAfter(after)
		ok = c.state.tokens().TryWithdraw(r.costOf(cost))
	case policy.BudgetShare:
		ok = c.state.share().TryWithdraw(r.share)
	case policy.BudgetWindow:
		c.taken.epoch = c.state.epoch()
		c.taken.charge, ok = c.state.window().TryWithdraw(now, r.budget)
		more = c.taken.charge.More()
	default:
		if c.repeat { // of many that ask again and again each would take a part of what is there
			ok = c.state.earned.TryWithdrawWhole(now, &r.earned)
			break
		}
		u := chance.U(c.draw(), 0, uint64(c.sent.n), chance.Budgeting)
		ok, more = c.state.earned.TryWithdraw(now, &r.earned, u)
	}
	c.spend(more)
	if ok {
		c.taken.has |= aCharge | cost
	}
	return ok
}

// spend notes for [State.affords] that the budget was asked for a re-send, unless it has more.
func (c *Call) spend(more bool) {
	if !more && c.rules.lasts && c.state.flags.Load()&spending == 0 {
		c.state.flags.Or(spending)
	}
}

// refund gives back a reservation that was not spent.
func (c *Call) refund(now clock.Instant, charge things) {
	if charge&aRepeat != 0 {
		c.state.contention().Refund(now, c.taken.charge)
		return
	}
	switch c.rules.Policy.Retry.Budget.Shape {
	case policy.BudgetTokens, policy.BudgetQuota:
		c.state.tokens().Refund(c.rules.costOf(charge))
	case policy.BudgetShare:
		c.state.share().Release()
	case policy.BudgetWindow:
		if c.taken.epoch == c.state.epoch() {
			c.state.window().Refund(now, c.taken.charge)
		}
	default:
		c.state.earned.Refund()
	}
}

// charged reports whether the budget has granted the attempt. That of conflicts has
// nothing to do with how attempts end.
func (t *Ticket) charged() bool { return t.charge&(aCharge|aRepeat) == aCharge }

// endCharge tells the budget what a re-send came to. One that succeeds pays for itself, unless it took a turn
// that another call then lacks: after an answer that asked for less, and while calls are spaced.
// A hedge that is quicker shows nothing: the first attempt may have succeeded too.
func (c *Call) endCharge(t *Ticket, succeeded bool) {
	if !c.rules.earns || !t.charged() || t.Hedge {
		return
	}
	o := &c.retry.failed
	asked := o.HasAfter || o.Class == policy.ClassThrottled && c.retry.owed == 0 // who waited without having paid met no quota
	c.state.earned.End(succeeded, !asked && !c.paced())
}

// payIn gives a success to the budget: a quota gives back what it has cost, or earns from
// a first attempt.
func (c *Call) payIn(t *Ticket) {
	switch {
	case c.rules.shares:
		c.endResend(t)
	case c.rules.Policy.Retry.Budget.Shape != policy.BudgetQuota, t.Attempt == 1:
		c.state.tokens().Refill(c.rules.tokens)
	case t.charged():
		c.state.tokens().Refund(c.rules.costOf(t.charge))
	}
}

// payFailure gives an attempt that did not succeed to the budget. gRPC's throttling charges
// what is retried, and what the dependency asked not to retry. A loser shows nothing, and
// neither does who had no time left.
func (c *Call) payFailure(now clock.Instant, t *Ticket, o *policy.Outcome, loser bool) {
	if c.rules.shares {
		c.endResend(t)
		return
	}
	if c.rules.Policy.Retry.Budget.Shape != policy.BudgetGRPC || loser || o.Class == policy.ClassRejected {
		return
	}
	failed := o.Class.Transient() && o.Class != policy.ClassContention && !(o.Class == policy.ClassTimeout && c.hurried(now, t))
	if failed || o.Stop && o.Class != policy.ClassSuccess {
		c.state.tokens().Drain(c.rules.tokens)
	}
}

// endResend makes the place of a re-send free that was in flight.
func (c *Call) endResend(t *Ticket) {
	if t.charged() {
		c.state.share().Release()
	}
}

// charge takes one re-send that something below has made by itself. What is in flight it
// does not change any more.
func (s *State) charge(now clock.Instant, r *Rules) {
	switch b := r.Policy.Retry.Budget; {
	case b.Off, b.Shape == policy.BudgetShare:
	case b.Shape == policy.BudgetTokens, b.Shape == policy.BudgetQuota:
		s.tokens().TryWithdraw(r.tokens)
	case b.Shape == policy.BudgetGRPC:
		s.tokens().Drain(r.tokens)
	case b.Shape == policy.BudgetWindow:
		s.window().TryWithdraw(now, r.budget)
	default:
		s.earned.Charge(now, &r.earned)
	}
}

// spent notes that the budget has nothing left.
func (c *Call) spent(now clock.Instant) {
	if c.retry.failed.Class == policy.ClassContention {
		c.spentWindow(now, c.state.contention(), c.rules.repeats, contentionWindow)
		return
	}
	b := &c.rules.Policy.Retry.Budget
	n := &policy.Numbers{Shape: b.Shape, Ratio: float64(on(b.Ratio))}
	switch b.Shape {
	case policy.BudgetWindow:
		c.spentWindow(now, c.state.window(), c.rules.budget, b.Window)
		return
	case policy.BudgetTokens:
		n.Level = c.state.level(&c.rules.tokens)
	case policy.BudgetGRPC:
		n.Tokens, n.Capacity = c.state.left(c.rules), b.Capacity
	case policy.BudgetQuota:
		r := c.rules.costOf(costAfter(c.retry.failed.Class))
		n.Tokens, n.Capacity, n.Cost, n.Level = c.state.left(c.rules), b.Capacity, int(r.Cost/1000), c.state.level(&r)
	case policy.BudgetShare:
		n.Calls, n.Resends = c.state.share().Counts()
		n.Allowed = c.rules.share.Allows(n.Calls)
	default:
		e, r := &c.state.earned, &c.rules.earned
		n.Successes, _ = e.Recent(now, r)
		n.Level, n.Resends, n.Window = float64(e.Level(now, r))/1e6, e.Sent(), b.Window
		n.Helped, n.Ended = e.Ended()
	}
	c.end.numbers = n
}

func (c *Call) spentWindow(now clock.Instant, w *budget.Window, r budget.Rules, span time.Duration) {
	calls, resends := w.Counts(now)
	c.end.numbers = &policy.Numbers{Shape: policy.BudgetWindow, Calls: calls, Resends: resends, Allowed: r.Allows(calls), Window: span}
}

// left returns the tokens that are left.
func (s *State) left(r *Rules) float64 { return float64(s.tokens().Level(r.tokens)) / 1000 }

// level returns how many re-sends of that cost the tokens pay for.
func (s *State) level(r *budget.BucketRules) float64 {
	return float64(s.tokens().Level(*r)) / float64(max(r.Cost, 1))
}

func (s *State) budgetStats(now clock.Instant, r *Rules) (st policy.BudgetStats) {
	b := r.Policy.Retry.Budget
	if b.Off {
		return policy.BudgetStats{Off: true}
	}
	switch b.Shape {
	case policy.BudgetTokens, policy.BudgetQuota:
		st.Level, st.Tokens = int64(s.level(&r.tokens)), s.left(r)
	case policy.BudgetGRPC:
		level := s.tokens().Level(r.tokens)
		st.Level, st.Tokens = max(level-r.tokens.Capacity/2-1, 0)/1000, s.left(r)
	case policy.BudgetShare:
		st.Calls, st.Sent = s.share().Counts()
		st.Level = max(r.share.Allows(st.Calls)-st.Sent, 0)
	case policy.BudgetWindow:
		w := s.window()
		st.Calls, st.Sent = w.Counts(now)
		st.Level = w.Level(now, r.budget)
	default:
		st.Successes, _ = s.earned.Recent(now, &r.earned)
		st.Sent, st.Level = s.earned.Sent(), max(s.earned.Level(now, &r.earned)/1e6, 0)
		st.Helped, st.Ended = s.earned.Ended()
		st.Queued = s.earned.Queued(now, &r.earned)
	}
	return st
}
