package machine

import (
	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/internal/quota"
	"github.com/gabion-go/gabion/policy"
)

// room is what a call has of the quotas. Calls without quotas have none.
type room struct {
	cost *quota.Cost
	next *quota.Reservation // of the attempt that is about to be made
	sent []sentRoom
	last clock.Instant // until when the next attempt may wait
	late bool          // last is set
}

// sentRoom is what an attempt took that was sent.
type sentRoom struct {
	attempt uint8
	of      *quota.Reservation
}

// take takes from the quotas what the attempt is thought to use. It reports false when the call
// must wait for room, or has ended.
func (m *room) take(c *Call, now clock.Instant, s *Step) (due, answered bool) {
	g := c.part.quotas.Load()
	if g == nil || c.taken.has&aRoom != 0 {
		return true, false
	}
	if m.next == nil {
		m.next = g.Reserve(m.cost, c.tenant, c.priority)
	}
	if c.waker == nil {
		if m.next.Now(now) {
			c.taken.has |= aRoom
			return true, false
		}
		return false, s.wait(now)
	}
	underShare(c, now) // those who wait may find that it has ended
	if !m.late {
		m.last, m.late = c.deadline.Add(-c.margin(now)), true
		if most := c.rules.Policy.RateLimit.MaxWait; most != 0 {
			m.last = min(m.last, now.Add(on(most)))
		}
	}
	at, a := m.next.Ask(now, m.last, c.waker)
	switch a {
	case quota.Taken:
		c.taken.has |= aRoom
		m.late = false
		return true, false
	case quota.TooLarge, quota.Refused:
		m.lack(c, now, at, a)
		return false, false
	}
	if after, shut := c.shut(now); shut { // no wait for an open breaker
		c.refuse(now, policy.BreakerOpen, after)
		return false, false
	}
	if c.phase != roomless {
		c.waitIn(roomless, now, m.last, policy.ForQuota)
	}
	return false, s.wait(min(max(at, now+1), c.deadline))
}

// lack refuses the call because there is no room for it in time.
func (m *room) lack(c *Call, now, at clock.Instant, a quota.Answer) {
	unit, need, amount := m.next.Short(now)
	m.next, m.late = nil, false
	c.tooLong(at.Sub(now), m.last.Sub(now))
	c.end.numbers.Quota, c.end.numbers.Uses, c.end.numbers.Amount = unit, need, amount
	c.end.numbers.Shared = c.state.rules.Load().sharing(OfQuotas)
	after := at.Sub(now)
	if a == quota.TooLarge {
		c.end.numbers.Need, after = 0, 0
	}
	c.refuse(now, policy.RateLimited, after)
}

// leave gives back what was taken for an attempt that is not made, or the place in line for it.
func (m *room) leave(now clock.Instant) {
	if m.next != nil {
		m.next.Drop(now)
		m.next, m.late = nil, false
	}
}

// takeNow takes for a hedge what it is thought to use, if there is room at once.
func (m *room) takeNow(c *Call, now clock.Instant) bool {
	g := c.part.quotas.Load()
	if g == nil || c.taken.has&aRoom != 0 {
		return true
	}
	r := g.Reserve(m.cost, c.tenant, c.priority)
	if !r.Now(now) {
		return false
	}
	m.next = r
	c.taken.has |= aRoom
	return true
}

// send gives the attempt that is sent what was taken for it.
func (m *room) send(attempt uint8) {
	if m.next != nil {
		m.sent = append(m.sent, sentRoom{attempt, m.next})
		m.next = nil
	}
}

// end tells the quotas that the attempt has ended.
func (m *room) end(now clock.Instant, t *Ticket, o *policy.Outcome) {
	if r := m.of(t); r != nil {
		r.End(now, o.NeverSent, o.Class == policy.ClassThrottled)
	}
}

// blames reports whether a quota refused the attempt, and not the dependency as a whole.
func (m *room) blames(t *Ticket) bool {
	r := m.of(t)
	return r != nil && r.Blamed()
}

// of returns what the attempt has of the quotas, or nil. A call without quotas has no room.
func (m *room) of(t *Ticket) *quota.Reservation {
	if m == nil {
		return nil
	}
	for _, one := range m.sent {
		if one.attempt == t.Attempt {
			return one.of
		}
	}
	return nil
}

// Reserved returns what the attempt has of the quotas: nil without quotas. It may be told what was used
// and what is left at any time.
func Reserved(c *Call, t *Ticket) *quota.Reservation { return c.wait.room.of(t) }

// furnishQuotas gives a partition the quotas of r. Those past the bound of partitions share one, which
// has none: it refuses no call.
func (p *partition) furnishQuotas(now clock.Instant, r *Rules, name string) {
	list := r.Policy.RateLimit.Quotas
	if name == policy.Overflow || p.quotas.Load() != nil {
		return
	}
	g := quota.New(now, list)
	if r.lease != nil {
		g.Share(now, r.partOf)
	}
	p.quotas.CompareAndSwap(nil, g)
}
