package sim

import (
	"time"

	"github.com/gabion-go/gabion/internal/admission"
	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/policy"
)

// seat is an attempt's place in a queue.
type seat struct {
	admission.Wait
	sim      *sim
	who, gen uint32
}

// Wake remembers that the seat has an answer.
func (p *seat) Wake() { p.sim.woken = append(p.sim.woken, p) }

// pool returns the workers of a replica and the queue before them.
func (v *service) pool() *admission.Gate {
	if v.Workers == 0 {
		return nil
	}
	r := admission.Rules{Limit: v.crew(), Queue: v.Queue}
	switch v.Discipline {
	case LIFO:
		r.Order = admission.LIFO
	case CoDel:
		r.Target, r.Interval = or(v.Target, admission.DefaultTarget), or(v.Interval, admission.DefaultInterval)
	}
	return admission.New(r)
}

func or(d, other time.Duration) time.Duration {
	if d > 0 {
		return d
	}
	return other
}

// wait puts an attempt in a replica's queue. It reports false when that is full.
func (s *sim) wait(v *service, r *replica, a *attempt) bool {
	p := &seat{sim: s, who: a.self, gen: a.gen}
	deadline, priority := clock.Never, policy.PriorityNormal
	if v.DropExpired {
		deadline = a.expires
	}
	if v.Discipline == ByPriority {
		priority = policy.Priority(a.priority)
	}
	if r.pool.Join(s.now, &p.Wait, p, priority, "", deadline) != admission.Waiting {
		return false
	}
	a.seat, a.stage = p, waiting
	s.arm(a)
	if v.Discipline == CoDel {
		s.at(p.Until(), evLeave, a.self, a.gen)
	}
	return true
}

// serve tells those in queues what has become of them.
func (s *sim) serve() {
	for i := 0; i < len(s.woken); i++ { // more may come while it runs
		p := s.woken[i]
		if a := s.attempts.get(p.who, p.gen); a != nil && a.seat == p {
			slot, answer := s.pool(a).Ask(s.now, &p.Wait)
			s.turn(a, slot, answer)
		}
	}
	s.woken = s.woken[:0]
}

// leave ends the wait of an attempt that may wait no longer.
func (s *sim) leave(a *attempt) {
	if a.seat == nil || s.now < a.seat.Until() {
		return
	}
	slot, answer := s.pool(a).Leave(s.now, &a.seat.Wait)
	s.turn(a, slot, answer)
	s.serve()
}

func (s *sim) pool(a *attempt) *admission.Gate {
	return s.services[a.service].replicas[a.replica].pool
}

// turn is the end of an attempt's wait.
func (s *sim) turn(a *attempt, slot admission.Slot, answer admission.Answer) {
	v := &s.services[a.service]
	switch answer {
	case admission.Waiting:
		return
	case admission.Admitted:
		a.slot = slot
		s.start(v, &v.replicas[a.replica], a)
	case admission.Expired:
		v.n.Expired++
		s.reply(a, expired, 0)
	default:
		v.n.Dropped++
		s.reply(a, busy, 0)
	}
	a.seat = nil
}
