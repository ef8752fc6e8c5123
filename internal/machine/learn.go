package machine

import (
	"time"

	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/internal/learned"
	"github.com/gabion-go/gabion/policy"
)

// usualLimit is where a learned limit begins: the default of a fixed one. So a client that
// calls too seldom to learn anything is as well off as with that.
var usualLimit = policy.Policy{}.Resolved().Bulkhead.Limit

func (r *Rules) bounds() learned.Bounds {
	return learned.Bounds{Min: r.Policy.Bulkhead.Min, Max: r.Policy.Bulkhead.Max}
}

func (r *Rules) newLimit() learned.Rule { return learned.NewRule(r.bounds(), usualLimit) }

// WithLimit returns rules whose learned limit is moved by the rules of somebody else, for
// comparisons in the lab.
func (r *Rules) WithLimit(rule func(learned.Bounds) learned.Rule) *Rules {
	next := *r
	if r.limit != nil {
		next.limit = func() learned.Rule { return rule(r.bounds()) }
	}
	return &next
}

// slots returns the bounds of the bulkhead, whose limit may be a learned one.
func (s *State) slots(r *Rules) (limit, queue int) {
	l := s.part().learned
	if r.limit != nil {
		l.SetBounds(r.bounds())
	}
	return r.slots(l)
}

func (r *Rules) slots(l *learned.Limit) (limit, queue int) {
	b := &r.Policy.Bulkhead
	if r.limit == nil {
		return r.capped(b.Limit, on(b.Queue))
	}
	limit = l.Limit()
	if b.Queue == 0 {
		return r.capped(limit, 2*limit)
	}
	return r.capped(limit, on(b.Queue))
}

// teach tells the learned limit what an attempt has shown. An answer whose result is open is
// told of when that ends, with its slot; all else at once: a refusal has a body, too.
func (c *Call) teach(now clock.Instant, t *Ticket, v learned.Verdict, open bool) {
	if open && v == learned.Worked {
		c.sent.worked |= t.bit()
		return
	}
	c.learnLimit(now, now.Sub(t.Sent), v)
}

// learnLimit tells the learned limit what an attempt brought whose slot is given back.
func (c *Call) learnLimit(now clock.Instant, took time.Duration, v learned.Verdict) {
	if v == learned.Nothing {
		return
	}
	l := c.state.part().learned
	if _, moved := l.Done(now, c.shard, took, v); moved {
		c.state.limitMoved(now, l)
	}
}

// limitMoved gives the bulkhead the limit that was learned. The lock keeps it from
// undoing a reload, and a newer limit. It is taken at most ten times a second.
func (s *State) limitMoved(now clock.Instant, l *learned.Limit) {
	reloading.Lock()
	defer reloading.Unlock()
	r := s.rules.Load()
	if r.limit == nil {
		return
	}
	limit, queue := r.slots(l)
	b := s.bulkhead()
	if b.Stats().Limit == limit {
		return // another came first
	}
	b.Resize(limit, queue)
	s.note(policy.Event{Kind: policy.KindLimitMoved, At: now, Count: int64(limit), Numbers: numbersOf(l.Last())})
}

// teaches says what an outcome shows of how much the dependency can take. What fails
// fast shows nothing: neither that there is room, nor that there is none.
func (c *Call) teaches(now clock.Instant, t *Ticket, o *policy.Outcome, loser bool) learned.Verdict {
	switch {
	case loser:
		return learned.Nothing
	case o.Busy:
		return learned.Busy
	case o.NeverSent:
		return learned.Nothing
	case o.Class == policy.ClassTimeout && now >= t.Deadline && !c.hurried(now, t):
		if t.last && c.inHurry() {
			return learned.Left
		}
		return learned.Late
	}
	switch o.Class {
	case policy.ClassSuccess, policy.ClassClient, policy.ClassBusiness:
		return learned.Worked
	}
	return learned.Nothing
}

// inHurry reports whether the call had less time from the beginning than an attempt has: so that it ended says less of the
// dependency than of its caller.
func (c *Call) inHurry() bool {
	limit := c.rules.Policy.Timeout.Attempt
	if whole := c.rules.Policy.Timeout.Call; whole > 0 {
		limit = min(limit, whole)
	}
	return c.deadline.Sub(c.began) < limit
}

func numbersOf(m *learned.Move) *policy.Numbers {
	return &policy.Numbers{
		Limit: m.To, Before: m.From, Moved: m.Why, Each: m.Window.Each(), Usual: m.Usual, Answered: m.Window.Rate(),
	}
}
