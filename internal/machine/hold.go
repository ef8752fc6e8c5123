package machine

import (
	"time"

	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/internal/terms"
	"github.com/gabion-go/gabion/policy"
)

// maxHolds is how often a retry is held back, each time for longer: with the default
// backoff these are minutes. Only a call without a deadline has more time than that.
const maxHolds = 10

// maxBlipHolds is how often a retry is held back by failures of calls that were all out at
// the same time. They may have met one blip, such as a connection that all of them used, and
// then all of them wait, and none of them can be the success that the others wait for.
const maxBlipHolds = 1

// holdRetry lets a retry whose time has come wait on while other calls fail, too: not
// counting this call's own failures, as many as Retry.Hold says came in a row, and no
// success after them. So nothing is sent that would only fail again. When the dependency
// is back, the retries come spread over as long as they were held. The last wait that
// fits the deadline ends in a try in any case, so that holding costs no call its retry. A
// call does not wait for a dependency that never answered well: it ends.
func (c *Call) holdRetry(now clock.Instant) (held bool) {
	if c.retry.holds == maxHolds {
		return false
	}
	others, last := c.othersFail()
	switch {
	case !others || !last && c.retry.holds == maxBlipHolds:
		return false
	case c.untried():
		if !last {
			return false
		}
		c.finish(now, policy.AllFailing)
		return true
	}
	return c.waitOn(now)
}

// waitOn lets a retry wait for one more backoff, if that fits.
func (c *Call) waitOn(now clock.Instant) (fits bool) {
	c.retry.holds++
	at := now.Add(max(c.backoff(&policy.Outcome{}), 1))
	if c.taken.has&aDebt != 0 {
		at = min(at, c.retry.owed)
	}
	if at <= now || at.Add(c.margin(now)) > c.deadline {
		return false
	}
	c.waitIn(resting, now, at, terms.ForSuccess)
	return true
}

// longestOwed is how long a retry waits at most that has not paid.
const longestOwed = 3 * time.Second

// owe lets a retry wait that the budget can't pay for now, while other calls fail too: what
// succeeds when the dependency is back, or its queue is gone, pays for it. It is paid for before it is sent, so an
// outage gets nothing more. A dependency that asks for less gets less, unless it refuses all.
func (c *Call) owe(now clock.Instant) bool {
	o := &c.retry.failed
	if !c.rules.earns || c.repeat || o.HasAfter || o.Class == policy.ClassContention {
		return false
	}
	if o.Class == policy.ClassThrottled && !c.part.pacer.Load().allRefused() {
		return false
	}
	if others, _ := c.othersFail(); !others && !c.state.earned.Queued(now, &c.rules.earned) || c.untried() || !c.state.earned.Owe() {
		return false
	}
	c.taken.has |= aDebt
	c.retry.owed = now.Add(longestOwed)
	return true
}

// payDebt pays for a retry that is to be sent now. While the budget can't pay for it, it waits
// on, as long as it may. Once others succeed, one that is sent may pay with its own success.
func (c *Call) payDebt(now clock.Instant) (paid bool) {
	others, _ := c.othersFail()
	switch {
	case c.takeCharge(now):
	case !others && c.state.earned.Borrow(now, &c.rules.earned):
		c.taken.has |= aCharge
	default:
		if c.retry.holds == maxHolds || !c.waitOn(now) {
			c.spent(now)
			c.finish(now, policy.BudgetExhausted)
		}
		return false
	}
	c.taken.has &^= aDebt
	c.state.earned.Settle()
	return true
}

// hopeless reports whether a retry would be given up when its time comes, as far as is
// known now.
func (c *Call) hopeless() bool {
	if !c.rules.earns { // else it is tried, and the run need not be looked at
		return false
	}
	_, last := c.othersFail()
	return last && c.untried()
}

// untried reports whether no call has ever succeeded.
func (c *Call) untried() bool { return c.rules.earns && !c.state.earned.Any() }

// othersFail reports whether as many failures of other calls came in a row as Retry.Hold
// says. Last is whether they are more than one short fault that met calls which were out
// at the same time.
func (c *Call) othersFail() (fail, last bool) {
	if c.rules.hold == 0 || !c.rules.guarded {
		return false, false
	}
	run, lasts := c.part.breaker.Load().FailureRun()
	own := uint32(c.sent.n)
	if c.rules.Policy.Breaker.Per == policy.PerCall {
		own = 0 // its failures are counted at its end
	}
	fail = run >= own+c.rules.hold
	return fail, fail && lasts
}
