package machine

import (
	"time"

	"github.com/gabion-go/gabion/internal/breaker"
	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/internal/terms"
	"github.com/gabion-go/gabion/policy"
)

// report gives the parts what the attempt showed of the dependency. A loser shows
// nothing: it was ended because a sibling won or the caller left.
func (c *Call) report(now clock.Instant, t *Ticket, o *policy.Outcome, loser bool) {
	shows := c.rules.shows(o.Class)
	if o.Class == policy.ClassThrottled && !o.HasAfter && !o.Alone && c.part.pacer.Load().allRefused() {
		shows = breaker.Bad // no quota refuses everything
	}
	if o.Class == policy.ClassTimeout && c.hurried(now, t) {
		shows = breaker.Neutral
	}
	if loser || o.NeverSent && !o.Class.Transient() || // such as a certificate that we refuse
		o.Class == policy.ClassContention && c.slow(now, t) { // it waited for another call, and not for the dependency
		shows = breaker.Neutral
	}
	if c.sent.at != nil {
		shows = c.sent.at.arrive(now, t, o, shows, loser)
	}
	if t.held.permit.Held() {
		c.settlePermit(now, t.held.permit, shows, c.openHint(o), o.Open)
	}
	if !loser {
		c.sent.judge(shows)
	}
	if c.rules.throttled {
		c.settleRequest(now, t, o, shows)
	}
	switch {
	case loser && c.end.reason == policy.None:
		c.countOvertaken(now, t)
		c.recordTime(now, t) // it would have taken longer than this, so it counts as that at least
	case o.Class == policy.ClassSuccess && !loser && c.rules.learns:
		c.learn(now, t)
	}
	if c.rules.settles && (loser || o.Class != policy.ClassSuccess) {
		c.payFailure(now, t, o, loser)
	}
	if (o.HasAfter || o.Class == policy.ClassThrottled) && !o.Alone && o.Class != policy.ClassRejected && !loser && !c.wait.room.blames(t) {
		c.holdBack(now, t, o)
	}
}

// settlePermit gives a permit back with what the attempt showed. A result that lives on
// may break later; its receipt says where the breaker has counted it.
func (c *Call) settlePermit(now clock.Instant, p breaker.Permit, v breaker.Result, after time.Duration, open bool) {
	b := c.part.breaker.Load()
	if open {
		c.sent.receipt = b.SettleOpen(now, c.shard, p, v, after)
		return
	}
	b.Settle(now, c.shard, p, v, after)
}

// settleRequest counts an accept for every answer that is no sign of overload.
func (c *Call) settleRequest(now clock.Instant, t *Ticket, o *policy.Outcome, shows breaker.Result) {
	switch {
	case o.Class == policy.ClassThrottled || shows == breaker.Bad:
	case shows == breaker.Neutral:
		c.state.throttle().Forget(t.Sent, now)
	default:
		c.state.throttle().Accept(t.Sent, now)
	}
}

// learn gives a success to the parts that count successes.
func (c *Call) learn(now clock.Instant, t *Ticket) {
	c.recordTime(now, t)
	if c.rules.timed {
		c.recordFinish(now, t)
	}
	if c.rules.settles {
		c.payIn(t)
	}
}

// recordTime records how long an attempt took. A hedge is not counted: it is sent only
// where the first is late, so its time says little about all calls.
func (c *Call) recordTime(now clock.Instant, t *Ticket) {
	if c.rules.measured && !t.Hedge {
		c.part.times.Load().all.Record(now, c.shard, now.Sub(t.Sent))
	}
}

func (c *Short) slow(now clock.Instant, t *Ticket) bool {
	limit := c.rules.Policy.Breaker.SlowCall
	return limit > 0 && now.Sub(t.Sent) > limit
}

// hurried reports whether an attempt timed out because the call had too little time left
// for it. That says nothing about the dependency: else a few callers in a hurry could
// open the breaker for everybody.
func (c *Call) hurried(now clock.Instant, t *Ticket) bool {
	return t.last && now >= t.Deadline && t.Deadline.Sub(t.Sent) < c.rules.due()
}

// due is the least time that an attempt must have had for a timeout to count: the
// margin, unless the policy itself gives less.
func (r *Rules) due() time.Duration {
	p := &r.Policy.Timeout
	due := on(p.Margin)
	for _, limit := range [...]time.Duration{p.Attempt, p.Call} {
		if limit > 0 {
			due = min(due, limit)
		}
	}
	return due
}

// openHint is how long a failing dependency asked to be left alone, at most as long as
// the policy would wait: one answer must not open a breaker for hours.
func (c *Call) openHint(o *policy.Outcome) time.Duration {
	if o.HasAfter {
		return min(o.After, c.rules.Policy.Retry.MaxAfter)
	}
	return 0
}

// holdBack paces the dependency, or this partition of it, until the time that it asked
// for. A throttled attempt that names no time asks for one wait of the backoff. An attempt that was not refused
// may say that a quota is empty now.
func (c *Call) holdBack(now clock.Instant, t *Ticket, o *policy.Outcome) {
	p := c.rules.Policy.Pace
	if p.Off || c.partitionName() == terms.Overflow || c.sent.at != nil && c.sent.at.hold(now, t, o, &c.rules.Policy) {
		return
	}
	after := o.After
	if !o.HasAfter {
		after = c.rules.Policy.Retry.Backoff.Base
	}
	until := now.Add(min(max(after, 0), p.Max))
	pacer := c.part.pace()
	if o.Empty && !o.Class.Transient() {
		if until = now.Add(after); pacer.empty(now, until, p.Max) {
			c.state.note(policy.Event{Kind: policy.KindPaceSet, At: now, Until: until, Partition: c.partitionName()})
		}
		return
	}
	if o.Class == policy.ClassThrottled {
		pacer.prove(now, t.Sent)
	}
	pacer.full.Store(o.Busy)
	lately := c.recent(now)
	if !o.HasAfter && c.rules.earns && !pacer.refuse(lately) {
		return
	}
	if pacer.hold(now, until, o.HasAfter, lately) {
		c.state.note(policy.Event{Kind: policy.KindPaceSet, At: now, Until: until, Partition: c.partitionName()})
	}
}

// recent is what the dependency, or this partition of it, answered well just now, as far
// as is known: of a partition no more than its breaker has counted.
func (c *Call) recent(now clock.Instant) (a successes) {
	if !c.rules.earns {
		return successes{}
	}
	a.n, a.rate = c.state.earned.Recent(now, &c.rules.earned)
	a.worked = c.state.earned.Any()
	if c.named != nil && c.rules.guarded {
		seen := c.part.breaker.Load().Snapshot(now).Counts
		good := max(seen.Calls-seen.Failures, 0)
		a.rate = a.rate * float64(min(good, a.n)) / float64(max(a.n, 1))
		a.n, a.worked = min(good, a.n), good > 0
	}
	return a
}
