package machine

import (
	"math"
	"time"

	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/internal/ratelimit"
	"github.com/gabion-go/gabion/policy"
)

// This file puts shares in force: what one process may use of limits that it has together with others.
// A share makes rules of its own out of those of the policy, so a reader of the rules in force has
// read the share too, and a dependency without one has nothing to read.

// Lease is a share that ends. It must not be changed once it was given to a State.
type Lease struct {
	Until clock.Instant // when it ends
	Share Share         // until then
	Lost  Share         // from then on, while no other lease comes
}

// Share is what one process may use. The limits of the policy stay the most.
type Share struct {
	Limits SharedLimits // which of them are shared; what is said of the others means nothing
	Rate   float64      // turns a second; the burst is in proportion
	Sated  bool         // it is all that the process wants, where others want more than they have
	Slots  int
	Floor  float64 // from 0 to 1, of what the retry budget has without any success
	Quotas []Part  // one that is not named is not shared
}

// Part is the part of a quota that one process may use.
type Part struct {
	Unit string
	Span time.Duration
	Part float64 // from 0 to 1
}

// SharedLimits is a set of limits.
type SharedLimits uint8

// The limits that can be shared.
const (
	OfRate SharedLimits = 1 << iota
	OfSlots
	OfFloor
	OfQuotas
)

// leasing is what a share changes in rules.
type leasing struct {
	rate    ratelimit.Rules
	unusual bool // there are quotas, or a lease

	// All below is only there in rules that are one State's own.
	base   *Rules // the policy's
	lease  *Lease
	mine   *Share        // of the lease, that is in force; nil without one
	until  clock.Instant // when that ends; Never without one
	series uint32        // of turns of the rate limit; those of another one are void
	line   *turnLine     // nil before the first lease
}

// Grant puts a share in force, in place of the one before. With nil the policy's own limits hold again.
func Grant(s *State, now clock.Instant, l *Lease) { grant(s, now, l).wake() }

func grant(s *State, now clock.Instant, l *Lease) (late *turnLine) {
	reloading.Lock()
	defer reloading.Unlock()
	s.extend(func(next *parts) { next.lease = l })
	return enforce(s, now, s.rules.Load().Own().under(now, l))
}

// leaseOf returns what Grant was given.
func leaseOf(s *State) *Lease {
	if p := s.part(); p != nil {
		return p.lease
	}
	return nil
}

// current returns the rules in force. If the share in them has ended, it puts in force what holds then. So
// it does not matter who notices first, or when.
func current(s *State, now clock.Instant) *Rules {
	if r := s.rules.Load(); now < r.until {
		return r
	}
	return lapse(s, now)
}

// lapse ends a share whose time has come. It returns the rules in force.
func lapse(s *State, now clock.Instant) *Rules {
	r, late := lapseLocked(s, now)
	late.wake()
	return r
}

func lapseLocked(s *State, now clock.Instant) (r *Rules, late *turnLine) {
	reloading.Lock()
	defer reloading.Unlock()
	if r = s.rules.Load(); r.lease != nil && now >= r.until {
		late = enforce(s, now, r.Own().under(now, r.lease))
	}
	return s.rules.Load(), late
}

// enforce is the end of putting a share in force. It is called under reloading, and returns who has to be woken after that.
func enforce(s *State, now clock.Instant, r *Rules) (late *turnLine) {
	s.furnish(now, r)
	old := swap(s, now, r)
	s.eachPartition(func(p *partition, _ string) {
		if g := p.quotas.Load(); g != nil {
			g.Share(now, r.partOf)
		}
	})
	if old.slotsMost() != r.slotsMost() {
		s.resize(now, old, r) // last, because it wakes those who wait
	}
	return r.late(old)
}

// swap puts rules in force, and begins another series of turns where their rate is another.
// It is called under reloading.
func swap(s *State, now clock.Instant, r *Rules) (old *Rules) {
	old = s.rules.Load()
	if r.series, r.line = old.series, old.line; old.rate != r.rate {
		r.series++
	}
	if r.line == nil {
		r.line = &turnLine{waiting: map[uint64]inLine{}}
	}
	s.rules.Store(r)
	if l := s.limiter(); l != nil && old.rate != r.rate {
		l.Change(now, old.rate, r.rate)
	}
	return old
}

// Own returns the rules as the policy has them, without a share.
func (r *Rules) Own() *Rules {
	if r.base != nil {
		return r.base
	}
	return r
}

// under returns rules of their own in which a lease is in force. With nil they are those of the policy.
func (r *Rules) under(now clock.Instant, l *Lease) *Rules {
	next := *r
	next.base = r
	if l == nil {
		return &next
	}
	next.lease, next.until, next.mine, next.unusual = l, l.Until, &l.Share, true
	if now >= l.Until {
		next.until, next.mine = clock.Never, &l.Lost
	}
	if next.sharing(OfRate) { // it may be the only limit, where an operator sets one
		next.rate = r.partOfRate(next.mine)
		next.parts = true
	}
	if next.sharing(OfFloor) {
		next.lowerFloor(next.mine.Floor)
	}
	return &next
}

// sharing reports whether a share of that limit is in force.
func (r *Rules) sharing(of SharedLimits) bool { return r.mine != nil && r.mine.Limits&of != 0 }

// unevenly is how many turns a small share may start at once, so that calls which come unevenly can use it: with one
// turn at once a share of 4/s that as many callers want serves 59 % of them, with two 78 %. More of them break the limit after
// a lull, when all shares have their turns at hand.
const unevenly = 2

// sated is the same where a process has all that it wants and others want more than there is. Then turns that it does not use are what the
// limit loses: with two at once 5 % where one of fifty processes wants four fifths of all, and with six less than 3 %.
const sated = 6

// partOfRate returns the rules of a rate that is a part of the policy's. The burst is the same part of
// the policy's, but as many turns as come in a second, up to two or six, if the policy's has as many. It is one turn
// at least: a rate without any burst lets nothing through.
func (r *Rules) partOfRate(s *Share) ratelimit.Rules {
	rate, whole := s.Rate, float64(r.Policy.RateLimit.Rate)
	switch {
	case !(rate > 0):
		return ratelimit.Nothing
	case r.rate.Interval <= 0:
		return ratelimit.Every(rate, 1)
	case rate >= whole:
		return r.rate
	}
	all := r.Policy.RateLimit.Burst
	burst := math.Floor(float64(all) * (rate / whole) * (1 + 1e-9))
	most := unevenly
	if s.Sated {
		most = sated
	}
	return ratelimit.Every(rate, max(1, int(burst), min(most, all, int(min(rate, float64(most))))))
}

// lowerFloor leaves a part of what the budget has without any success, or with no call.
func (r *Rules) lowerFloor(part float64) {
	scale := func(n *int64) { *n = int64(math.Floor(float64(*n) * fraction(part))) }
	scale(&r.earned.Reserve)
	scale(&r.earned.Start)
	scale(&r.budget.FloorMilli)
	scale(&r.tokens.Capacity)
	scale(&r.costs.cheap.Capacity)
	scale(&r.costs.dear.Capacity)
}

// fraction is x between 0 and 1; what is no number is 0.
func fraction(x float64) float64 {
	if !(x > 0) {
		return 0
	}
	return min(x, 1)
}

// slotsMost is the most slots that the share allows, or -1 where they are not shared.
func (r *Rules) slotsMost() int {
	if !r.sharing(OfSlots) {
		return -1
	}
	return max(r.mine.Slots, 0)
}

// capped returns the bounds of a bulkhead under the share. The queue is shorter in proportion, so that it does
// not become a longer wait.
func (r *Rules) capped(limit, queue int) (int, int) {
	most := r.slotsMost()
	if most < 0 || most >= limit {
		return limit, queue
	}
	return most, int(math.Ceil(float64(queue) * float64(most) / float64(limit)))
}

// partOf returns the part of a quota that the share allows, or zero where it is not shared.
func (r *Rules) partOf(q *policy.Quota) (part float64, shared bool) {
	if !r.sharing(OfQuotas) {
		return 0, false
	}
	for i := range r.mine.Quotas {
		if one := &r.mine.Quotas[i]; one.Unit == q.Unit && one.Span == q.Span {
			return fraction(one.Part), true
		}
	}
	return 0, false
}

// ofShort returns the rules of a call that begins under r, whose share has ended. Where a reload came in the same moment, they are
// those of the policy before it: a Short can't begin under any other.
func ofShort(s *State, r *Rules, now clock.Instant) *Rules {
	in := lapse(s, now)
	if in.Short() {
		return in
	}
	own := r.Own().under(now, r.lease)
	own.series, own.line = in.series, in.line
	return own
}

// underShare returns the rules that decide now for a call that began under a lease. Other calls go by those that
// they began with.
func underShare(c *Call, now clock.Instant) *Rules {
	if c.rules.lease == nil || now == c.began { // Begin has looked
		return c.rules
	}
	return current(c.state, now)
}

// budgetRules is underShare for what the retry budget has, unless a reload changed the budget: what a call
// takes it must give back in the same shape.
func budgetRules(c *Call, now clock.Instant) *Rules {
	if r := underShare(c, now); r == c.rules || r.Policy.Retry.Budget == c.rules.Policy.Retry.Budget {
		return r
	}
	return c.rules
}

// longestNoTurn bounds what callers are told of a turn that no share has.
const longestNoTurn = 10 * time.Second

// turnAfter is when a call that found no turn may ask again: with the turn, or with the next share.
func (r *Rules) turnAfter(now, at clock.Instant) time.Duration {
	after := at.Sub(now)
	if r.lease == nil {
		return after
	}
	if r.until != clock.Never {
		after = min(after, r.until.Sub(now))
	}
	return min(after, longestNoTurn)
}

// void reports whether the turn that the call waited for counts no more, because it was one of another
// rate, or of a share that has ended.
func void(c *Call, now clock.Instant) bool {
	return c.taken.under != nil && current(c.state, now).series != c.taken.under.series
}

// cancelTurn gives back the turn that was not used, if there is still a series that it belongs to.
func cancelTurn(c *Call, now clock.Instant) {
	of, in := c.taken.under, c.state.rules.Load()
	if of == nil {
		of = c.rules
	}
	if of.rate == in.rate && of.series == in.series {
		c.state.limiter().Cancel(now, c.taken.turn, of.rate)
	}
}

// shareStats says which share is in force.
func (r *Rules) shareStats() (st policy.ShareStats) {
	if r.mine == nil || r.mine.Limits == 0 {
		return st
	}
	st.On, st.Until, st.Lost = true, r.lease.Until, r.mine == &r.lease.Lost
	if r.sharing(OfRate) {
		st.Rate = policy.PerSecond(float64(time.Second) / float64(r.rate.Interval))
		st.RateOf = r.Policy.RateLimit.Rate
	}
	if r.sharing(OfSlots) && r.bulkhead {
		st.Slots, st.SlotsOf = r.slotsMost(), r.Policy.Bulkhead.Limit
		if r.limit != nil {
			st.SlotsOf = r.Policy.Bulkhead.Max
		}
	}
	if r.sharing(OfFloor) {
		st.Floor = policy.Ratio(fraction(r.mine.Floor))
	}
	st.Floored = r.sharing(OfFloor)
	return st
}
