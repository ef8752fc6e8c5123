package machine

import (
	"slices"
	"strings"
	"time"

	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/internal/latency"
	"github.com/gabion-go/gabion/policy"
)

// Stats returns a snapshot of every part. Each part is consistent in itself.
func (s *State) Stats(now clock.Instant) policy.Stats {
	r := current(s, now)
	st := policy.Stats{Main: s.main.stats(now, r), Budget: s.budgetStats(now, r), Now: now}
	st.RetriesBack, st.RetriesOff = s.retriesOff(now)
	if b := s.bulkhead(); b != nil && r.bulkhead {
		st.Bulkhead = b.Stats()
		if r.limit != nil {
			st.Bulkhead.Learned, st.Bulkhead.Min, st.Bulkhead.Max = true, r.Policy.Bulkhead.Min, r.Policy.Bulkhead.Max
		}
	}
	if t := s.totals(); t != nil {
		st.Totals = t.sum(s.earned.Successes())
		st.Latency = s.latencyStats(now, r, t)
	}
	st.Throttle, st.RateLimit = s.throttleStats(now, r), s.rateStats(now, r)
	st.Share = r.shareStats()
	if live := s.streams(); live != nil {
		st.Streams, st.Outlived = live.open.Load(), live.ever.Load()
	}
	st.Spent = s.part().spent()
	if ps := s.partitions(); ps != nil {
		st.Spilled = ps.spilled.Load()
		ps.each(func(p *namedPartition) {
			one := p.stats(now, r)
			one.Name = p.name
			st.Partitions = append(st.Partitions, one)
		})
	}
	placesOf(s).stats(now, r, &st)
	slices.SortFunc(st.Partitions, func(a, b policy.PartitionStats) int { return strings.Compare(a.Name, b.Name) })
	return st
}

// latencyStats are taken of all attempts, where the policy measures them and no calls name a
// partition, and else of those that were sampled.
func (s *State) latencyStats(now clock.Instant, r *Rules, t *totals) (l policy.LatencyStats) {
	times := t.times.Load()
	if main := s.main.times.Load(); r.measured && main.has(r) && s.partitions() == nil {
		times = main.all
	}
	if times == nil {
		return l
	}
	var ds [4]time.Duration
	l.Samples = times.Quantiles(now, []float64{0.5, 0.95, 0.99, 0.999}, ds[:])
	l.P50, l.P95, l.P99, l.Span = ds[0], ds[1], ds[2], latencySpan
	if l.Samples >= latency.Needed(0.999) {
		l.P999 = ds[3]
	}
	return l
}

func (s *State) throttleStats(now clock.Instant, r *Rules) (t policy.ThrottleStats) {
	if r.throttled {
		t.On = true
		t.Requests, t.Accepts = s.throttle().Counts(now)
		t.Refuses = policy.Ratio(s.throttle().Probability(now, r.Policy.Throttle.K))
	}
	return t
}

func (s *State) rateStats(now clock.Instant, r *Rules) (l policy.RateLimitStats) {
	if r.rate.Interval > 0 {
		l.On = true
		l.Ahead, l.Next = s.limiter().Ahead(now, r.rate)
		l.Rate, l.Burst = float64(r.Policy.RateLimit.Rate), r.Policy.RateLimit.Burst
		if r.sharing(OfRate) {
			l.Rate, l.Burst = float64(time.Second)/float64(r.rate.Interval), r.rate.Burst
		}
	}
	return l
}

func (p *partition) stats(now clock.Instant, r *Rules) policy.PartitionStats {
	st := policy.PartitionStats{Timeout: p.timeoutStats(now, r)}
	if until, held := p.pacer.Load().held(now); held {
		st.Paced = until.Sub(now)
	}
	if g := p.quotas.Load(); g != nil && len(r.quotas.shared) > 0 {
		st.Quotas = g.Stats(now)
	}
	if b := p.breaker.Load(); b != nil && r.guarded {
		st.Guarded, st.Breaker = true, b.Snapshot(now)
	}
	return st
}

// Quiet reports whether the State could be forgotten and nothing but counts would be
// lost: every breaker is closed, nothing is out or queued, and calls are not spaced. It
// is for evicting idle dependencies.
func (s *State) Quiet(now clock.Instant) bool {
	quiet := true
	s.eachPartition(func(p *partition, _ string) {
		b := p.breaker.Load()
		_, held := p.pacer.Load().held(now)
		g := p.quotas.Load()
		quiet = quiet && !held && (g == nil || g.Idle(now)) && (b == nil || b.Idle(now))
	})
	if ps := placesOf(s); ps != nil {
		for _, p := range ps.list {
			quiet = quiet && p.guard.breaker.Idle(now)
		}
	}
	if b := s.bulkhead(); b != nil {
		st := b.Stats()
		quiet = quiet && st.InUse == 0 && st.Queued == 0
	}
	return quiet
}
