package machine

import (
	"slices"
	"strings"

	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/policy"
)

// Stats returns a snapshot of every part. Each part is consistent in itself.
func (s *State) Stats(now clock.Instant) policy.Stats {
	r := s.rules.Load()
	st := policy.Stats{Main: s.main.stats(now, r), Budget: s.budgetStats(now, r), Now: now}
	st.RetriesBack, st.RetriesOff = s.retriesOff(now)
	if b := s.bulkhead(); b != nil && r.bulkhead {
		st.Bulkhead = b.Stats()
	}
	if live := s.streams(); live != nil {
		st.Streams, st.Outlived = live.open.Load(), live.ever.Load()
	}
	ps := s.partitions()
	if ps == nil {
		return st
	}
	st.Spilled = ps.spilled.Load()
	ps.each(func(p *namedPartition) {
		one := p.stats(now, r)
		one.Name = p.name
		st.Partitions = append(st.Partitions, one)
	})
	slices.SortFunc(st.Partitions, func(a, b policy.PartitionStats) int { return strings.Compare(a.Name, b.Name) })
	return st
}

func (p *partition) stats(now clock.Instant, r *Rules) policy.PartitionStats {
	var st policy.PartitionStats
	if until, held := p.pacer.Load().held(now); held {
		st.Paced = until.Sub(now)
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
		quiet = quiet && !held && (b == nil || b.Idle())
	})
	if b := s.bulkhead(); b != nil {
		st := b.Stats()
		quiet = quiet && st.InUse == 0 && st.Queued == 0
	}
	return quiet
}

func (s *State) budgetStats(now clock.Instant, r *Rules) policy.BudgetStats {
	b := r.Policy.Retry.Budget
	switch {
	case b.Off:
		return policy.BudgetStats{Off: true}
	case b.Shape == policy.BudgetTokens:
		return policy.BudgetStats{Level: s.tokens().Level(r.tokens) / max(r.tokens.Cost, 1)}
	}
	if b.Shape == policy.BudgetEarned {
		successes, _ := s.earned.Recent(now, &r.earned)
		return policy.BudgetStats{Sent: s.earned.Sent(), Level: max(s.earned.Level(now, &r.earned)/1e6, 0), Successes: successes}
	}
	w := s.window()
	calls, sent := w.Counts(now)
	return policy.BudgetStats{Calls: calls, Sent: sent, Level: w.Level(now, r.budget)}
}
