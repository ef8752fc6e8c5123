package machine

import (
	"time"

	"github.com/gabion-go/gabion/internal/breaker"
	"github.com/gabion-go/gabion/internal/clock"
)

// timeFor is how long an attempt that begins now may take. Its ticket says why, if that is
// not the time of every attempt. To cut one off early has one use:
// to make room for another. So where, as far as is known, no other can follow, it has
// timeout.last. A probe has not: others wait for its verdict.
func (c *Call) timeFor(now clock.Instant, t *Ticket) (limit time.Duration) {
	p := &c.rules.Policy.Timeout
	limit = p.Attempt
	if c.rules.timed {
		limit = c.part.limit(now, p)
	}
	t.lone, t.longer, t.watched = false, false, false
	if c.rules.lasts && !c.mayFollow(now, c.sent.at.atMost(t, limit), c.sent.tries-c.retry.lost) && !c.probing() {
		limit, t.lone = p.Last, true
	}
	if k := c.part.cuts(); k != nil {
		limit = c.stretch(now, k, t, limit)
	}
	return limit
}

// mayFollow reports whether the attempt that begins now could be repeated after it was cut
// off at that time: it is safe to repeat, and there are attempts, time and budget for it. Tries are those that count, this attempt included.
func (c *Short) mayFollow(now clock.Instant, limit time.Duration, tries uint8) bool {
	switch {
	case !c.safe, c.noRetry, int(tries) >= c.rules.Policy.Retry.Attempts:
		return false
	case now.Add(limit+on(c.rules.Policy.Timeout.Margin)) > c.deadline:
		return false
	}
	return c.state.calm(retriesAreOff|spending) || c.state.affords(now, c.rules) && !c.resendsOff(now)
}

// probing reports whether the breaker asks by single calls whether the dependency is back.
func (c *Call) probing() bool {
	return c.rules.guarded && c.part.breaker.Load().State() == breaker.HalfOpen
}

// affords reports whether the budget has a whole re-send. To know that takes locks, so it is
// only looked at until the first success, and between a re-send and the time when the budget has one again.
func (s *State) affords(now clock.Instant, r *Rules) bool {
	switch {
	case s.flags.Load()&spending == 0 || r.Policy.Retry.Budget.Off:
		return true
	case !s.full(now, r):
		return false
	case r.earns && r.bulkhead && !s.earned.Any():
		// Nothing was ever answered, so nothing pays for a second re-send: the one that is there is for one attempt.
		out, _, _ := s.bulkhead().Occupancy()
		return out <= 1
	}
	s.flags.And(^uint32(spending))
	return true
}

// full reports whether the budget has a whole re-send.
func (s *State) full(now clock.Instant, r *Rules) bool {
	if r.earns {
		return s.earned.Level(now, &r.earned) >= 1_000_000
	}
	return s.budgetStats(now, r).Level >= 1
}
