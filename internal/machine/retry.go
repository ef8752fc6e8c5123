package machine

import (
	"time"

	"github.com/gabion-go/gabion/internal/chance"
	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/policy"
)

func (c *Call) retriesStopped() bool { return c.noRetry || c.state.retriesOff() }

// plan decides, with nothing out, whether and when the last failure is retried.
// This is the one place that answers: may this be retried?
func (c *Call) plan(now clock.Instant) {
	if why := c.mayRetry(&c.failed); why != policy.None {
		c.end(now, why)
		return
	}
	wait := c.backoff(&c.failed)
	at := now.Add(wait)
	if why := c.fits(now, at, &c.failed); why != policy.None {
		if why == policy.DeadlineShort {
			c.shortOf(now, wait)
		}
		c.end(now, why)
		return
	}
	if _, shut := c.shut(at); shut {
		c.after, _ = c.shut(now)
		c.end(now, policy.BreakerOpen)
		return
	}
	if c.failed.Class != policy.ClassContention && c.hopeless() {
		c.end(now, policy.AllFailing)
		return
	}
	if !c.afford(now) {
		c.spent(now)
		c.end(now, policy.BudgetExhausted)
		return
	}
	c.prev, c.wake, c.phase = wait, at, resting
	if wait > 0 {
		c.sayWait(now, at, policy.ForBackoff)
	}
}

// mayRetry asks whether the failure may be repeated: transient, and safe.
func (c *Call) mayRetry(o *policy.Outcome) policy.Reason {
	switch {
	case c.stopped:
		return policy.DoNotRetry
	case c.state.retriesOff():
		return policy.RetriesOff
	case c.noRetry:
		return policy.AttemptsExhausted
	case o.Class == policy.ClassContention && int(c.lost) >= c.rules.Policy.Retry.Contention.Attempts:
		return policy.AttemptsExhausted
	case o.Class != policy.ClassContention && int(c.tries-c.lost) >= c.rules.Policy.Retry.Attempts:
		return policy.AttemptsExhausted
	case c.onces > 1: // a bug, then, and not a blip
		return policy.AttemptsExhausted
	case !c.safe && !o.NeverSent && !o.Undone:
		return policy.NotSafe
	case o.Fixed:
		return policy.BodyNotRewindable
	}
	return policy.None
}

// backoff is the wait before the next try. A Retry-After is never shortened, and
// every call adds its own draw to it, so that a fleet does not return together.
func (c *Call) backoff(o *policy.Outcome) time.Duration {
	b, n := &c.rules.Policy.Retry.Backoff, c.tries-c.lost
	if o.Class == policy.ClassContention {
		b, n = &c.rules.Policy.Retry.Contention.Backoff, c.lost
	}
	if o.HasAfter {
		u := chance.U(c.draw(), 0, uint64(c.tries), chance.After)
		return c.after + time.Duration(u*float64(max(b.Base, c.after/5)))
	}
	if o.NeverSent && c.rules.Policy.Retry.Immediate && c.tries == 1 {
		return 0
	}
	var u float64
	if b.Jittered() && b.Cap > 1 { // of a nanosecond there is nothing to draw
		u = chance.U(c.draw(), uint64(c.holds), uint64(c.tries), chance.Backoff)
	}
	return b.Delay(int(n)-1+int(c.holds), c.prev, u)
}

// fits asks whether a retry at that time is worth making at all.
func (c *Call) fits(now, at clock.Instant, o *policy.Outcome) policy.Reason {
	long := o.HasAfter && o.After > c.rules.Policy.Retry.MaxAfter
	late := at.Add(c.margin(now)) > c.deadline
	switch {
	case long, late && o.HasAfter:
		return policy.RetryAfterTooLong
	case late:
		return policy.DeadlineShort
	}
	return policy.None
}

// afford reserves what the retry of the last failure costs, of the budget that it is
// for.
func (c *Call) afford(now clock.Instant) bool {
	if c.failed.Class != policy.ClassContention {
		return c.withdraw(now)
	}
	if c.rules.Policy.Retry.Contention.Repeats < 0 {
		return true
	}
	var ok bool
	if c.reserved, ok = c.state.contention().TryWithdraw(now, 0, c.rules.repeats); ok {
		c.has |= charge | repeat
	}
	return ok
}

// conflict counts a try that ended in one. The first pays for this call.
func (c *Call) conflict(now clock.Instant) {
	c.lost++
	if c.lost == 1 && c.rules.Policy.Retry.Contention.Repeats > 0 {
		c.state.contention().Deposit(now, 0)
	}
}

// withdraw reserves one re-send of the budget.
func (c *Call) withdraw(now clock.Instant) bool {
	b := &c.rules.Policy.Retry.Budget
	if b.Off {
		return true
	}
	var ok bool
	switch b.Shape {
	case policy.BudgetTokens:
		ok = c.state.tokens().TryWithdraw(c.rules.tokens)
	case policy.BudgetWindow:
		c.epoch = c.state.epoch()
		c.reserved, ok = c.state.window().TryWithdraw(now, c.shard, c.rules.budget)
	default:
		u := chance.U(c.draw(), 0, uint64(c.sends), chance.Budgeting)
		ok = c.state.earned.TryWithdraw(now, &c.rules.earned, u)
	}
	if ok {
		c.has |= charge
	}
	return ok
}

// refund gives back a reservation that was not spent.
func (c *Call) refund(now clock.Instant) {
	if c.has&charge == 0 {
		return
	}
	if c.has&repeat != 0 {
		c.has &^= charge | repeat
		c.state.contention().Refund(now, c.reserved)
		return
	}
	c.has &^= charge
	switch c.rules.Policy.Retry.Budget.Shape {
	case policy.BudgetTokens:
		c.state.tokens().Refund(c.rules.tokens)
	case policy.BudgetWindow:
		if c.epoch == c.state.epoch() {
			c.state.window().Refund(now, c.reserved)
		}
	default:
		c.state.earned.Refund()
	}
}
