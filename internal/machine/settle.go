package machine

import (
	"github.com/gabion-go/gabion/internal/breaker"
	"github.com/gabion-go/gabion/internal/bulkhead"
	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/internal/learned"
	"github.com/gabion-go/gabion/policy"
)

// attempts are those that a call has sent. Each has a bit in the sets.
type attempts struct {
	at      *placing        // where they go; nil without endpoints
	out     uint64          // under way
	open    uint64          // the result is still open
	lasting uint64          // those of open that outlived their attempt's time
	worked  uint64          // those of open that a learned limit counts when they end
	receipt breaker.Receipt // of the success whose result is open
	n       uint8           // how many were sent
	tries   uint8           // how many of them were not hedges
	last    breaker.Result  // what the last that ended shows of the dependency
	judged  bool            // last is known
	cut     bool            // one was cut off
	plain   bool            // SendPlain has sent the first
}

func (a *attempts) judge(v breaker.Result) { a.last, a.judged = v, true }

// idle reports whether nothing is under way or open.
func (a *attempts) idle() bool { return a.out|a.open == 0 }

// workless reports whether nothing needs a slot any more. What outlived its attempt's
// time needs none.
func (a *attempts) workless() bool { return a.out|a.open&^a.lasting == 0 }

// Settle reports how an attempt ended. It must be called once for every Send, also after
// Return, after a panic and after runtime.Goexit. Of several for one ticket only the
// first counts.
func (c *Call) Settle(now clock.Instant, t Ticket, o policy.Outcome) { c.SettleFrom(now, &t, &o) }

// SettleFrom is Settle for a driver that keeps ticket and outcome. The ticket is only
// read; the outcome is changed to what the machine made of it.
func (c *Call) SettleFrom(now clock.Instant, t *Ticket, o *policy.Outcome) {
	bit := t.bit()
	if c.sent.out&bit == 0 {
		return
	}
	c.sent.out &^= bit
	if c.wait.room != nil {
		c.wait.room.end(now, t, o)
	}
	if o.Class == policy.ClassSuccess && !o.NeverSent && c.phase != over {
		c.succeed(now, t, o, bit)
		return
	}
	if o.Class == policy.ClassUndecided || o.Class > policy.ClassCrashed {
		o.Class, o.Effect = policy.ClassUnclassified, policy.UnknownEffect
	}
	late := layerTimeout(now, t, o)
	loser := c.phase == over && !(c.end.reason == policy.CallTimeout && now >= c.deadline)
	c.report(now, t, o, loser)
	c.outlasted(now, t, c.rules.shows(o.Class) == breaker.Good, loser || o.Class == policy.ClassIgnored)
	switch {
	case loser:
	case late == policy.AttemptTimeout:
		c.sent.cut = true
	case late == policy.CallTimeout && t.Attempt > 1 && !t.Hedge && !c.rules.Policy.Timeout.Strict:
		c.part.addCuts().needs.tooLate(now.Sub(t.Sent))
	}
	switch {
	case c.repeat:
		c.settleRepeat(now, t, o.Class)
	case !loser && o.Class.Transient():
		c.endCharge(t, false)
	}
	if c.rules.timed {
		c.recordCut(now, t, o, late)
	}
	if o.Open {
		c.sent.open |= bit
	}
	if c.log != nil {
		c.logSettled(now, t, o, late, loser)
	}
	if c.phase == over {
		c.settleLate(now, o)
	} else {
		if c.advance(now, o, late); c.Succeeded() {
			c.countSuccess(now, t, 0)
		}
	}
	if c.rules.limit != nil {
		c.teach(now, t, c.teaches(now, t, o, loser), o.Open)
	}
	c.giveBack(t, o)
}

// succeed ends the call well. Nearly every attempt ends like this.
func (c *Call) succeed(now clock.Instant, t *Ticket, o *policy.Outcome, bit uint64) {
	c.sent.judge(breaker.Good)
	if c.sent.at != nil {
		c.sent.at.arrive(now, t, o, breaker.Good, false)
	}
	if t.held.permit.Held() {
		c.settlePermit(now, t.held.permit, breaker.Good, c.openHint(o), o.Open)
	}
	if c.rules.throttled {
		c.state.throttle().Accept(t.Sent, now)
	}
	earned, first := c.earn(now, t)
	switch {
	case c.repeat:
		c.settleRepeat(now, t, policy.ClassSuccess)
	case t.charge != 0:
		c.endCharge(t, true)
	}
	c.part.pacer.Load().accept(now, now.Sub(t.Sent))
	if c.rules.learns {
		c.learn(now, t)
	}
	if t.watched {
		c.outlasted(now, t, true, false)
		c.part.cuts().needs.answered(now.Sub(t.Sent))
	}
	if o.HasAfter && !o.Alone {
		c.holdBack(now, t, o)
	}
	if o.Open {
		c.sent.open |= bit
	}
	if c.log != nil {
		c.log.success(now, c, t, o)
	}
	c.finish(now, policy.None)
	if first || timed(earned) || t.Hedge {
		if first {
			c.state.earned.Took(now.Sub(t.Sent))
		}
		c.countSuccess(now, t, earned)
	}
	if c.rules.limit != nil {
		c.teach(now, t, learned.Worked, o.Open)
	}
	c.giveBack(t, o)
}

// earn gives a success to the budget that successes earn for, if there is one: see
// [budget.Earned.Earn].
func (c *Call) earn(now clock.Instant, t *Ticket) (n uint64, first bool) {
	if !c.rules.earns {
		return 0, false
	}
	n, first = c.state.earned.Earn(now, c.shard, &c.rules.earned)
	if t.lone || t.longer {
		c.forgo(now, t)
	}
	return n, first
}

// forgo gives back what a success has earned that came so late that one more attempt would have made
// it later.
func (c *Short) forgo(now clock.Instant, t *Ticket) {
	if now.Sub(t.Sent) <= c.rules.Policy.Timeout.Attempt {
		return
	}
	c.state.earned.Forgo(now, &c.rules.earned)
	if c.safe && !t.watched {
		c.outlasted(now, t, true, false)
	}
}

// layerTimeout turns a failure at or after the attempt's deadline into a timeout, unless
// the dependency really answered: whatever the work made of the end of its context, our
// clock ended it. It returns whose deadline it was.
func layerTimeout(now clock.Instant, t *Ticket, o *policy.Outcome) policy.Reason {
	switch o.Class {
	case policy.ClassNetwork, policy.ClassTimeout, policy.ClassUnclassified, policy.ClassIgnored:
	default:
		return policy.None
	}
	if now < t.Deadline {
		return policy.None
	}
	o.Class, o.Undone = policy.ClassTimeout, false
	if !o.NeverSent {
		o.Effect = policy.UnknownEffect
	}
	return t.Cause()
}

func (c *Call) partitionName() string {
	if c.named == nil {
		return ""
	}
	return c.named.name
}

// giveBack releases the attempt's slot, unless the result lives on; then Release does. It
// is the last step, so that whoever gets the slot finds what the breaker made of this
// attempt, or of the whole call.
func (c *Call) giveBack(t *Ticket, o *policy.Outcome) {
	switch {
	case o.Open || !t.held.slot.Held():
	case c.sent.plain && c.phase == away && c.goesOn() && bulkhead.Returns(c.state.bulkhead(), t.held.slot):
		c.taken.addSlot(t.held.slot)
	default:
		c.state.bulkhead().Release(t.held.slot, c.shard)
	}
}

// goesOn reports whether the plan of a call whose attempt has failed comes next, with nothing between: a driver that begins with
// SendPlain asks Next right after Settle. If the retry is sent at once, it keeps the slot that it would give back and take
// again. If not, the plan gives it back.
func (c *Call) goesOn() bool { return c.sent.idle() && c.log == nil && c.rules.plain }

func (c *Call) logSettled(now clock.Instant, t *Ticket, o *policy.Outcome, late policy.Reason, loser bool) {
	kind := policy.KindAttemptSettled
	if c.phase == over {
		kind = policy.KindLoserSettled
	}
	took := now.Sub(t.Sent)
	*c.log.next(kind) = policy.Event{
		Kind: kind, At: now, Class: o.Class, Reason: late, Effect: o.Effect, Attempt: t.Attempt,
		Hedge: t.Hedge, Took: took, Slow: c.slow(now, t), Code: o.Code, Left: c.left(t.Sent),
		Measured: late == policy.AttemptTimeout && c.measured(t) > 0, Last: late == policy.AttemptTimeout && t.lone && !t.longer,
		Stretched: late == policy.AttemptTimeout && t.longer, Partition: placeOf(c, t),
	}
	if c.phase != over {
		c.log.code, c.log.class, c.log.hedge = o.Code, o.Class, t.Hedge
	}
}

// settleLate settles what was still out when the call ended.
func (c *Call) settleLate(now clock.Instant, o *policy.Outcome) {
	if o.Effect == policy.UnknownEffect && o.Class != policy.ClassSuccess {
		c.end.effect = policy.UnknownEffect
	}
	c.whenIdle(now)
}

// whenIdle gives back what is held until nothing is out any more: the slot of the whole
// call, which a result that outlived its attempt's time does not need, and the place in
// the partition, which it does.
func (c *Call) whenIdle(now clock.Instant) {
	c.endWhole(now)
	if c.sent.idle() {
		c.leavePartition(now)
	}
}

// advance moves the call on after an attempt that was not a loser.
func (c *Call) advance(now clock.Instant, o *policy.Outcome, late policy.Reason) {
	if o.Class == policy.ClassSuccess { // of one that was never sent
		c.finish(now, policy.None)
		return
	}
	if o.Effect == policy.UnknownEffect {
		c.end.effect = policy.UnknownEffect
	}
	c.retry.add(o)
	if o.Class == policy.ClassContention && c.retry.lost == 1 && c.rules.Policy.Retry.Contention.Repeats > 0 {
		c.state.contention().Deposit(now, 0) // its first conflict pays for this call
	}
	c.end.after = 0
	if o.HasAfter && !o.Empty {
		c.end.after = max(o.After, 0)
	}
	switch {
	case late == policy.CallTimeout:
		c.finish(now, policy.CallTimeout)
	case o.Class == policy.ClassCrashed:
		c.finish(now, policy.WorkCrashed)
	case o.Class == policy.ClassIgnored:
		c.finish(now, policy.Canceled)
	case o.Class == policy.ClassUnclassified:
		c.finish(now, policy.UnclassifiedError)
	case o.Exhausted && o.NeverSent:
		c.finish(now, policy.PoolExhausted)
	case o.Class == policy.ClassRejected:
		c.finish(now, policy.DoNotRetry)
	case !o.Class.Transient():
		c.finish(now, policy.NotRetryable)
	default:
		c.pullHedge(now, o)
	}
}
