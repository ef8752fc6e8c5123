package gabionprom

import (
	"cmp"
	"slices"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/contrib/gabionprom/internal/catalog"
	"github.com/gabion-go/gabion/policy"
	dto "github.com/prometheus/client_model/go"
)

// states sends what the dependencies of the Config know of themselves.
func (m *Metrics) states(s *scrape) {
	seen := map[*dependency]bool{}
	for _, stats := range m.stats() {
		d := m.dependency(stats.Name)
		if d == m.others || seen[d] {
			continue // two levels can't be added up
		}
		seen[d] = true
		s.since, s.zero = d.created, d.zero
		m.state(s, d, &stats)
	}
}

func (m *Metrics) stats() (all []gabion.Stats) {
	if m.config.Registry != nil {
		all = m.config.Registry.Stats()
	}
	for _, d := range m.config.Dependencies {
		all = append(all, d.Stats())
	}
	return all
}

func (m *Metrics) state(s *scrape, d *dependency, stats *gabion.Stats) {
	m.breakers(s, d, stats)
	if b := &stats.Budget; !b.Off {
		s.level(catalog.BudgetTokens, float64(b.Level), d.label)
	}
	s.level(catalog.RetriesOff, oneIf(stats.RetriesOff), d.label)
	if b := &stats.Bulkhead; b.Limit > 0 {
		s.level(catalog.InFlight, float64(b.InUse), d.label)
		s.level(catalog.Queued, float64(b.Queued), d.label)
		s.level(catalog.Limit, float64(b.Limit), d.label)
	}
	if x := &stats.Throttle; x.On {
		s.level(catalog.ThrottleRefuses, float64(x.Refuses), d.label)
		s.level(catalog.ThrottleRequests, float64(x.Requests), d.label)
		s.level(catalog.ThrottleAccepts, float64(x.Accepts), d.label)
	}
	if x := &stats.RateLimit; x.On {
		s.level(catalog.RateLimit, x.Rate, d.label)
		s.level(catalog.RateLimitAhead, float64(x.Ahead), d.label)
		s.level(catalog.RateLimitNext, x.Next.Seconds(), d.label)
	}
	if x := &stats.Share; x.On {
		s.level(catalog.ShareLost, oneIf(x.Lost), d.label)
		s.level(catalog.ShareLeft, max(x.Until.Sub(stats.Now), 0).Seconds(), d.label)
	}
	for _, q := range stats.Quotas() { // at most eight
		name := pair("quota", q.Name())
		s.level(catalog.QuotaLeft, q.Left, d.label, name)
		s.level(catalog.QuotaAmount, q.Amount, d.label, name)
		s.level(catalog.QuotaWaiting, float64(q.Waiting), d.label, name)
	}
	if stats.Outlived > 0 {
		s.level(catalog.Streams, float64(stats.Streams), d.label)
	}
	for _, x := range stats.Spent {
		unit := pair("unit", x.Unit)
		s.level(catalog.Spent, x.Amount, d.label, unit)
		s.level(catalog.SpentAnswers, float64(x.Answers), d.label, unit)
	}
	if t := stats.AttemptTimeout(); t.Percentile > 0 {
		s.level(catalog.AttemptTimeout, t.Attempt.Seconds(), d.label)
	}
	if len(stats.Endpoints) > 0 {
		s.endpoints(stats, d.label)
	}
	s.count(catalog.Spilled, uint64(stats.Spilled), d.label)
	s.count(catalog.ObserverPanics, uint64(stats.ObserverPanics), d.label)
	paced := stats.Main.Paced
	for i := range stats.Partitions {
		paced = max(paced, stats.Partitions[i].Paced)
	}
	if paced > 0 {
		s.level(catalog.Paced, paced.Seconds(), d.label)
	}
}

// breakers sends the states of a dependency's breakers: how many are in which, and by
// name those that are not closed.
func (m *Metrics) breakers(s *scrape, d *dependency, stats *gabion.Stats) {
	var in [numStates]int
	failures, slow := -1.0, -1.0
	guarded := false
	look := func(p *policy.PartitionStats) {
		if p.Guarded {
			guarded = true
			in[clip(int(p.Breaker.State), numStates)]++
			failures, slow = max(failures, p.Breaker.FailureRate), max(slow, p.Breaker.SlowRate)
		}
	}
	if d.nameless(stats) {
		look(&stats.Main)
	}
	for i := range stats.Partitions {
		look(&stats.Partitions[i])
	}
	if !guarded {
		return
	}
	for state, n := range in {
		if n > 0 {
			s.level(catalog.BreakerPartitions, float64(n), d.label, stateLabels[state])
		}
	}
	if failures >= 0 {
		s.level(catalog.FailureRatio, failures, d.label)
	}
	if slow >= 0 {
		s.level(catalog.SlowRatio, slow, d.label)
	}
	if stats.Main.Guarded {
		m.mainBreaker(s, d, stats.Main.Breaker.State)
	}
	for name, state := range m.notClosed(d, stats.Partitions) {
		s.breaker(d, name, state)
	}
}

// nameless reports whether the breaker of calls that name no partition is one of the
// dependency's: it is not if all calls name one, as through gabionhttp. It is seen in use
// at a scrape, and then stays.
func (d *dependency) nameless(stats *gabion.Stats) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	b := &stats.Main.Breaker
	d.used = d.used || b.State != policy.StateClosed && b.State != policy.StateObserveOnly ||
		b.Counts.Calls > 0 || b.InFlight > 0 || b.Probes > 0 || b.Refused > 0 || b.Opens > 0
	return d.used || len(stats.Partitions) == 0
}

// mainBreaker sends the state of the breaker of calls that name no partition. Until a
// breaker has moved, its one state is enough: most dependencies are quiet.
func (m *Metrics) mainBreaker(s *scrape, d *dependency, in policy.BreakerState) {
	d.mu.Lock()
	d.moved = d.moved || in != policy.StateClosed || len(d.moves) > 0
	moved := d.moved
	d.mu.Unlock() // sending may wait for the scraper
	if moved {
		s.breaker(d, "", in)
	} else {
		s.level(catalog.BreakerState, 1, d.label, noPartition, stateLabels[clip(int(in), numStates)])
	}
}

// severity orders states by how much they refuse.
var severity = [numStates]int{
	policy.StateClosed: 0, policy.StateDisabled: 1, policy.StateObserveOnly: 2, policy.StateHalfOpen: 3, policy.StateOpen: 4, policy.StateForcedOpen: 5,
}

// notClosed returns the states of partitions that are not closed, by name. Names that were
// exposed once keep their place, so that over all time there are no more than the bound.
func (m *Metrics) notClosed(d *dependency, all []policy.PartitionStats) map[string]policy.BreakerState {
	d.mu.Lock()
	defer d.mu.Unlock()
	worst := policy.StateClosed
	byName := map[string]policy.BreakerState{}
	for i := range all {
		p := &all[i]
		if !p.Guarded || p.Breaker.State == policy.StateClosed {
			continue
		}
		name := cleanName(p.Name)
		if name == other || !d.exposes(name, m.config.MaxPartitions) {
			m.overflow.partition.Add(1)
			worst = worse(worst, p.Breaker.State)
			continue
		}
		byName[name] = worse(byName[name], p.Breaker.State) // two names may be one when they are clean
	}
	if worst != policy.StateClosed {
		byName[other] = worst
	}
	return byName
}

func worse(a, b policy.BreakerState) policy.BreakerState {
	return slices.MaxFunc([]policy.BreakerState{a, b}, func(a, b policy.BreakerState) int {
		return cmp.Compare(severity[clip(int(a), numStates)], severity[clip(int(b), numStates)])
	})
}

// exposes reports whether a partition has a series of its own, and gives it one if there
// is room.
func (d *dependency) exposes(partition string, most int) bool {
	if d.partitions[partition] {
		return true
	}
	if len(d.partitions) >= most {
		return false
	}
	if d.partitions == nil {
		d.partitions = map[string]bool{}
	}
	d.partitions[partition] = true
	return true
}

// breaker sends one state, and that it is in none of the others.
func (s *scrape) breaker(d *dependency, partition string, in policy.BreakerState) {
	where := pair("partition", partition)
	for state := range numStates {
		state := policy.BreakerState(state)
		s.level(catalog.BreakerState, oneIf(state == in), d.label, where, stateLabels[state])
	}
}

// endpoints sends how many endpoints there are, and how many of them are left out.
func (s *scrape) endpoints(stats *gabion.Stats, label *dto.LabelPair) {
	out, backups := 0, 0
	for i := range stats.Endpoints {
		if e := &stats.Endpoints[i]; e.Out {
			out++
			if e.Backup {
				backups++
			}
		}
	}
	s.level(catalog.EndpointsOut, float64(out), label)
	s.level(catalog.BackupsOut, float64(backups), label)
}

// fleet sends how the process stands with its fleet.
func (m *Metrics) fleet(s *scrape) {
	if m.config.Fleet == nil {
		return
	}
	st := m.config.Fleet.Status()
	label := pair("fleet", st.Fleet)
	s.level(catalog.FleetMembers, float64(st.Members), label)
	s.countFromZero(catalog.FleetFailed, uint64(max(st.Failed, 0)), label)
	s.level(catalog.FleetOverrides, float64(len(st.Overrides)), label)
}
