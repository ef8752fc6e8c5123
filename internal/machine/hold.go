package machine

import (
	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/policy"
)

// maxHolds is how often a retry is held back: each time for longer, so that these
// are minutes with the default backoff. A call has no more time than that, unless
// nothing bounds it.
const maxHolds = 10

// holdRetry keeps a retry waiting whose time has come while other calls fail, too: besides
// this call's own, so many failures as Retry.Hold says came in a row and no success
// after them. What would only fail again is not sent; and when the dependency is back,
// retries come spread over as long as they were held. The last wait that fits the
// deadline ends in a try whatever the others say, so that holding costs no call its
// retry. A dependency that never answered well is not waited for.
func (c *Call) holdRetry(now clock.Instant) (held bool) {
	if c.retry.holds == maxHolds {
		return false
	}
	others, last := c.othersFail()
	switch {
	case !others:
		return false
	case c.untried():
		if !last {
			return false
		}
		c.finish(now, policy.AllFailing)
		return true
	}
	c.retry.holds++
	at := now.Add(max(c.backoff(&policy.Outcome{}), 1))
	if at.Add(c.margin(now)) > c.deadline {
		return false
	}
	c.waitIn(resting, now, at, policy.ForSuccess)
	return true
}

// hopeless reports whether a retry would be given up when its time comes, as far as is
// known now.
func (c *Call) hopeless() bool {
	_, last := c.othersFail()
	return last && c.untried()
}

// untried reports whether nothing has succeeded yet, so that there is no success of
// before to wait for again.
func (c *Call) untried() bool { return c.rules.earns && !c.state.earned.Any() }

// othersFail reports whether as many failures of other calls came in a row as
// Retry.Hold says, and whether these are more than one blip that calls met which were
// out at the same time.
func (c *Call) othersFail() (fail, last bool) {
	if c.rules.hold == 0 || !c.rules.guarded {
		return false, false
	}
	run, lasts := c.part.breaker.Load().FailureRun()
	own := uint32(c.sent.n)
	if c.rules.Policy.Breaker.Per == policy.PerCall {
		own = 0 // which counts this call at its end
	}
	fail = run >= own+c.rules.hold
	return fail, fail && lasts
}
