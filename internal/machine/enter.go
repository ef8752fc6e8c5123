package machine

import (
	"time"

	"github.com/gabion-go/gabion/internal/breaker"
	"github.com/gabion-go/gabion/internal/bulkhead"
	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/internal/learned"
	"github.com/gabion-go/gabion/internal/ratelimit"
	"github.com/gabion-go/gabion/internal/terms"
	"github.com/gabion-go/gabion/policy"
)

// waiting is what a call waits for before its next attempt.
type waiting struct {
	until  clock.Instant    // when it goes on, or gives up: the phase says which
	waiter *bulkhead.Waiter // its place in the queue
	room   *room            // nil without quotas
}

// waitIn begins a wait in that phase, and reports it.
func (c *Call) waitIn(p phase, now, until clock.Instant, what string) {
	if p == resting {
		c.dropSlot()
	}
	c.phase, c.wait.until = p, until
	c.log.wait(now, until, what, c.sent.n)
}

// rest is Next while the call waits before it enters. If the result of the
// last attempt is still open, it holds a slot. The call waits until that is released, or it
// would queue behind itself.
func (c *Call) rest(now clock.Instant, s *Step) (answered bool) {
	switch {
	case now < c.wait.until:
		return s.wait(min(c.wait.until, c.deadline))
	case c.sent.open != 0:
		return s.wait(now + 1)
	case c.sent.tries > 0 && c.holdRetry(now), c.taken.has&aDebt != 0 && !c.payDebt(now):
	default:
		underShare(c, now) // it may have ended in the wait
		c.phase = entering
	}
	return false
}

// enter asks the layers that stand before the slot, and takes the slot: pace, throttle,
// bulkhead. A layer that says "later" makes the call wait, one that says "no" ends it.
func (c *Call) enter(now clock.Instant, s *Step) (answered bool) {
	if c.inside {
		c.phase = sending
		return false
	}
	if p := c.part.pacer.Load(); p != nil && p.on() && !c.takeStart(p, now) {
		return false
	}
	if c.wait.room != nil {
		if due, answered := c.wait.room.take(c, now, s); !due {
			return answered
		}
	}
	if c.rules.throttled && !c.takeRequest(now) {
		c.throttled(now)
		c.refuse(now, policy.ThrottledLocally, 0)
		return false
	}
	if c.rules.bulkhead && !c.noSlot && c.taken.has&aSlot == 0 {
		slot, ok := c.state.bulkhead().TryAcquire(c.tenant, c.shard)
		switch {
		case ok:
			c.taken.addSlot(slot)
		case !c.noQueue:
			return c.join(now, s)
		}
	}
	c.phase = sending
	return false
}

// join joins the queue for a slot. A call that queues holds no permit of the breaker:
// a probe would age in the queue, and calls of a closed generation would go out through
// an open breaker. The breaker is asked when the slot is there. But a call that it
// would refuse anyway does not queue.
func (c *Call) join(now clock.Instant, s *Step) (answered bool) {
	if after, shut := c.refusedNow(now); shut {
		c.refuse(now, policy.BreakerOpen, after)
		return false
	}
	if c.waker == nil {
		return s.wait(now)
	}
	until := c.deadline
	if wait := c.rules.Policy.Bulkhead.QueueTimeout; wait > 0 {
		until = min(now.Add(wait), c.deadline)
	}
	w, ok := c.state.bulkhead().Join(c.waker, c.priority, c.tenant)
	if !ok {
		c.lack(now, 0, policy.BulkheadFull)
		return false
	}
	c.phase, c.wait.waiter, c.wait.until = queued, w, until
	return false
}

// queue is Next while the call waits for a slot.
func (c *Call) queue(now clock.Instant, s *Step) (answered bool) {
	slot, answer := c.state.bulkhead().Granted(c.wait.waiter)
	switch {
	case answer == bulkhead.Granted:
		c.wait.waiter = nil
		c.taken.addSlot(slot)
		c.phase = sending
	case answer == bulkhead.PushedOut:
		c.wait.waiter = nil
		c.lack(now, 0, policy.BulkheadFull)
	case now < c.wait.until:
		c.log.wait(now, c.wait.until, terms.ForSlot, c.sent.n)
		return s.wait(min(c.wait.until, c.deadline))
	case c.leaveQueue():
		c.phase = sending
	default:
		c.lack(now, now.Sub(c.wait.until)+c.rules.Policy.Bulkhead.QueueTimeout, policy.QueueTimeout)
	}
	return false
}

// lack refuses the call because it has found no slot. That teaches a limit that is learned,
// unless slots are free and only the tenant's share is not.
func (c *Call) lack(now clock.Instant, waited time.Duration, why policy.Reason) {
	c.crowded(waited)
	if n := c.end.numbers; c.rules.limit != nil && n.InUse >= n.Limit {
		c.learnLimit(now, 0, learned.Lacked)
	}
	c.refuse(now, why, 0)
}

// leaveQueue gives up waiting for a slot, unless one was granted meanwhile.
func (c *Call) leaveQueue() (granted bool) {
	slot, granted := c.state.bulkhead().Leave(c.wait.waiter)
	c.wait.waiter = nil
	if granted {
		c.taken.addSlot(slot)
	}
	return granted
}

// trySend is the last part of the way in. The call has its slot; it needs a turn of the
// rate limit and the breaker's permit. The breaker is asked last, so its permit goes
// into the ticket at once.
func (c *Call) trySend(now clock.Instant, s *Step) (answered bool) {
	if c.sent.tries > 0 && c.retriesStopped(now) {
		c.refuse(now, policy.RetriesOff, c.end.after)
		return false
	}
	if now != c.began && now.Add(c.margin(now)) > c.deadline && !c.inside { // a first attempt that did not wait may try
		c.shortOf(now, 0)
		c.refuse(now, policy.DeadlineShort, 0)
		return false
	}
	if c.rules.rate.Interval > 0 && !c.inside && !c.takeTurn(now) {
		return false
	}
	if c.sent.at != nil {
		if after, stranded := c.sent.at.stranded(now); stranded {
			c.refuse(now, policy.BreakerOpen, after)
			return false
		}
	}
	var permit breaker.Permit
	if c.guards() && !(c.inside && c.refuses(now)) {
		p, after, ok := c.part.breaker.Load().Acquire(now, c.shard)
		if !ok {
			c.refuse(now, policy.BreakerOpen, after)
			return false
		}
		permit = p
	}
	c.sent.tries++
	c.send(now, s, permit, false)
	return true
}

// takeTurn takes a turn of the rate limit. It reports false when the call must wait for
// it, or has ended. A reading of the clock may be old by the time it is used, which
// makes others' turns look further away than they are. So the limit is asked again with
// a fresh clock before a refusal is believed.
func (c *Call) takeTurn(now clock.Instant) (due bool) {
	if c.taken.has&aTurn != 0 {
		return true
	}
	if after, shut := c.shut(now); shut {
		c.refuse(now, policy.BreakerOpen, after)
		return false
	}
	longest := c.deadline.Sub(now.Add(c.margin(now))) // a turn that is due now needs none
	if most := c.rules.Policy.RateLimit.MaxWait; most != 0 {
		longest = min(longest, on(most))
		if c.taken.has&again != 0 {
			longest = min(longest, max(c.taken.since.Add(on(most)).Sub(now), 0))
		}
	}
	r := underShare(c, now)
	if c.taken.has&again != 0 { // the share may be another in the moment in which the call began
		r = current(c.state, now)
	}
	if r.rate == ratelimit.Nothing { // a share without any turn: none can be waited for
		longest = 0
	}
	at, ok := c.state.limiter().Reserve(now, r.rate, longest)
	switch {
	case !ok && c.taken.has&asked == 0:
		c.taken.has |= asked
		c.dropSlot()
		c.phase, c.wait.until = resting, now+1
		return false
	case !ok:
		c.tooLong(at.Sub(now), longest)
		c.end.numbers.Shared = r.sharing(OfRate)
		c.refuse(now, policy.RateLimited, r.turnAfter(now, at))
		return false
	}
	c.taken.turn = at
	c.taken.has |= aTurn
	if at > now {
		if c.taken.under = nil; c.rules.lease != nil {
			c.taken.under = r
		}
		if c.taken.has&again == 0 {
			c.taken.since = now
		}
		c.waitIn(limited, now, at, terms.ForRate)
	}
	return at <= now
}

// awaitTurn is Next while the call waits for its turn of the rate limit.
func (c *Call) awaitTurn(now clock.Instant, s *Step) (answered bool) {
	c.lineUp() // before it looks: a later change wakes it
	gone := void(c, now)
	if now < c.wait.until && !gone {
		return s.wait(min(c.wait.until, c.deadline))
	}
	c.leaveLine()
	if gone {
		c.taken.has = c.taken.has&^aTurn | again
	}
	c.phase = sending
	return false
}

// guards reports whether an attempt needs a permit of the breaker.
func (c *Call) guards() bool { return c.rules.guarded && c.taken.has&aPermit == 0 }

// shut asks the breaker whether it would refuse then, without taking anything.
func (c *Call) shut(at clock.Instant) (after time.Duration, shut bool) {
	if !c.guards() {
		return 0, false
	}
	return c.part.breaker.Load().Shut(at)
}

// refusedNow asks the breaker whether it refuses right now, as a half-open one does
// with all its probes out. What is taken to find out goes back at once.
func (c *Call) refusedNow(now clock.Instant) (after time.Duration, refused bool) {
	if !c.guards() {
		return 0, false
	}
	b := c.part.breaker.Load()
	if b.State() != breaker.HalfOpen {
		return b.Shut(now)
	}
	p, after, ok := b.Acquire(now, c.shard)
	b.Settle(now, c.shard, p, breaker.Neutral, 0)
	return after, !ok
}

// refuses asks for work that goes on whatever the breaker says, and that it counts while
// it is not open. A half-open one lets its probes decide.
func (c *Call) refuses(now clock.Instant) bool {
	b := c.part.breaker.Load()
	_, shut := b.Shut(now)
	return shut || b.State() == breaker.HalfOpen
}

// margin is the least time that must be left for an attempt to be worth starting:
// the configured one, or what the policy's percentile of attempts takes. Where re-sends
// came too late lately, one needs what a good answer takes.
func (c *Call) margin(now clock.Instant) time.Duration {
	t := &c.rules.Policy.Timeout
	least := on(t.Margin)
	if k := c.part.cuts(); k != nil && c.sent.n > 0 {
		least = max(least, k.needs.time())
	}
	if t.Fit <= 0 {
		return least
	}
	if d, n := c.part.times.Load().all.Recent(now, float64(t.Fit)); n >= enoughSamples {
		return max(least, d)
	}
	return least
}

// refuse ends the call because a layer said no.
func (c *Call) refuse(now clock.Instant, why policy.Reason, after time.Duration) {
	if c.log != nil {
		*c.log.next(policy.KindAttemptRefused) = policy.Event{
			Kind: policy.KindAttemptRefused, At: now, Reason: why, Attempt: c.sent.n + 1, Until: now.Add(after),
			Left: c.left(now), Numbers: c.end.numbers,
		}
	}
	c.end.after = max(after, 0)
	c.finish(now, why)
}

// logSent reports an attempt that starts. A retry says what it repeats.
func (c *Call) logSent(now clock.Instant, t *Ticket) {
	first := t.Attempt == 1 && !t.Hedge
	if first && c.log.skip.Has(policy.KindAttemptSent) {
		return
	}
	e := c.log.next(0)
	*e = policy.Event{
		Kind: policy.KindAttemptSent, At: now, Attempt: t.Attempt, Hedge: t.Hedge, Until: t.Deadline, Left: c.left(now),
		Measured: c.measured(t) > 0, Last: t.lone && !t.longer, Stretched: t.longer, Partition: placeOf(c, t),
	}
	if !first && !t.Hedge {
		e.Class, e.Code = c.log.class, c.log.code
	}
}

// send fills in the ticket of an attempt that every layer admitted.
func (c *Call) send(now clock.Instant, s *Step, permit breaker.Permit, hedge bool) {
	if c.sent.n == 0 && c.rules.deposits { // what was refused before is no load, and pays for none
		c.deposit(now)
	}
	c.sent.n++
	t := &s.Ticket
	t.Attempt, t.Hedge, t.Sent = c.sent.n, hedge, now
	if c.sent.at != nil {
		c.sent.at.depart(c, now, hedge)
	}
	t.held, t.charge = held{permit, c.taken.slot}, c.taken.has&charges
	if c.rules.whole != 0 {
		c.keep(&t.held)
	}
	limit := c.timeFor(now, t)
	if c.sent.at != nil {
		limit = c.sent.at.limit(t, limit)
	}
	t.endBy(limit, c.deadline)
	c.taken.has = c.taken.kept
	if c.wait.room != nil {
		c.wait.room.send(t.Attempt)
	}
	c.phase = away
	c.sent.out |= t.bit()
	if c.hedge.on {
		c.hedge.at = c.nextHedge(now)
	}
	if c.log != nil {
		c.logSent(now, t)
	}
	s.Verb, s.Again = Send, c.again(now)
}

// Start dates an attempt to when its work begins, for a driver that did something
// between Send and the work, such as calling observers: that time is not the
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
		if t.held.permit.Held() {
			t.held.permit = c.part.breaker.Load().Delay(t.held.permit, by)
		}
		if c.sent.at != nil {
			v := c.sent.at.visit(t)
			v.permit = v.to.guard.breaker.Delay(v.permit, by)
		}
		if c.taken.kept&aPermit != 0 {
			c.taken.permit = c.part.breaker.Load().Delay(c.taken.permit, by)
		}
		if c.hedge.on && t.Attempt == c.sent.n && c.hedge.at != clock.Never {
			c.hedge.at = c.hedge.at.Add(by)
		}
	}
	return c.again(now)
}
