package sim

import (
	"slices"
	"time"

	"github.com/gabion-go/gabion/internal/clock"
)

// activeFault is a Fault that has begun and not ended.
type activeFault struct {
	*Fault
	index  int
	since  clock.Instant
	limits *limiters
}

// fault begins (gen 0) or ends (gen 1) a fault.
func (s *sim) fault(i int, gen uint32) {
	f := &s.world.Faults[i]
	if gen == 1 {
		s.endFault(i, f)
		return
	}
	s.rec.faulted(s, f)
	s.atFault(s.now.Add(f.For), i, 1)
	if until := f.until(s.world); f.Period > 0 && s.now.Add(f.Period) <= until {
		s.atFault(s.now.Add(f.Period), i, 0)
	}
	switch f.Kind {
	case ClientRestart:
		s.restartClients(f.Fleet, f.Replicas)
	case Reload:
		s.reload(f)
	case StoreDown:
		s.fleets[f.Fleet].away++
	case Restart:
		s.restart(&s.services[f.Service], f)
		fallthrough
	default:
		v := &s.services[f.Service]
		v.active = append(v.active, activeFault{Fault: f, index: i, since: s.now, limits: new(limiters)})
		s.summon(v, f)
		if f.Kind == CacheDown {
			for k := range s.edges {
				if e := &s.edges[k]; e.cache != nil && e.To == f.Service {
					e.cache.flush(&v.active[len(v.active)-1])
				}
			}
		}
	}
}

func (s *sim) atFault(at clock.Instant, i int, gen uint32) {
	s.troubled++
	s.at(at, evFault, uint32(i), gen)
}

func (f *Fault) until(w *World) clock.Instant {
	if f.Until > 0 {
		return clock.Instant(f.Until)
	}
	return clock.Instant(w.Duration)
}

func (s *sim) endFault(i int, f *Fault) {
	if f.Kind == ClientRestart || f.Kind == Reload {
		return
	}
	if f.Kind == StoreDown {
		s.fleets[f.Fleet].away--
		return
	}
	v := &s.services[f.Service]
	v.active = slices.DeleteFunc(v.active, func(a activeFault) bool { return a.index == i })
	s.summon(v, f)
	if f.Kind == Restart && f.Ramp > 0 {
		for r := range v.replicas {
			if f.hits(r) {
				v.replicas[r].cold, v.replicas[r].warm = s.now, s.now.Add(f.Ramp)
			}
		}
	}
}

// summon changes how many work at each replica.
func (s *sim) summon(v *service, f *Fault) {
	if f.Kind != Crew {
		return
	}
	for i := range v.replicas {
		if pool := v.replicas[i].pool; pool != nil {
			pool.SetLimit(v.crew())
		}
	}
	s.serve()
}

// hits reports whether the fault is at that replica.
func (f *Fault) hits(replica int) bool { return f.Replicas == 0 || replica < f.Replicas }

// size is how much of its full size a fault has now.
func (a *activeFault) size(now clock.Instant) float64 {
	if a.Ramp <= 0 || a.Kind == Restart {
		return 1
	}
	begun, left := now.Sub(a.since), a.since.Add(a.For).Sub(now)
	return min(float64(begun)/float64(a.Ramp), float64(left)/float64(a.Ramp), 1)
}

// strikes reports whether a fault that is for a share of requests is for this one.
func (s *sim) strikes(f *activeFault, a *attempt) bool {
	if !f.hits(a.replica) || f.Callers > 0 && s.calls.at(a.call).who >= f.Callers {
		return false
	}
	size := f.size(s.now)
	share := f.Share
	if share <= 0 {
		share = 1
	}
	return struck(s.seed, f.index, s.calls.at(a.call).id, a.try, float64(share*size))
}

// troubles says what faults make of a request before there is any work.
func (s *sim) troubles(v *service, a *attempt) (ans answer, after time.Duration, silent bool) {
	for i := range v.active {
		f := &v.active[i]
		switch f.Kind {
		case Refuse, Restart:
			if s.strikes(f, a) {
				return refused, 0, false
			}
		case BlackHole:
			if s.strikes(f, a) {
				return answered, 0, true
			}
		case Reset:
			if !f.Costs && s.strikes(f, a) {
				return broken, 0, false
			}
		case Errors:
			if s.strikes(f, a) {
				if ans := f.way(s, a); !f.works(ans) {
					return ans, f.afterOf(ans), false
				}
			}
		case RateLimit:
			if ok, after := s.limit(f.limits, &f.Limit, a); !ok {
				return throttled, after, false
			}
		case Skew:
			if a.expires != clock.Never {
				a.expires = a.expires.Add(-f.Add)
			}
		}
	}
	return answered, 0, false
}

// slowness says what faults make of the time that work takes.
func (s *sim) slowness(v *service, a *attempt) (factor float64, more time.Duration) {
	factor = 1
	for i := range v.active {
		f := &v.active[i]
		switch f.Kind {
		case BrownOut:
			if f.hits(a.replica) {
				left := 1 - float64((1-f.Factor)*f.size(s.now))
				factor = float64(factor / max(left, 0.001))
			}
		case Slow:
			if s.strikes(f, a) {
				factor = float64(factor * max(f.Factor, 1))
				more += f.Add
			}
		}
	}
	return factor, more
}

// failure is how an attempt fails after its work.
type failure struct {
	answer answer
	after  time.Duration
	late   bool          // the effect is there nevertheless
	lost   bool          // the answer does not arrive
	cut    bool          // it begins to arrive, and breaks off
	body   time.Duration // it takes that much longer to arrive
}

func (s *sim) fails(v *service, a *attempt) (f failure) {
	for i := range v.active {
		at := &v.active[i]
		switch at.Kind {
		case Errors:
			if s.strikes(at, a) {
				if ans := at.way(s, a); at.works(ans) {
					f.answer, f.after, f.late = ans, at.afterOf(ans), at.Late
				}
			}
		case Reset:
			if at.Costs && s.strikes(at, a) {
				f.answer = broken
			}
		case LostAnswers:
			f.lost = f.lost || s.strikes(at, a)
		case CutBody:
			f.cut = f.cut || s.strikes(at, a)
		case SlowBody:
			if s.strikes(at, a) {
				f.body += at.Add
			}
		}
	}
	return f
}

// restart loses everything that is under way at the replicas, and all that they
// know of the services below.
func (s *sim) restart(v *service, f *Fault) {
	for i := range v.replicas {
		r := &v.replicas[i]
		if !f.hits(i) {
			continue
		}
		v.move(s.now, r, -r.busy)
		r.pool, r.front, r.debt = v.pool(), v.front(s.now), 0
		for _, e := range v.plan.edges {
			s.edges[e].forget(i)
		}
	}
	for i := range s.edges {
		if e := &s.edges[i]; e.To == v.index && f.Replicas == 0 {
			e.hangUp()
		}
	}
	var lost []*attempt
	s.attempts.each(func(a *attempt) {
		if a.service == v.index && (a.stage == waiting || a.stage == working) && a.there && f.hits(a.replica) {
			lost = append(lost, a)
		}
	})
	for _, a := range lost {
		v.n.Lost++
		if a.stage == working {
			v.n.Wasted += s.now.Sub(a.started)
		}
		a.gen = s.attempts.renew(a.self)
		a.armed, a.seat = false, nil
		s.reply(a, broken, 0)
	}
	s.orphans()
}

// orphans ends the calls that lost replicas had made.
func (s *sim) orphans() {
	var lost []*call
	s.calls.each(func(c *call) {
		if c.over {
			return // or it was asked from outside, and is no job's
		}
		j := s.jobs.get(c.job, c.jgen)
		if j != nil && j.fleet < 0 && !j.run && s.attempts.get(j.attempt, j.agen) == nil {
			lost = append(lost, c)
		}
	})
	for _, c := range lost {
		c.machine.Cancel(s.now)
		s.step(c)
	}
}

// restartClients makes every client of a fleet begin anew: nothing is known any
// more. Calls under way go on, but for those of consumers, which lose what they work on.
func (s *sim) restartClients(i, some int) {
	f := &s.fleets[i]
	if f.broker != nil {
		s.restartConsumers(f.broker, some)
		return
	}
	states := (some + f.group - 1) / f.group
	for _, e := range f.plan.edges {
		if some == 0 {
			s.edges[e].forgetAll()
			continue
		}
		for k := range states {
			s.edges[e].forget((f.restarted + k) % len(s.edges[e].states))
		}
	}
	f.restarted += states
}

// reload gives the clients of a fleet other rules, as a new file does.
func (s *sim) reload(f *Fault) {
	for _, e := range s.fleets[f.Fleet].plan.edges {
		s.edges[e].reload(s.now, f)
	}
}
