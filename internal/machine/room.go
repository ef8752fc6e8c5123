package machine

import (
	"math"
	"time"

	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/internal/endpoints"
	"github.com/gabion-go/gabion/internal/quota"
	"github.com/gabion-go/gabion/internal/terms"
	"github.com/gabion-go/gabion/policy"
)

// room is what a call has of the quotas. Calls without quotas have none.
type room struct {
	cost  *quota.Cost
	next  *quota.Reservation // of the attempt that is about to be made
	there *quota.Reservation // the same, of the quotas of the endpoint to which it is to go
	to    *place             // that endpoint; nil where none has quotas of its own, or none is chosen yet
	sent  []sentRoom
	last  clock.Instant // until when the next attempt may wait
	late  bool          // last is set
}

// sentRoom is what an attempt took that was sent.
type sentRoom struct {
	attempt uint8
	of      *quota.Reservation
}

// take takes from the quotas what the attempt is thought to use: from those of the partition, and then from those of
// an endpoint. It reports false when the call must wait for room, or has ended.
func (m *room) take(c *Call, now clock.Instant, s *Step) (due, answered bool) {
	if c.taken.has&aRoom != 0 {
		return true, false
	}
	if g := c.part.quotas.Load(); g != nil {
		if m.next == nil {
			m.next = g.Reserve(m.cost, c.tenant, c.priority)
		}
		if due, answered = m.ask(c, now, s, m.next); !due {
			return false, answered
		}
	}
	for meteredPlaces(c) != nil {
		if m.to == nil {
			m.choose(c, now, false)
		}
		if m.there != nil {
			if due, answered = m.ask(c, now, s, m.there); !due {
				return false, answered
			}
		}
		if !c.sent.at.left(now, m.to) {
			break
		}
		m.leaveThere(now) // it was left out while the call waited for it
	}
	c.taken.has |= aRoom
	m.late = false
	return true, false
}

// meteredPlaces are the endpoints of the call if they have quotas of their own.
func meteredPlaces(c *Call) *places {
	if g := c.sent.at; g != nil && g.among.metered {
		return g.among
	}
	return nil
}

// ask takes what r needs. It reports false when the call must wait for room, or has ended.
func (m *room) ask(c *Call, now clock.Instant, s *Step, r *quota.Reservation) (due, answered bool) {
	if c.waker == nil {
		if r.Now(now) {
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
	at, a := r.Ask(now, m.last, c.waker)
	if a == quota.Taken {
		return true, false
	}
	if g := c.sent.at; g != nil {
		if after, stranded := g.stranded(now); stranded { // room would be of no use
			c.refuse(now, policy.BreakerOpen, after)
			return false, false
		}
	}
	switch a {
	case quota.TooLarge, quota.Refused:
		m.lack(c, now, at, r, a)
		return false, false
	}
	if after, shut := c.shut(now); shut { // no wait for an open breaker
		c.refuse(now, policy.BreakerOpen, after)
		return false, false
	}
	if c.phase != roomless {
		c.waitIn(roomless, now, m.last, terms.ForQuota)
	}
	return false, s.wait(min(max(at, now+1), c.deadline))
}

// lack refuses the call because there is no room for it in time.
func (m *room) lack(c *Call, now, at clock.Instant, r *quota.Reservation, a quota.Answer) {
	unit, need, amount := r.Short(now)
	c.tooLong(at.Sub(now), m.last.Sub(now))
	m.leave(now)
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
	}
	m.next, m.late = nil, false
	m.leaveThere(now)
}

func (m *room) leaveThere(now clock.Instant) {
	if m.there != nil {
		m.there.Drop(now)
	}
	m.there, m.to = nil, nil
}

// takeNow takes for a hedge what it is thought to use, if there is room at once.
func (m *room) takeNow(c *Call, now clock.Instant) bool {
	if c.taken.has&aRoom != 0 {
		return true
	}
	if g := c.part.quotas.Load(); g != nil {
		m.next = g.Reserve(m.cost, c.tenant, c.priority)
		if !m.next.Now(now) {
			m.next = nil
			return false
		}
	}
	if meteredPlaces(c) != nil {
		if m.choose(c, now, true); m.there != nil && !m.there.Now(now) {
			m.there = nil
			m.leave(now)
			return false
		}
	}
	c.taken.has |= aRoom
	return true
}

// choose chooses the endpoint of the next attempt among those whose quotas have room for it now. Where none has, it
// is the one that has it first.
func (m *room) choose(c *Call, now clock.Instant, hedge bool) {
	g := c.sent.at
	out, due := g.among.health(now)
	may := g.among.all() &^ (out | due)
	if may == 0 {
		may = g.among.askable()
	}
	var full endpoints.Set
	first, least := -1, time.Duration(math.MaxInt64)
	for i, p := range g.among.list {
		q := p.quotas.Load()
		if q == nil {
			continue
		}
		d := q.Reserve(m.cost, c.tenant, c.priority).Ahead(now)
		if d > 0 {
			full |= endpoints.Of(i)
		}
		if may.Has(i) && (first < 0 || d < least) {
			first, least = i, d
		}
	}
	if g.bound() != nil || may&^full != 0 || first < 0 {
		first, _ = g.choose(c, now, endpoints.Query{Out: out, Due: due, Full: full, First: c.sent.n == 0}, hedge)
	}
	m.reserve(c, g.among.list[first])
}

// reserve begins to take from the quotas of an endpoint.
func (m *room) reserve(c *Call, p *place) {
	if m.to, m.there = p, nil; p.quotas.Load() != nil {
		m.there = p.quotas.Load().Reserve(m.cost, c.tenant, c.priority)
	}
}

// decided is the endpoint that has room for the attempt, unless that is left out by now. Below zero none is decided.
func (m *room) decided(g *placing, out, due endpoints.Set) (at int, why endpoints.Why) {
	if m == nil || m.to == nil {
		return -1, 0
	}
	for i, p := range g.among.list {
		switch {
		case p != m.to || g.among.passes(i, out, due):
		case due.Has(i):
			return i, endpoints.Probe
		default:
			return i, endpoints.Usual
		}
	}
	return -1, 0
}

// goTo makes what was taken that of the endpoint to which the attempt goes. If the one with room was left out
// in the last moment, what is taken may be more than there is.
func (m *room) goTo(c *Call, now clock.Instant, p *place) {
	if m == nil || m.to == p {
		return
	}
	m.leaveThere(now)
	if m.reserve(c, p); m.there != nil {
		m.there.Anyway(now)
	}
}

// send gives the attempt that is sent what was taken for it.
func (m *room) send(attempt uint8) {
	r := m.next
	switch {
	case r == nil:
		r = m.there
	case m.there != nil:
		r.With(m.there)
	}
	if m.next, m.there, m.to = nil, nil, nil; r != nil {
		m.sent = append(m.sent, sentRoom{attempt, r})
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
	if name == terms.Overflow || p.quotas.Load() != nil {
		return
	}
	g := quota.New(now, r.quotas.shared)
	if r.lease != nil {
		g.Share(now, r.partOf)
	}
	p.quotas.CompareAndSwap(nil, g)
}

// furnishQuotas gives an endpoint quotas of its own.
func (p *place) furnishQuotas(now clock.Instant, list []policy.Quota) {
	switch g := p.quotas.Load(); {
	case g != nil:
		g.Reload(now, list)
	case len(list) > 0:
		p.quotas.Store(quota.New(now, list))
	}
}

// quotaRules are the quotas of a policy.
type quotaRules struct {
	shared []policy.Quota // of the calls of a partition
	each   []policy.Quota // that each endpoint has by itself
}

func quotasOf(p policy.Policy, placed bool) (r quotaRules) {
	for _, q := range p.RateLimit.Quotas {
		if q.Each && placed {
			r.each = append(r.each, q)
		} else {
			r.shared = append(r.shared, q)
		}
	}
	return r
}
