package machine

import (
	"time"

	"github.com/gabion-go/gabion/internal/breaker"
	"github.com/gabion-go/gabion/internal/bulkhead"
	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/policy"
)

// This file is the short way of a plain call: one that every layer lets through at once, and
// whose attempt succeeds. It decides what Next and Settle would, and they take over at the first
// thing that is not plain. A game in plain_test.go plays both ways.

// Short is what a plain call needs of a Call, which has it too. A call that has no options can begin as a Short: BeginShort,
// SendShort and SucceedShort, and Resume where it turns out not to be plain.
type Short struct {
	state    *State
	rules    *Rules          // those in force when the call began
	part     *partition      // whose breaker, latency and pace count
	named    *namedPartition // the same, if the call named one and is counted in it
	tenant   string
	began    clock.Instant
	deadline clock.Instant
	shard    uint32
	safe     bool
	noRetry  bool
	noSlot   bool
}

// SendPlain is the first Next of a call that every layer lets through at once, where the policy
// has no layer that looks at more than that. The ticket must be zero. It reports false, and has taken nothing, where there is
// more to decide: then the ticket means nothing.
func (c *Call) SendPlain(now clock.Instant, t *Ticket) (sent bool) {
	if !c.rules.plain || c.inside && c.rules.rate.Interval > 0 || c.sent.n != 0 || c.phase != entering || c.log != nil || now != c.began || !c.Short.send(now, t) {
		return false
	}
	c.sentPlain()
	return true
}

// sentPlain notes that the first attempt is out.
func (c *Call) sentPlain() {
	c.sent.n, c.sent.tries, c.sent.out, c.sent.plain, c.phase = 1, 1, 1, true, away
}

// Short reports whether calls under these rules may begin as a Short: they need no key.
func (r *Rules) Short() bool { return r.plain && r.Policy.Key == policy.KeyDeclared }

// BeginShort is Begin of a call that has no parameters but a deadline and a shard, as Params has them. The rules must
// be Short.
func BeginShort(c *Short, s *State, r *Rules, now, deadline clock.Instant, shard uint32) {
	if now >= r.until {
		r = ofShort(s, r, now)
	}
	c.state, c.rules, c.part, c.began, c.shard, c.safe = s, r, &s.main, now, shard, r.Policy.Safe
	c.setDeadline(now, 0, deadline)
}

// Declare gives a call that has begun more of its parameters, as Params has them.
func (c *Short) Declare(safe, noRetry bool, timeout time.Duration, deadline clock.Instant) {
	c.safe, c.noRetry = c.safe || safe, noRetry
	c.setDeadline(c.began, timeout, deadline)
}

// SendShort is SendPlain of a Short.
func SendShort(c *Short, t *Ticket) (sent bool) { return c.send(c.began, t) }

// Resume makes a Call of a Short. Sent says that its attempt is out. Of p it takes what a Short has no use for.
func Resume(c *Call, s *Short, p *Params, sent bool) {
	c.Short, c.priority, c.strict = *s, p.Priority, p.Strict
	if sent {
		c.sentPlain()
	}
}

// Shard is the one that BeginShort was given.
func (c *Short) Shard() uint32 { return c.shard }

// Began is when the call began.
func (c *Short) Began() clock.Instant { return c.began }

// send takes what the attempt needs, if it is there at once.
func (c *Short) send(now clock.Instant, t *Ticket) (sent bool) {
	if now >= c.deadline {
		return false
	}
	if p := c.part.pacer.Load(); p != nil && p.on() {
		return false
	}
	if k := c.part.cuts(); k != nil && !k.quiet() {
		return false
	}
	r := c.rules
	t.Attempt, t.Sent = 1, now
	var ok bool
	if r.guarded {
		if t.held.permit, ok = c.part.breaker.Load().Pass(now); !ok {
			return false
		}
	}
	if r.bulkhead && !c.noSlot {
		if t.held.slot, ok = c.state.bulkhead().TryAcquire(c.tenant, c.shard); !ok {
			return false
		}
	}
	if r.rate.Interval > 0 && !c.turnNow(now, t) {
		return false
	}
	if r.deposits {
		c.count(now)
	}
	limit := r.Policy.Timeout.Attempt
	if r.lasts && !c.mayFollow(now, limit, 1) {
		limit, t.lone = r.Policy.Timeout.Last, true
	}
	t.endBy(limit, c.deadline)
	return true
}

// turnNow takes a turn of the rate limit, if one is due now. If not it gives the slot back, which is taken again before the call
// waits for its turn.
func (c *Short) turnNow(now clock.Instant, t *Ticket) bool {
	if _, ok := c.state.limiter().Reserve(now, c.rules.rate, 0); ok {
		return true
	}
	if t.held.slot.Held() {
		c.state.bulkhead().Release(t.held.slot, c.shard)
		t.held.slot = bulkhead.Slot{}
	}
	return false
}

// SucceedPlain is Settle for the attempt that SendPlain has sent, if it is out and
// has succeeded in a way that says nothing else. It reports false, and has done nothing, where it has not.
func (c *Call) SucceedPlain(now clock.Instant, t *Ticket, o *policy.Outcome) (done bool) {
	if !c.sent.plain || c.sent.out != 1 || c.phase != away || !c.Short.succeed(now, t, o, &c.sent.receipt) {
		return false
	}
	if c.phase, c.sent.out = over, 0; o.Open {
		c.sent.open = t.bit()
	}
	c.sent.judge(breaker.Good)
	return true
}

// SucceedShort is SucceedPlain for the attempt of a Short, whose result does not live on. Then the call is over.
func SucceedShort(c *Short, now clock.Instant, t *Ticket, o *policy.Outcome) (done bool) {
	return c.succeed(now, t, o, nil)
}

// succeed gives back what the attempt holds, unless its result lives on: then it fills in the receipt of the breaker.
func (c *Short) succeed(now clock.Instant, t *Ticket, o *policy.Outcome, receipt *breaker.Receipt) (done bool) {
	if o.Class != policy.ClassSuccess || o.NeverSent || o.HasAfter || o.Open && receipt == nil {
		return false
	}
	switch {
	case !t.held.permit.Held():
	case o.Open:
		*receipt = c.part.breaker.Load().SettleOpen(now, c.shard, t.held.permit, breaker.Good, 0)
	default:
		c.part.breaker.Load().Succeed(now, c.shard, &t.held.permit)
	}
	var earned uint64
	var first bool
	if c.rules.earns {
		if earned, first = c.state.earned.Earn(now, c.shard, &c.rules.earned); t.lone {
			c.forgo(now, t)
		}
	}
	if p := c.part.pacer.Load(); p != nil {
		p.accept(now, now.Sub(t.Sent))
	}
	if c.named != nil && !o.Open {
		c.leavePartition(now)
	}
	if first || timed(earned) {
		if first {
			c.state.earned.Took(now.Sub(t.Sent))
		}
		c.countSuccess(now, t, earned)
	}
	if t.held.slot.Held() && !o.Open {
		c.state.bulkhead().Release(t.held.slot, c.shard)
	}
	return true
}

// Plain returns what is to be said of a plain success besides its time: how much the attempt had left
// until the call's deadline, and whether it was slow.
func Plain(now clock.Instant, c *Short, t *Ticket) (left time.Duration, slow bool) {
	return c.left(t.Sent), c.slow(now, t)
}
