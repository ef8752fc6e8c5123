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
func (c *Call) pullHedge(now clock.Instant, o *Outcome) {
	switch {
	case !c.hedging:
	case o.Stop || c.onces > 1 || c.retriesStopped():
		c.hedging = false
	case o.Class == Contention:
	case o.HasAfter:
		c.putHedgeOff(now, o)
	default:
		c.hedgeAt = min(c.hedgeAt, now)
	}
}

// putHedgeOff lets the next hedge wait as long as a retry would, or gives it up.
func (c *Call) putHedgeOff(now clock.Instant, o *Outcome) {
	c.hedgeAt = now.Add(c.backoff(o))
	if why := c.mayPutOff(now, o); why != None {
		c.hedging = false
		c.skipHedge(now, why)
	} else if c.out == 0 {
		c.sayWait(now, c.hedgeAt, ForBackoff)
	}
}

// mayPutOff asks what a retry's plan asks. With nothing else out the wait is a sleep:
// not into an open breaker, and with the re-send reserved before it.
func (c *Call) mayPutOff(now clock.Instant, o *Outcome) Reason {
	if why := c.fits(now, c.hedgeAt, o); why != None || c.out != 0 {
		return why
	}
	if _, shut := c.shut(c.hedgeAt); shut {
		return BreakerOpen
	}
	if !c.withdraw(now) {
		return BudgetExhausted
	}
	return None
}

func (c *Call) skipHedge(now clock.Instant, why Reason) {
	if c.log != nil {
		c.log.add(Event{Kind: HedgeSkipped, At: now, Reason: why, Attempt: c.sends})
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
	case now.Add(c.margin(now)) > c.deadline:
		return none, DeadlineShort
	case c.paced():
		return none, Paced
	case c.rules.throttled && !c.throttle(now):
		c.has &^= request // its rejection stays counted
		return none, ThrottledLocally
	case c.has&charge == 0 && !c.withdraw(now):
		c.uncount(now)
		return none, BudgetExhausted
	}
	permit, why := c.hedgePermit(now)
	if why != None {
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
