package machine

import (
	"time"

	"github.com/gabion-go/gabion/internal/breaker"
	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/internal/terms"
	"github.com/gabion-go/gabion/policy"
)

// hedging is when the next hedge of a call is due.
type hedging struct {
	at   clock.Instant
	made uint8 // those that were skipped included
	on   bool  // there may still be one
}

func (h *hedging) due(now clock.Instant) bool         { return h.on && now >= h.at }
func (h *hedging) before(deadline clock.Instant) bool { return h.on && h.at < deadline }

// sendHedge tries to send one more attempt beside those that are out. A hedge takes
// what is free now or is not made: it never queues and never probes. One that was not
// made counts as made, so that nothing loops.
func (c *Call) sendHedge(now clock.Instant, s *Step, say bool) (sent bool) {
	why := c.admitHedge(now)
	c.hedge.made++
	if why != policy.None {
		c.undo(now)
		c.hedge.at = c.nextHedge(now)
		if say {
			c.skipHedge(now, why)
		}
		return false
	}
	c.send(now, s, c.taken.permit, true)
	return true
}

// nextHedge returns when the next hedge is due, counted from now, if there may still be
// one.
func (c *Call) nextHedge(now clock.Instant) clock.Instant {
	if int(c.hedge.made) >= c.rules.Policy.Hedge.Max {
		c.hedge.on = false
		return clock.Never
	}
	delay := c.hedgeDelay(now)
	if delay < 0 {
		return clock.Never
	}
	return now.Add(delay)
}

// pullHedge moves the next hedge when an attempt failed: to now, or to the time that the
// dependency asked for (gRFC A6). With no hedge left, Next plans a retry once nothing is
// out.
func (c *Call) pullHedge(now clock.Instant, o *policy.Outcome) {
	switch {
	case !c.hedge.on:
	case o.Stop || c.retry.onces > 1 || c.retriesStopped(now):
		c.hedge.on = false
	case o.Class == policy.ClassContention:
	case o.HasAfter:
		c.putHedgeOff(now, o)
	default:
		c.hedge.at = min(c.hedge.at, now)
	}
}

// putHedgeOff lets the next hedge wait as long as a retry would, or gives hedging up.
func (c *Call) putHedgeOff(now clock.Instant, o *policy.Outcome) {
	c.hedge.at = now.Add(c.backoff(o))
	if why := c.mayPutOff(now, o); why != policy.None {
		c.hedge.on = false
		c.skipHedge(now, why)
	} else if c.sent.out == 0 {
		c.log.wait(now, c.hedge.at, terms.ForBackoff, c.sent.n)
	}
}

// mayPutOff asks what a retry's plan asks. With nothing else out, the call sleeps until
// then: not into an open breaker, and with the re-send reserved before.
func (c *Call) mayPutOff(now clock.Instant, o *policy.Outcome) policy.Reason {
	if why := c.fits(now, c.hedge.at, o); why != policy.None || c.sent.out != 0 {
		return why
	}
	if _, shut := c.shut(c.hedge.at); shut {
		return policy.BreakerOpen
	}
	if !c.takeResend(now, o.Class) {
		return policy.BudgetExhausted
	}
	return policy.None
}

func (c *Call) skipHedge(now clock.Instant, why policy.Reason) {
	if c.log != nil {
		*c.log.next(policy.KindHedgeSkipped) = policy.Event{
			Kind: policy.KindHedgeSkipped, At: now, Reason: why, Attempt: c.sent.n, Left: c.left(now), Numbers: c.whyNoHedge(now, why),
		}
	}
}

// whyNoHedge are the numbers behind a hedge that was not made. They say nothing about the
// end of the call.
func (c *Call) whyNoHedge(now clock.Instant, why policy.Reason) *policy.Numbers {
	before := c.end.numbers
	defer func() { c.end.numbers = before }()
	c.end.numbers = nil
	switch why {
	case policy.DeadlineShort:
		c.shortOf(now, 0)
	case policy.ThrottledLocally:
		c.throttled(now)
	case policy.BudgetExhausted:
		c.spent(now)
	case policy.BulkheadFull:
		c.crowded(0)
	case policy.RetryAfterTooLong:
		c.tooLate(now, c.hedge.at.Sub(now))
	case policy.RateLimited:
		if c.state.limiter() == nil {
			return nil
		}
		_, next := c.state.limiter().Ahead(now, underShare(c, now).rate)
		c.tooLong(next, 0) // a hedge never waits
	case policy.Paced:
		until, _ := c.part.pacer.Load().held(now)
		c.tooLong(max(until.Sub(now), 0), 0)
	}
	return c.end.numbers
}

// enoughSamples is how many latencies must be known before a percentile of them is used:
// the 99th of fewer than a hundred means nothing.
const enoughSamples = 100

func (c *Call) hedgeDelay(now clock.Instant) time.Duration {
	h := c.rules.Policy.Hedge
	if h.Percentile <= 0 {
		return h.Delay
	}
	if d, n := c.part.times.Load().all.Recent(now, float64(h.Percentile)); n >= enoughSamples {
		return d
	}
	if h.Delay == 0 {
		return policy.Off // not known yet, and nothing is configured in its place
	}
	return h.Delay
}

// admitHedge takes what a hedge needs, and says why it can't have it. It asks the layers
// in the order of what is cheapest to give back.
func (c *Call) admitHedge(now clock.Instant) policy.Reason {
	switch {
	case c.resendsOff(now):
		return policy.RetriesOff
	case now.Add(c.margin(now)) > c.deadline:
		return policy.DeadlineShort
	case c.paced():
		return policy.Paced
	case c.rules.throttled && !c.takeRequest(now):
		return policy.ThrottledLocally
	case c.taken.has&aCharge == 0 && !c.takeResend(now, policy.ClassUndecided):
		return policy.BudgetExhausted
	case c.guards() && !c.takePermit(now):
		return policy.BreakerOpen
	}
	if c.rules.bulkhead && !c.noSlot && c.taken.has&aSlot == 0 {
		slot, ok := c.state.bulkhead().TryAcquire(c.tenant, c.shard)
		if !ok {
			return policy.BulkheadFull
		}
		c.taken.addSlot(slot)
	}
	if c.wait.room != nil && !c.wait.room.takeNow(c, now) {
		return policy.RateLimited
	}
	if c.rules.rate.Interval > 0 {
		if _, ok := c.state.limiter().Reserve(now, underShare(c, now).rate, 0); !ok {
			return policy.RateLimited
		}
	}
	return policy.None
}

// takePermit takes a permit for a hedge, which is no probe.
func (c *Call) takePermit(now clock.Instant) (ok bool) {
	b := c.part.breaker.Load()
	if s := b.State(); s == breaker.Open || s == breaker.HalfOpen || s == breaker.ForcedOpen {
		return false // not even asked: asking half-opens
	}
	if c.taken.permit, _, ok = b.Acquire(now, c.shard); ok {
		c.taken.has |= aPermit
	}
	return ok && !c.taken.permit.Probe()
}
