package dashboard

import (
	"cmp"
	"slices"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/policy"
)

// vitals are what a living dependency said of itself, without the partitions that need no look.
type vitals struct {
	at     time.Duration // when it was asked
	known  bool          // it was asked: it is no recording, and nothing foreign
	policy policy.Policy
	stats  policy.Stats // its Partitions are the troubled ones alone

	partitions int                   // how many there are
	states     [numStates]int        // of these, by the state of their breaker
	unguarded  bool                  // it has no breaker
	first      policy.PartitionStats // the only partition, if there is one
	timeout    policy.TimeoutStats   // of an attempt

}

const numStates = 6

// severity orders the states of breakers by how much they deserve to be looked at.
var severity = [numStates]int{
	policy.StateClosed: 0, policy.StateObserveOnly: 1, policy.StateDisabled: 2,
	policy.StateHalfOpen: 3, policy.StateForcedOpen: 4, policy.StateOpen: 5,
}

// read condenses what a dependency said.
func (v *vitals) read(s *gabion.Stats, p policy.Policy) {
	*v = vitals{known: true, policy: p, stats: s.Stats, partitions: len(s.Partitions), timeout: s.AttemptTimeout()}
	v.stats.Partitions = nil
	v.unguarded = !s.Main.Guarded
	for i := range s.Partitions {
		one := &s.Partitions[i]
		v.states[one.Breaker.State%numStates]++
		v.unguarded = v.unguarded && !one.Guarded
		if troubled(one) {
			v.stats.Partitions = append(v.stats.Partitions, *one)
		}
	}
	if len(s.Partitions) > 0 {
		v.first = s.Partitions[0]
	}
	slices.SortFunc(v.stats.Partitions, func(a, b policy.PartitionStats) int {
		return cmp.Or(
			cmp.Compare(severity[b.Breaker.State%numStates], severity[a.Breaker.State%numStates]),
			cmp.Compare(b.Breaker.FailureRate, a.Breaker.FailureRate), cmp.Compare(a.Name, b.Name))
	})
	if len(v.stats.Partitions) > shownTroubles {
		v.stats.Partitions = slices.Clone(v.stats.Partitions[:shownTroubles])
	}
}

// troubled reports whether a partition is worth a line.
func troubled(p *policy.PartitionStats) bool {
	return p.Breaker.State != policy.StateClosed || p.Paced > 0 || p.Breaker.FailureRate > 0
}

// lead is the breaker that the tile shows: that of calls without a partition, or the
// partition that most deserves to be looked at.
func (v *vitals) lead() policy.PartitionStats {
	main := v.stats.Main
	unused := main.Breaker.State == policy.StateClosed && main.Breaker.Counts.Calls == 0
	if len(v.stats.Partitions) > 0 {
		if one := v.stats.Partitions[0]; unused || severity[one.Breaker.State%numStates] > severity[main.Breaker.State%numStates] {
			return one
		}
	}
	if unused && v.partitions > 0 {
		return v.first
	}
	return main
}

// calm reports whether a dependency was asked before and looked well.
func (c *collector) calm(name string) bool {
	t := (*c.tiles.Load())[name]
	if t == nil {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.vitals.known && t.calm
}

// until is a time of the dependency's own clock as frames write it.
func (v *vitals) until(look *view, at policy.Instant) int64 {
	switch at {
	case 0:
		return 0
	case policy.Never:
		return -1
	}
	return look.date(v.at + at.Sub(v.stats.Now))
}

// sample takes in what a dependency said of itself.
func (c *collector) sample(now time.Duration, s *gabion.Stats, p policy.Policy) {
	t := (*c.tiles.Load())[s.Name]
	if t == nil {
		t = c.tile(now, s.Name)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.vitals.read(s, p)
	t.vitals.at = now
}
