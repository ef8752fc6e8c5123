package policy

import (
	"time"

	"github.com/gabion-go/gabion/breaker"
	"github.com/gabion-go/gabion/clock"
)

// hedge tries to send one more attempt beside those that are out. It takes what
// is free now or is not made: it never queues and never probes, and one that was
// not made is spent, so that nothing loops.
func (c *Call) hedge(now clock.Instant, s *Step, say bool) bool {
	permit, why := c.admitHedge(now)
	c.hedges++
	if why != None {
		c.hedgeAt = c.nextHedge(now)
		if c.log != nil && say {
			c.log.add(Event{Kind: HedgeSkipped, At: now, Reason: why, Attempt: c.sends})
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
		return Off // not known yet, and nothing configured in its place
	}
	return h.Delay
}

// admitHedge asks the layers in the order of what is cheapest to give back.
func (c *Call) admitHedge(now clock.Instant) (breaker.Permit, Reason) {
	none := breaker.Permit{}
	switch {
	case c.state.retriesOff():
		return none, RetriesOff
	case c.paced(now):
		return none, Paced
	case c.rules.throttled && !c.throttle(now):
		c.has &^= request // its rejection stays counted
		return none, ThrottledLocally
	case !c.withdraw(now):
		c.uncount(now)
		return none, BudgetExhausted
	}
	permit, why := c.hedgePermit(now)
	if why != None {
		c.refund(now)
		c.uncount(now)
	}
	return permit, why
}

func (c *Call) hedgePermit(now clock.Instant) (breaker.Permit, Reason) {
	var permit breaker.Permit
	if c.guards() {
		b := c.lane.breaker.Load()
		if s := b.State(); s == breaker.Open || s == breaker.HalfOpen || s == breaker.ForcedOpen {
			return permit, BreakerOpen // not even asked: asking half-opens
		}
		p, _, ok := b.Acquire(now, c.shard)
		if !ok || p.Probe() {
			b.Settle(now, c.shard, p, breaker.Neutral, 0)
			return p, BreakerOpen
		}
		permit = p
	}
	why := c.hedgeSlot(now)
	if why != None && c.guards() {
		c.lane.breaker.Load().Settle(now, c.shard, permit, breaker.Neutral, 0)
	}
	return permit, why
}

func (c *Call) hedgeSlot(now clock.Instant) Reason {
	if c.rules.bulkhead && c.has&wholeSlot == 0 {
		slot, ok := c.state.bulkhead().TryAcquire(c.shard, c.tenant)
		if !ok {
			return BulkheadFull
		}
		c.pending = slot
	}
	if c.rules.rate.Interval > 0 {
		if _, ok := c.state.limiter().Reserve(now, c.rules.rate, 0); !ok {
			c.dropPending(now)
			return RateLimited
		}
	}
	return None
}
