package fleet

import (
	"slices"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/internal/fleet"
	"github.com/gabion-go/gabion/policy"
)

// steers are the overrides as a process follows them. They are for one goroutine.
type steers struct {
	registry *gabion.Registry
	version  uint64      // of the record that was read last
	all      []Override  // of it
	ends     []time.Time // when each ends, by the process's clock; zero if it is not in force
	done     map[target]applied
	rates    string // of the overrides in force, when that was looked at last
}

// target is what an override moves: a breaker, or the retries.
type target struct {
	d         *gabion.Dependency
	partition string
	retries   bool
}

// applied is the override that a target follows.
type applied struct {
	id     string
	action Action
}

// follow does what the record of overrides says. One that can't be read changes nothing: what is known stays in force until its
// end.
func (m *Member) follow(r *Result) {
	s := &m.steers
	known := make(map[string]time.Time, len(s.all))
	for i := range s.all {
		known[s.all[i].ID] = s.ends[i]
	}
	item := r.Items[fleet.OverridesKey(m.o.Name)]
	if item.Version != s.version {
		all, err := parseOverrides(item.Value)
		if err != nil {
			m.unread(err)
			return
		}
		s.version, s.all = item.Version, all
	}
	s.ends = make([]time.Time, len(s.all))
	for i := range s.all {
		o := &s.all[i]
		if !o.LiftedAt.IsZero() {
			continue
		}
		// The store's clock may have stepped back. What was to end once ends then.
		s.ends[i] = m.at.Add(min(o.Until.Sub(r.Now), o.For))
		if was := known[o.ID]; !was.IsZero() && was.Before(s.ends[i]) {
			s.ends[i] = was
		}
	}
	s.steer()
}

// inForce returns the newest override that covers a dependency, among those with such an action.
func (s *steers) inForce(dependency string, of func(Action) bool) *Override {
	for i := len(s.all) - 1; i >= 0; i-- {
		if o := &s.all[i]; of(o.Action) && o.covers(dependency) && time.Now().Before(s.ends[i]) {
			return o
		}
	}
	return nil
}

// rate returns what an operator limits all processes to, or zero.
func (s *steers) rate(dependency string) float64 {
	if o := s.inForce(dependency, func(a Action) bool { return a == LimitRate }); o != nil {
		return float64(o.Rate)
	}
	return 0
}

// moved reports whether operators limit other rates than when it was last asked.
func (s *steers) moved() bool {
	rates := ""
	for _, o := range s.following() {
		if o.Action == LimitRate {
			rates += o.ID + " "
		}
	}
	before := s.rates
	s.rates = rates
	return rates != before
}

func movesBreakers(a Action) bool { return a == ForceOpen || a == Disable || a == Observe }

// any reports whether an override is in force.
func (s *steers) any() bool {
	now := time.Now()
	return slices.ContainsFunc(s.ends, now.Before)
}

// steer moves what is not as the overrides want it. What a hand moved since stays as the hand has left it.
func (s *steers) steer() {
	if len(s.done) == 0 && !s.any() {
		return
	}
	before := s.done
	s.done = make(map[target]applied, len(before))
	for _, d := range s.registry.All() {
		s.steerBreakers(d, before)
	}
	for _, name := range s.registry.Names() {
		if d, err := s.registry.Get(name); err == nil {
			s.steerRetries(d, before)
		}
	}
}

func (s *steers) steerBreakers(d *gabion.Dependency, before map[target]applied) {
	want := s.inForce(d.Name(), movesBreakers)
	if want == nil && !touched(before, d) {
		return
	}
	stats := d.Stats()
	s.steerBreaker(d, &stats.Main, want, before)
	for i := range stats.Partitions {
		s.steerBreaker(d, &stats.Partitions[i], want, before)
	}
}

func touched(before map[target]applied, d *gabion.Dependency) bool {
	for t := range before {
		if t.d == d && !t.retries {
			return true
		}
	}
	return false
}

func (s *steers) steerBreaker(d *gabion.Dependency, p *policy.PartitionStats, want *Override, before map[target]applied) {
	b, ok := d.Breaker(p.Name)
	if !ok {
		return
	}
	t := target{d: d, partition: p.Name}
	had := before[t]
	switch {
	case want == nil && had.id != "" && p.Breaker.State == stateAfter(had.action):
		if by, lifted := s.lifted(had.id); lifted {
			b.By(by).Reset()
		}
	case want == nil:
	case want.ID != had.id:
		moveBreaker(b.By(want.by()), want.Action, s.left(want))
		fallthrough
	default:
		s.done[t] = applied{want.ID, want.Action}
	}
}

func moveBreaker(b gabion.Breaker, a Action, lasts time.Duration) {
	switch {
	case lasts <= 0: // to a breaker it would mean for ever
	case a == ForceOpen:
		b.ForceOpen(lasts)
	case a == Disable:
		b.Disable(lasts)
	case a == Observe:
		b.ObserveOnly(lasts)
	}
}

// stateAfter is the state that an action leaves a breaker in.
func stateAfter(a Action) policy.BreakerState {
	switch a {
	case ForceOpen:
		return policy.StateForcedOpen
	case Disable:
		return policy.StateDisabled
	}
	return policy.StateObserveOnly
}

func (s *steers) steerRetries(d *gabion.Dependency, before map[target]applied) {
	want := s.inForce(d.Name(), func(a Action) bool { return a == RetriesOff })
	t := target{d: d, retries: true}
	had := before[t]
	switch {
	case want == nil && had.id != "":
		if by, lifted := s.lifted(had.id); lifted {
			d.Retries().By(by).Resume()
		}
	case want == nil:
	case want.ID != had.id:
		if lasts := s.left(want); lasts > 0 {
			d.Retries().By(want.by()).Stop(lasts)
		}
		fallthrough
	default:
		s.done[t] = applied{want.ID, want.Action}
	}
}

// left is how much longer an override is in force.
func (s *steers) left(o *Override) time.Duration {
	for i := range s.all {
		if s.all[i].ID == o.ID {
			return time.Until(s.ends[i])
		}
	}
	return 0
}

// lifted reports whether an override was ended by hand, and by whom. One that ended when it was to has ended by
// itself everywhere.
func (s *steers) lifted(id string) (by string, lifted bool) {
	for i := range s.all {
		if o := &s.all[i]; o.ID == id {
			return o.LiftedBy + ": " + o.LiftedWhy, !o.LiftedAt.IsZero()
		}
	}
	return "", false
}

// following returns the overrides that are in force.
func (s *steers) following() (all []Override) {
	now := time.Now()
	for i := range s.all {
		if now.Before(s.ends[i]) {
			all = append(all, s.all[i])
		}
	}
	return all
}
