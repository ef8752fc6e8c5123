package machine

import (
	"time"

	"github.com/gabion-go/gabion/internal/breaker"
	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/policy"
)

// This file is the short way of a plain call: one that every layer lets through at once, and
// whose attempt succeeds. It decides what Next and Settle would, and they take over at the first
// thing that is not plain. A game in plain_test.go plays both ways.

// SendPlain is the first Next of a call that every layer lets through at once, where the policy
// has no layer that looks at more than that. It reports false, and has taken nothing, where there is
// more to decide: then the ticket means nothing.
func (c *Call) SendPlain(now clock.Instant, t *Ticket) (sent bool) {
	r := c.rules
	if !r.plain || c.sent.n != 0 || c.phase != entering || c.log != nil || now != c.began || now >= c.deadline {
		return false
	}
	if p := c.part.pacer.Load(); p != nil && p.on() {
		return false
	}
	if k := c.part.cuts(); k != nil && !k.quiet() {
		return false
	}
	*t = Ticket{Attempt: 1, Sent: now}
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
	if r.deposits {
		c.deposit(now)
	}
	c.sent.n, c.sent.tries, c.sent.out, c.sent.plain, c.phase = 1, 1, 1, true, away
	limit := r.Policy.Timeout.Attempt
	if r.lasts && !c.mayFollow(now, limit) {
		limit, t.lone = r.Policy.Timeout.Last, true
	}
	t.endBy(limit, c.deadline)
	return true
}

// SucceedPlain is Settle for the attempt that SendPlain has sent, if it is out and
// has succeeded in a way that says nothing else. It reports false, and has done nothing, where it has not.
func (c *Call) SucceedPlain(now clock.Instant, t *Ticket, o *policy.Outcome) (done bool) {
	if o.Class != policy.ClassSuccess || o.NeverSent || o.HasAfter || o.Open || !c.sent.plain || c.sent.out != 1 || c.phase != away {
		return false
	}
	c.phase, c.sent.out = over, 0
	c.sent.judge(breaker.Good)
	if t.held.permit.Held() {
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
	if c.named != nil {
		c.leavePartition(now)
	}
	if first || timed(earned) {
		if first {
			c.state.earned.Took(now.Sub(t.Sent))
		}
		c.countSuccess(now, t, earned)
	}
	if t.held.slot.Held() {
		c.state.bulkhead().Release(t.held.slot, c.shard)
	}
	return true
}

// Plain returns what is to be said of a plain success besides its time: how much the attempt had left
// until the call's deadline, and whether it was slow.
func Plain(now clock.Instant, c *Call, t *Ticket) (left time.Duration, slow bool) {
	return c.left(t.Sent), c.slow(now, t)
}
