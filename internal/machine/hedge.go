package machine

import (
	"time"

	"github.com/gabion-go/gabion/internal/breaker"
	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/policy"
)

// hedge tries to send one more attempt beside those that are out. It takes what
// is free now or is not made: it never queues and never probes, and one that was
// not made is spent, so that nothing loops.
func (c *Call) hedge(now clock.Instant, s *Step, say bool) bool {
	permit, why := c.admitHedge(now)
	c.hedges++
	if why != policy.None {
		c.refund(now)
		c.hedgeAt = c.nextHedge(now)
		if say {
			c.skipHedge(now, why)
		}
		return false
	}
	c.send(now, s, permit, true)
	return true
}

// nextHedge says when the next hedge is due after what happened now, if there may
// still be one.
func (c *Call) nextHedge(now clock.Instant) clock.Instant {
	if int(c.hedges) >= c.rules.Policy.Hedge.Max {
		c.hedging = false
		return clock.Never
	}
	delay := c.hedgeDelay(now)
	if delay < 0 {
		return clock.Never
	}
	return now.Add(delay)
}

// pullHedge brings the next hedge forward when an attempt failed, to now or to
// when the dependency asked for (gRFC A6). With no hedge left, Next plans a retry
// once nothing is out.
func (c *Call) pullHedge(now clock.Instant, o *policy.Outcome) {
	switch {
	case !c.hedging:
	case o.Stop || c.onces > 1 || c.retriesStopped():
		c.hedging = false
	case o.Class == policy.ClassContention:
	case o.HasAfter:
		c.putHedgeOff(now, o)
	default:
		c.hedgeAt = min(c.hedgeAt, now)
	}
}

// putHedgeOff lets the next hedge wait as long as a retry would, or gives it up.
func (c *Call) putHedgeOff(now clock.Instant, o *policy.Outcome) {
	c.hedgeAt = now.Add(c.backoff(o))
	if why := c.mayPutOff(now, o); why != policy.None {
		c.hedging = false
		c.skipHedge(now, why)
	} else if c.out == 0 {
		c.sayWait(now, c.hedgeAt, policy.ForBackoff)
	}
}

// mayPutOff asks what a retry's plan asks. With nothing else out the wait is a sleep:
// not into an open breaker, and with the re-send reserved before it.
func (c *Call) mayPutOff(now clock.Instant, o *policy.Outcome) policy.Reason {
	if why := c.fits(now, c.hedgeAt, o); why != policy.None || c.out != 0 {
		return why
	}
	if _, shut := c.shut(c.hedgeAt); shut {
		return policy.BreakerOpen
	}
	if !c.withdraw(now) {
		return policy.BudgetExhausted
	}
	return policy.None
}

func (c *Call) skipHedge(now clock.Instant, why policy.Reason) {
	if c.log != nil {
		c.log.add(policy.Event{Kind: policy.KindHedgeSkipped, At: now, Reason: why, Attempt: c.sends})
	}
}

// enoughSamples is how many latencies must be known before a percentile of them is
// believed: the 99th needs a hundred to mean anything.
const enoughSamples = 100

func (c *Call) hedgeDelay(now clock.Instant) time.Duration {
	h := c.rules.Policy.Hedge
	if h.Percentile <= 0 {
		return h.Delay
	}
	if d, n := c.lane.latency.Load().Recent(now, float64(h.Percentile)); n >= enoughSamples {
		return d
	}
	if h.Delay == 0 {
		return policy.Off // not known yet, and nothing configured in its place
	}
	return h.Delay
}

// admitHedge asks the layers in the order of what is cheapest to give back.
func (c *Call) admitHedge(now clock.Instant) (breaker.Permit, policy.Reason) {
	none := breaker.Permit{}
	switch {
	case c.state.retriesOff():
		return none, policy.RetriesOff
	case now.Add(c.margin(now)) > c.deadline:
		return none, policy.DeadlineShort
	case c.paced():
		return none, policy.Paced
	case c.rules.throttled && !c.throttle(now):
		c.has &^= request // its rejection stays counted
		return none, policy.ThrottledLocally
	case c.has&charge == 0 && !c.withdraw(now):
		c.uncount(now)
		return none, policy.BudgetExhausted
	}
	permit, why := c.hedgePermit(now)
	if why != policy.None {
		c.uncount(now)
	}
	return permit, why
}

func (c *Call) hedgePermit(now clock.Instant) (breaker.Permit, policy.Reason) {
	var permit breaker.Permit
	if c.guards() {
		b := c.lane.breaker.Load()
		if s := b.State(); s == breaker.Open || s == breaker.HalfOpen || s == breaker.ForcedOpen {
			return permit, policy.BreakerOpen // not even asked: asking half-opens
		}
		p, _, ok := b.Acquire(now, c.shard)
		if !ok || p.Probe() {
			b.Settle(now, c.shard, p, breaker.Neutral, 0)
			return p, policy.BreakerOpen
		}
		permit = p
	}
	why := c.hedgeSlot(now)
	if why != policy.None && c.guards() {
		c.lane.breaker.Load().Settle(now, c.shard, permit, breaker.Neutral, 0)
	}
	return permit, why
}

func (c *Call) hedgeSlot(now clock.Instant) policy.Reason {
	if c.rules.bulkhead && c.has&wholeSlot == 0 {
		slot, ok := c.state.bulkhead().TryAcquire(c.shard, c.tenant)
		if !ok {
			return policy.BulkheadFull
		}
		c.pending = slot
	}
	if c.rules.rate.Interval > 0 {
		if _, ok := c.state.limiter().Reserve(now, c.rules.rate, 0); !ok {
			c.dropPending(now)
			return policy.RateLimited
		}
	}
	return policy.None
}
