package machine

import (
	"time"

	"github.com/gabion-go/gabion/internal/breaker"
	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/policy"
)

// attempts are those that a call has sent. Each has a bit in the sets.
type attempts struct {
	out     uint64          // under way
	open    uint64          // the result is still open
	lasting uint64          // those of open that outlived their attempt's time
	receipt breaker.Receipt // of the success whose result is open
	n       uint8           // how many were sent
	tries   uint8           // how many of them were not hedges
	last    breaker.Result  // what the last that ended shows of the dependency
	judged  bool            // last is known
}

func (a *attempts) judge(v breaker.Result) { a.last, a.judged = v, true }

// idle reports whether nothing is under way or open.
func (a *attempts) idle() bool { return a.out|a.open == 0 }

// workless reports whether nothing needs a slot any more, which what outlived its
// attempt's time does not.
func (a *attempts) workless() bool { return a.out|a.open&^a.lasting == 0 }

// Settle reports that an attempt ended. Exactly one must come for every Send,
// also after Return, after a panic and after runtime.Goexit; of several about one
// ticket only the first counts.
func (c *Call) Settle(now clock.Instant, t Ticket, o policy.Outcome) { c.SettleFrom(now, &t, &o) }

// SettleFrom is Settle for a driver that keeps ticket and outcome. The ticket is
// only read; the outcome is then as the machine understood it.
func (c *Call) SettleFrom(now clock.Instant, t *Ticket, o *policy.Outcome) {
	bit := t.bit()
	if c.sent.out&bit == 0 {
		return
	}
	c.sent.out &^= bit
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
	if o.Open {
		c.sent.open |= bit
	}
	if c.log != nil {
		c.logHome(now, t, o, late, loser)
	}
	if c.phase == over {
		c.afterwards(now, o)
	} else {
		c.advance(now, o, late)
	}
	c.giveBack(t, o)
}

// succeed ends the call well. Nearly every attempt ends like this.
func (c *Call) succeed(now clock.Instant, t *Ticket, o *policy.Outcome, bit uint64) {
	c.sent.judge(breaker.Good)
	if t.held.permit.Held() {
		c.settlePermit(now, t.held.permit, breaker.Good, c.openHint(o), o.Open)
	}
	if c.rules.throttled {
		c.state.throttle().Accept(t.Sent, now)
	}
	if c.rules.earns {
		c.state.earned.Earn(now, c.shard, &c.rules.earned)
	}
	c.part.pacer.Load().accept(now)
	if c.rules.learns {
		c.learn(now, t)
	}
	if o.HasAfter && !o.Alone {
		c.holdBack(now, o)
	}
	if o.Open {
		c.sent.open |= bit
	}
	if c.log != nil {
		c.logHome(now, t, o, policy.None, false)
	}
	c.finish(now, policy.None)
	c.giveBack(t, o)
}

// hear gives a permit back with its verdict. A result that lives on may break after
// it, and what the breaker counted is then known by its receipt.
func (c *Call) settlePermit(now clock.Instant, p breaker.Permit, v breaker.Result, after time.Duration, open bool) {
	b := c.part.breaker.Load()
	if open {
		c.sent.receipt = b.SettleOpen(now, c.shard, p, v, after)
		return
	}
	b.Settle(now, c.shard, p, v, after)
}

// learn tells the parts that want to know of successes.
func (c *Call) learn(now clock.Instant, t *Ticket) {
	c.recordTime(now, t)
	if c.rules.Policy.Retry.Budget.Shape == policy.BudgetTokens {
		if b := c.state.tokens(); b != nil {
			b.Refill(c.rules.tokens)
		}
	}
}

// recordTime records how long an attempt took. A hedge is not counted: it is sent only where the
// first is late, and would count for the quick ones.
func (c *Call) recordTime(now clock.Instant, t *Ticket) {
	if c.rules.measured && !t.Hedge {
		c.part.latency.Load().Record(now, c.shard, now.Sub(t.Sent))
	}
}

// layerTimeout turns a failure at or past the attempt's deadline into the timeout
// of the layer whose deadline it was, unless the dependency really answered.
// Whatever the work made of its context's end, it was our clock that ended it.
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
	if t.last {
		return policy.CallTimeout
	}
	return policy.AttemptTimeout
}

// report tells the parts what the attempt showed of the dependency.
// A loser says nothing: it was cut off because a sibling won or the caller left.
func (c *Call) report(now clock.Instant, t *Ticket, o *policy.Outcome, loser bool) {
	shows := c.rules.shows(o.Class)
	if o.Class == policy.ClassTimeout && c.hurried(now, t) {
		shows = breaker.Neutral
	}
	if loser || o.NeverSent && !o.Class.Transient() || // such as a certificate that we refuse
		o.Class == policy.ClassContention && c.slow(now, t) { // it waited for a rival, and not for the dependency
		shows = breaker.Neutral
	}
	if t.held.permit.Held() {
		c.settlePermit(now, t.held.permit, shows, c.openHint(o), o.Open)
	}
	if !loser {
		c.sent.judge(shows)
	}
	if c.rules.throttled {
		c.tellThrottle(now, t, o, shows)
	}
	switch {
	case loser && c.end.reason == policy.None:
		c.recordTime(now, t) // it would have taken longer than this, so it counts as that at least
	case o.Class == policy.ClassSuccess && !loser && c.rules.learns:
		c.learn(now, t)
	}
	if (o.HasAfter || o.Class == policy.ClassThrottled) && !o.Alone && o.Class != policy.ClassRejected && !loser {
		c.holdBack(now, o)
	}
}

// hurried reports whether an attempt timed out because the call had no time to
// give it. That says nothing about the dependency, or a few callers in a hurry
// could close it to everybody.
func (c *Call) hurried(now clock.Instant, t *Ticket) bool {
	return t.last && now >= t.Deadline && t.Deadline.Sub(t.Sent) < c.due()
}

// due is the least time that an attempt must be given to be judged by it: the
// margin, unless the policy itself is faster.
func (c *Call) due() time.Duration {
	p := &c.rules.Policy.Timeout
	due := on(p.Margin)
	for _, limit := range [...]time.Duration{p.Attempt, p.Call} {
		if limit > 0 {
			due = min(due, limit)
		}
	}
	return due
}

// openHint is how long a failing dependency asked to be left alone, within what
// the policy would wait for: one answer must not close a dependency for hours.
func (c *Call) openHint(o *policy.Outcome) time.Duration {
	if o.HasAfter {
		return min(o.After, c.rules.Policy.Retry.MaxAfter)
	}
	return 0
}

// tellThrottle counts an accept for every answer that is not an overload's sign.
func (c *Call) tellThrottle(now clock.Instant, t *Ticket, o *policy.Outcome, shows breaker.Result) {
	switch {
	case o.Class == policy.ClassThrottled || shows == breaker.Bad:
	case shows == breaker.Neutral:
		c.state.throttle().Forget(t.Sent, now)
	default:
		c.state.throttle().Accept(t.Sent, now)
	}
}

// holdBack paces the dependency, or this partition of it, until the time that it
// asked for. Without a time, a throttled attempt asks for one wait of the backoff.
func (c *Call) holdBack(now clock.Instant, o *policy.Outcome) {
	p := c.rules.Policy.Pace
	if p.Off || c.partitionName() == policy.Overflow {
		return
	}
	after := o.After
	if !o.HasAfter {
		after = c.rules.Policy.Retry.Backoff.Base
	}
	until := now.Add(min(max(after, 0), p.Max))
	if c.part.pace().hold(now, until, o.HasAfter, c.bears(now)) {
		c.state.note(policy.Event{Kind: policy.KindPaceSet, At: now, Until: until, Partition: c.partitionName()})
	}
}

// bears is what the dependency, or this partition of it, answered well just now, as far
// as is known: of a partition no more than its breaker has counted.
func (c *Call) bears(now clock.Instant) (b bears) {
	if !c.rules.earns {
		return bears{}
	}
	b.successes, b.rate = c.state.earned.Recent(now, &c.rules.earned)
	if c.named != nil && c.rules.guarded {
		seen := c.part.breaker.Load().Snapshot(now).Counts
		good := max(seen.Calls-seen.Failures, 0)
		b.rate = b.rate * float64(min(good, b.successes)) / float64(max(b.successes, 1))
		b.successes = min(good, b.successes)
	}
	return b
}

func (c *Call) partitionName() string {
	if c.named == nil {
		return ""
	}
	return c.named.name
}

// giveBack returns the slot, unless the result lives on; then Release does. It comes
// last, so that whoever gets the slot sees what the breaker makes of this attempt, or of
// the whole call.
func (c *Call) giveBack(t *Ticket, o *policy.Outcome) {
	if !o.Open && t.held.slot.Held() {
		c.state.bulkhead().Release(t.held.slot)
	}
}

func (c *Call) logHome(now clock.Instant, t *Ticket, o *policy.Outcome, late policy.Reason, loser bool) {
	kind := policy.KindAttemptSettled
	if c.phase == over {
		kind = policy.KindLoserSettled
	}
	took := now.Sub(t.Sent)
	c.log.add(policy.Event{
		Kind: kind, At: now, Class: o.Class, Reason: late, Effect: o.Effect, Attempt: t.Attempt,
		Hedge: t.Hedge, Took: took, Slow: c.slow(now, t),
	})
}

func (c *Call) slow(now clock.Instant, t *Ticket) bool {
	limit := c.rules.Policy.Breaker.SlowCall
	return limit > 0 && now.Sub(t.Sent) > limit
}

// afterwards is the end of what was still out when the call returned.
func (c *Call) afterwards(now clock.Instant, o *policy.Outcome) {
	if o.Effect == policy.UnknownEffect && o.Class != policy.ClassSuccess {
		c.end.effect = policy.UnknownEffect
	}
	c.whenIdle(now)
}

// whenIdle gives back what is held until nothing is out any more. A result that
// outlived its attempt's time has no part in the slot, but in the partition.
func (c *Call) whenIdle(now clock.Instant) {
	if c.sent.workless() {
		c.endWhole(now)
	}
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
	if o.HasAfter {
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
	case o.Class == policy.ClassRejected:
		c.finish(now, policy.DoNotRetry)
	case !o.Class.Transient():
		c.finish(now, policy.NotRetryable)
	default:
		c.pullHedge(now, o)
	}
}
