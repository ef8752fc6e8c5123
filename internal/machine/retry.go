package machine

import (
	"time"

	"github.com/gabion-go/gabion/internal/chance"
	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/internal/terms"
	"github.com/gabion-go/gabion/policy"
)

// retrying is what a call knows of its failures.
type retrying struct {
	failed  policy.Outcome // the last one
	prev    time.Duration  // the wait before this one
	owed    clock.Instant  // how long it waits at most without having paid
	limit   time.Duration  // the measured time that ended the last one; zero if something else did
	lost    uint8          // tries that ended in a conflict
	onces   uint8          // outcomes marked Once
	holds   uint8          // how often a retry was held back
	exact   uint8          // tries that were made when the dependency last set the wait itself
	stopped bool           // an attempt brought the mark that stops retries
}

func (r *retrying) add(o *policy.Outcome) {
	r.failed = *o
	if o.Once {
		r.onces++
	}
	if o.Class == policy.ClassContention {
		r.lost++
	}
	r.stopped = r.stopped || o.Stop
}

func (c *Call) retriesStopped(now clock.Instant) bool { return c.noRetry || c.resendsOff(now) }

func (c *Short) resendsOff(now clock.Instant) bool {
	if c.state.calm(retriesAreOff) {
		return false
	}
	_, off := c.state.retriesOff(now)
	return off
}

// plan decides, with nothing out, whether and when the last failure is retried. No other
// place decides that.
func (c *Call) plan(now clock.Instant) {
	o := &c.retry.failed
	if why := c.mayRetry(now); why != policy.None {
		c.finish(now, why)
		return
	}
	if c.sent.at != nil && c.sent.at.elsewhere(now, o.Class) { // what one endpoint asked for concerns no other
		o.Elsewhere, o.HasAfter = true, false
	}
	wait := c.backoff(o)
	at := now.Add(wait)
	if why := c.fits(now, at, o); why != policy.None {
		switch why {
		case policy.DeadlineShort:
			c.shortOf(now, wait)
		case policy.RetryAfterTooLong:
			c.tooLate(now, wait)
		}
		c.finish(now, why)
		return
	}
	if c.sent.at != nil {
		if after, stranded := c.sent.at.stranded(at); stranded {
			c.end.after = after + wait
			c.finish(now, policy.BreakerOpen)
			return
		}
	}
	if _, shut := c.shut(at); shut {
		c.end.after, _ = c.shut(now)
		c.finish(now, policy.BreakerOpen)
		return
	}
	if o.Class != policy.ClassContention && c.hopeless() {
		c.finish(now, policy.AllFailing)
		return
	}
	if !c.takeCharge(now) && !c.owe(now) {
		c.spent(now)
		c.finish(now, policy.BudgetExhausted)
		return
	}
	c.retry.prev, c.wait.until, c.phase = wait, at, resting
	if o.HasAfter && o.Exact {
		c.retry.prev, c.retry.exact = 0, c.sent.tries-c.retry.lost
	}
	if wait > 0 {
		c.dropSlot()
		c.log.wait(now, at, terms.ForBackoff, c.sent.n)
	}
}

// mayRetry says why the last failure must not be retried, whatever time and budget say.
func (c *Call) mayRetry(now clock.Instant) policy.Reason {
	switch o, tries := &c.retry.failed, int(c.sent.tries-c.retry.lost); {
	case c.retry.stopped:
		return policy.DoNotRetry
	case c.resendsOff(now):
		return policy.RetriesOff
	case c.noRetry:
		return policy.AttemptsExhausted
	case o.Class == policy.ClassContention && int(c.retry.lost) >= c.rules.Policy.Retry.Contention.Attempts:
		return policy.AttemptsExhausted
	case o.Class != policy.ClassContention && tries >= c.rules.Policy.Retry.Attempts:
		return policy.AttemptsExhausted
	case c.retry.onces > 1: // it happened twice: a bug, and no passing fault
		return policy.AttemptsExhausted
	case !c.safe && !o.NeverSent && !o.Undone:
		return policy.NotSafe
	case o.Fixed:
		return policy.BodyNotRewindable
	}
	return policy.None
}

// backoff is the wait before the next try. A Retry-After is never shortened. Every call
// adds its own draw to it, so that many callers do not return together.
func (c *Call) backoff(o *policy.Outcome) time.Duration {
	if o.HasAfter && o.Exact {
		return c.end.after
	}
	b, n := &c.rules.Policy.Retry.Backoff, c.sent.tries-c.retry.lost-c.retry.exact
	if o.Class == policy.ClassContention {
		b, n = &c.rules.Policy.Retry.Contention.Backoff, c.retry.lost
	}
	if o.HasAfter {
		u := chance.U(c.draw(), 0, uint64(c.sent.tries), chance.After)
		return c.end.after + time.Duration(u*float64(max(b.Base, c.end.after/5)))
	}
	if o.Elsewhere && (apart(o.Class) || c.sent.at != nil) || o.NeverSent && c.rules.Policy.Retry.Immediate && c.sent.tries == 1 {
		return 0
	}
	var u float64
	if b.Jittered() && b.Cap > 1 { // a nanosecond can't be divided
		u = chance.U(c.draw(), uint64(c.retry.holds), uint64(c.sent.tries), chance.Backoff)
	}
	return b.Delay(int(n)-1+int(c.retry.holds), c.retry.prev, u)
}

// apart reports whether a failure of that class is one of the address that was asked, and
// says little about the others. A conflict meets the same data everywhere, and who has no
// room may be one of many.
func apart(class policy.Class) bool {
	return class == policy.ClassNetwork || class == policy.ClassServer || class == policy.ClassTimeout
}

// fits says why a retry at that time is too late to be worth making.
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
