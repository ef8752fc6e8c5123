package machine

import (
	"time"

	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/policy"
)

// Wants is what calls wanted of the limits that can be shared. What is counted only grows.
type Wants struct {
	Calls    int64 // that have ended
	Attempts int64 // of these calls
	Refused  int64 // calls, by the rate limit or a quota, or given up by their callers before anything was sent
	Ahead    int64 // turns of the rate limit that calls wait for now

	InUse, Queued int   // slots that are taken, and calls that wait for one
	Crowded       int64 // calls that were refused for lack of one

	Quotas []QuotaWants
}

// QuotaWants is what calls wanted of a quota, in the partition that used most of it.
type QuotaWants struct {
	Unit    string
	Span    time.Duration
	Used    float64
	Waiting int
}

// WantsOf returns what calls wanted. It costs less than [State.Stats].
func WantsOf(s *State, now clock.Instant) (w Wants) {
	r := current(s, now)
	if t := s.totals(); t != nil {
		sum := t.sum(s.earned.Successes())
		w.Calls, w.Attempts, w.Refused = sum.Calls, sum.Attempts, sum.Failures.Of(policy.RateLimited)+t.givenUp()
		w.Crowded = sum.Failures.Of(policy.BulkheadFull) + sum.Failures.Of(policy.QueueTimeout)
	}
	if l := s.limiter(); l != nil && r.rate.Interval > 0 {
		w.Ahead, _ = l.Ahead(now, r.rate)
	}
	if b := s.bulkhead(); b != nil && r.bulkhead {
		w.InUse, _, w.Queued = b.Occupancy()
	}
	if len(r.Policy.RateLimit.Quotas) > 0 {
		w.Quotas = quotaWants(s, now, r)
	}
	return w
}

func quotaWants(s *State, now clock.Instant, r *Rules) []QuotaWants {
	all := make([]QuotaWants, len(r.Policy.RateLimit.Quotas))
	for i, q := range r.Policy.RateLimit.Quotas {
		all[i].Unit, all[i].Span = q.Unit, q.Span
	}
	anyPartition(s, func(p *partition) {
		g := p.quotas.Load()
		if g == nil {
			return
		}
		for i, st := range g.Stats(now) {
			if i < len(all) && all[i].Unit == st.Unit && all[i].Span == st.Span {
				all[i].Used, all[i].Waiting = max(all[i].Used, st.Used), max(all[i].Waiting, st.Waiting)
			}
		}
	})
	return all
}
