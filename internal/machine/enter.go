package machine

import (
	"time"

	"github.com/gabion-go/gabion/internal/breaker"
	"github.com/gabion-go/gabion/internal/bulkhead"
	"github.com/gabion-go/gabion/internal/chance"
	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/policy"
)

// enter asks every layer between the retry loop and the work, outermost first:
// pace, throttle, breaker, bulkhead, rate limit. A layer that says "later" makes
// the call wait, one that says "no" ends it.
func (c *Call) enter(now clock.Instant, s *Step) {
	if p := c.lane.pacer.Load(); p != nil && p.active.Load() && c.pace(p, now, s) {
		return
	}
	if c.rules.throttled && !c.throttle(now) {
		c.refuse(now, s, policy.ThrottledLocally, 0)
		return
	}
	if c.rules.bulkhead && c.has&wholeSlot == 0 {
		slot, ok := c.state.bulkhead().TryAcquire(c.shard, c.tenant)
		if !ok {
			c.queue(now, s)
			return
		}
		c.pending = slot
	}
	c.depart(now, s)
}

// queue waits for a slot. A call that queues holds no permit of the breaker, since a
// probe would age in the queue and calls of a closed generation would go out
// through an open breaker: the breaker is asked when the slot is there. But a call
// that it would refuse anyway does not queue.
func (c *Call) queue(now clock.Instant, s *Step) {
	if after, shut := c.turnedAway(now); shut {
		c.refuse(now, s, policy.BreakerOpen, after)
		return
	}
	if c.waker == nil {
		s.wait(now)
		return
	}
	c.queueTill = c.deadline
	if wait := c.rules.Policy.Bulkhead.QueueTimeout; wait > 0 {
		c.queueTill = min(now.Add(wait), c.deadline)
	}
	w, ok := c.state.bulkhead().Join(c.waker, c.priority, c.tenant)
	if !ok {
		c.crowded(0)
		c.refuse(now, s, policy.BulkheadFull, 0)
		return
	}
	c.waiter, c.phase = w, queued
	c.inQueue(now, s)
}

// shut asks the breaker whether it would refuse, without taking anything.
func (c *Call) shut(at clock.Instant) (time.Duration, bool) {
	if !c.guards() {
		return 0, false
	}
	return c.lane.breaker.Load().Shut(at)
}

// turnedAway asks the breaker whether it refuses right now, as a half-open one does
// with all its probes out. What is taken to find out goes back at once.
func (c *Call) turnedAway(now clock.Instant) (after time.Duration, refused bool) {
	if !c.guards() {
		return 0, false
	}
	b := c.lane.breaker.Load()
	if b.State() != breaker.HalfOpen {
		return b.Shut(now)
	}
	p, after, ok := b.Acquire(now, c.shard)
	b.Settle(now, c.shard, p, breaker.Neutral, 0)
	return after, !ok
}

// inQueue is Next while the call waits for a slot.
func (c *Call) inQueue(now clock.Instant, s *Step) {
	slot, answer := c.state.bulkhead().Granted(c.waiter)
	switch {
	case answer == bulkhead.Granted:
		c.waiter, c.pending = nil, slot
		c.depart(now, s)
	case answer == bulkhead.PushedOut:
		c.waiter = nil
		c.crowded(0)
		c.refuse(now, s, policy.BulkheadFull, 0)
	case now < c.queueTill:
		c.wait(now, s, c.queueTill, policy.ForSlot)
	case c.leaveQueue():
		c.depart(now, s)
	default:
		c.crowded(now.Sub(c.queueTill) + c.rules.Policy.Bulkhead.QueueTimeout)
		c.refuse(now, s, policy.QueueTimeout, 0)
	}
}

// leaveQueue gives up waiting. A slot that was granted meanwhile is kept as the
// pending one.
func (c *Call) leaveQueue() bool {
	slot, granted := c.state.bulkhead().Leave(c.waiter)
	c.waiter = nil
	c.pending = slot
	return granted
}

// guards reports whether an attempt needs a permit of the breaker.
func (c *Call) guards() bool { return c.rules.guarded && c.has&wholePermit == 0 }

// depart is the last part of the way: with the slot in hand, take a turn of the
// rate limit and the breaker's permit, and send.
func (c *Call) depart(now clock.Instant, s *Step) {
	if c.tries > 0 && c.retriesStopped() {
		c.refuse(now, s, policy.RetriesOff, c.after)
		return
	}
	if now != c.began && now.Add(c.margin(now)) > c.deadline { // a first attempt that did not wait may try
		c.shortOf(now, 0)
		c.refuse(now, s, policy.DeadlineShort, 0)
		return
	}
	if c.rules.rate.Interval > 0 && c.phase != limited && c.rate(now, s) {
		return
	}
	var permit breaker.Permit
	if c.guards() {
		p, after, ok := c.lane.breaker.Load().Acquire(now, c.shard)
		if !ok {
			c.refuse(now, s, policy.BreakerOpen, after)
			return
		}
		permit = p
	}
	c.tries++
	c.send(now, s, permit, false)
}

// rateTurn is Next while the call waits for a turn of the rate limit.
func (c *Call) rateTurn(now clock.Instant, s *Step) {
	if now < c.wake {
		s.wait(min(c.wake, c.deadline))
		return
	}
	c.depart(now, s)
}

// rate takes a turn of the rate limit. A reading of the clock may be old by the
// time it is used, which makes others' turns look further away than they are, so
// a refusal is asked for twice, the second time with a fresh clock.
func (c *Call) rate(now clock.Instant, s *Step) (held bool) {
	if after, shut := c.shut(now); shut {
		c.refuse(now, s, policy.BreakerOpen, after)
		return true
	}
	longest := c.deadline.Sub(now.Add(c.margin(now))) // a turn that is due now needs none
	if most := c.rules.Policy.RateLimit.MaxWait; most != 0 {
		longest = min(longest, on(most))
	}
	at, ok := c.state.limiter().Reserve(now, c.rules.rate, longest)
	switch {
	case !ok && c.has&relook == 0:
		c.has |= relook
		c.dropPending(now)
		c.wake, c.phase = now+1, resting
		s.wait(now + 1)
		return true
	case !ok:
		c.refuse(now, s, policy.RateLimited, at.Sub(now))
		return true
	}
	c.turnAt = at
	c.has |= turn
	if at > now {
		c.wake, c.phase = at, limited
		c.wait(now, s, at, policy.ForRate)
		return true
	}
	return false
}

// pace waits for a turn while calls are spaced because the dependency, or this call's
// partition of it, asked for time.
func (c *Call) pace(p *pacer, now clock.Instant, s *Step) bool {
	if c.rules.Policy.Pace.Off || c.has&paceTurn != 0 {
		return false
	}
	last := min(c.deadline.Add(-c.margin(now)), now.Add(c.rules.Policy.Pace.Max+c.rules.Policy.Pace.Max/4))
	at, ok := p.turn(now, last, chance.U(c.draw(), 0, uint64(c.sends), chance.Pacing))
	if !ok {
		c.refuse(now, s, policy.Paced, at.Sub(now))
		return true
	}
	c.has |= paceTurn
	if at <= now {
		return false
	}
	if _, shut := c.shut(at); shut { // no sleep into an open breaker
		after, _ := c.shut(now)
		c.refuse(now, s, policy.BreakerOpen, after)
		return true
	}
	c.wake, c.phase = at, resting
	c.wait(now, s, at, policy.ForPace)
	return true
}

// paced reports whether calls are spaced, so that a hedge has no place.
func (c *Call) paced() bool {
	p := c.lane.pacer.Load()
	return p != nil && p.active.Load() && !c.rules.Policy.Pace.Off
}

// margin is the least time that must be left for an attempt to be worth starting:
// the configured one, or what the policy's percentile of attempts takes.
func (c *Call) margin(now clock.Instant) time.Duration {
	t := &c.rules.Policy.Timeout
	least := on(t.Margin)
	if t.Fit <= 0 {
		return least
	}
	if d, n := c.lane.latency.Load().Recent(now, float64(t.Fit)); n >= enoughSamples {
		return max(least, d)
	}
	return least
}

// throttle counts the attempt as a request and rejects it with the probability
// that recent accepts call for.
func (c *Call) throttle(now clock.Instant) bool {
	if c.has&request != 0 {
		return true
	}
	p := c.state.throttle().Admit(now, c.shard, c.rules.Policy.Throttle.K)
	c.has |= request
	c.countedAt = now
	return p == 0 || chance.U(c.draw(), 0, uint64(c.sends), chance.Throttled) >= p
}

// uncount takes back the request of an attempt that was not sent for a reason
// other than throttling: it says nothing about what the dependency accepts.
func (c *Call) uncount(now clock.Instant) {
	if c.has&request != 0 {
		c.has &^= request
		c.state.throttle().Forget(c.countedAt, now, c.shard)
	}
}

// refuse ends the call because a layer said no.
func (c *Call) refuse(now clock.Instant, s *Step, why policy.Reason, after time.Duration) {
	if c.log != nil {
		c.log.add(policy.Event{Kind: policy.KindAttemptRefused, At: now, Reason: why, Attempt: c.sends + 1, Until: now.Add(after)})
	}
	c.after = max(after, 0)
	c.end(now, why)
	s.Verb = Return
}

// wait reports a wait once, when it begins.
func (c *Call) wait(now clock.Instant, s *Step, until clock.Instant, what string) {
	c.sayWait(now, until, what)
	s.wait(min(until, c.deadline))
}

func (c *Call) sayWait(now, until clock.Instant, what string) {
	if c.log != nil && c.said != until {
		c.said = until
		c.log.add(policy.Event{Kind: policy.KindWaiting, At: now, Until: until, Wait: what, Attempt: c.sends + 1})
	}
}

// send fills in the ticket of an attempt that every layer admitted.
func (c *Call) send(now clock.Instant, s *Step, permit breaker.Permit, hedge bool) {
	if c.sends == 0 && c.rules.windowed { // what was refused before is no load, and pays for none
		c.state.window().Deposit(now, c.shard)
	}
	c.sends++
	t := &s.Ticket
	t.Attempt, t.Hedge, t.Sent, t.Deadline, t.last = c.sends, hedge, now, c.deadline, true
	t.hold = hold{permit, c.pending}
	c.pending = bulkhead.Slot{}
	if c.rules.wraps {
		c.wrap(&t.hold)
	}
	if limit := c.rules.Policy.Timeout.Attempt; limit > 0 {
		if at := now.Add(limit); at < t.Deadline {
			t.Deadline, t.last = at, false
		}
	}
	c.has &^= ofAttempt
	c.phase = away
	c.out |= 1 << (c.sends - 1)
	if c.hedging {
		c.hedgeAt = c.nextHedge(now)
	}
	if c.log != nil {
		c.log.add(policy.Event{Kind: policy.KindAttemptSent, At: now, Attempt: c.sends, Hedge: hedge, Until: t.Deadline})
	}
	s.Verb, s.Again = Send, c.again(now)
}

// Start dates an attempt to when its work begins, for a driver that did something
// between Send and the work, such as telling observers: that time is not the
// dependency's, and it counts neither as slow nor towards the attempt's timeout. It
// returns when to call Next at the latest, in place of what the step said.
func (c *Call) Start(now clock.Instant, t *Ticket) (again clock.Instant) {
	by := now.Sub(t.Sent)
	if by > 0 {
		t.Sent = now
		if !t.last {
			t.Deadline = t.Deadline.Add(by)
			t.last = t.Deadline >= c.deadline
			t.Deadline = min(t.Deadline, c.deadline)
		}
		if t.hold.permit.Held() {
			t.hold.permit = c.lane.breaker.Load().Delay(t.hold.permit, by)
		}
		if c.has&wholePermit != 0 {
			c.whole.permit = c.lane.breaker.Load().Delay(c.whole.permit, by)
		}
		if c.hedging && t.Attempt == c.sends && c.hedgeAt != clock.Never {
			c.hedgeAt = c.hedgeAt.Add(by)
		}
	}
	return c.again(now)
}

// wrap moves what its first attempt took for the whole call from the attempt to the
// call.
func (c *Call) wrap(h *hold) {
	if c.guards() && c.rules.Policy.Breaker.Per == policy.PerCall {
		c.has |= wholePermit
		c.whole.permit, h.permit = h.permit, breaker.Permit{}
	}
	if c.rules.bulkhead && c.has&wholeSlot == 0 && c.rules.Policy.Bulkhead.Per == policy.PerCall {
		c.has |= wholeSlot
		c.whole.slot, h.slot = h.slot, bulkhead.Slot{}
	}
}

// dropPending gives back what was taken for an attempt that is not made.
func (c *Call) dropPending(now clock.Instant) {
	if c.has&turn != 0 {
		c.has &^= turn
		if c.state.Rules().rate == c.rules.rate { // of another rate all turns are forgotten
			c.state.limiter().Cancel(now, c.turnAt, c.rules.rate)
		}
	}
	if c.pending.Held() {
		c.state.bulkhead().Release(c.pending)
		c.pending = bulkhead.Slot{}
	}
}
