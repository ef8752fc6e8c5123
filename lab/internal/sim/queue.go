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
	front    bool // of the Admission, and not of the workers
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
	s.sit(a, p)
	if v.Discipline == CoDel {
		s.at(p.Until(), evLeave, a.self, a.gen)
	}
	return true
}

func (s *sim) sit(a *attempt, p *seat) {
	a.seat, a.stage = p, waiting
	s.arm(a)
}

// serve tells those in queues what has become of them.
func (s *sim) serve() {
	for i := 0; i < len(s.woken); i++ { // more may come while it runs
		p := s.woken[i]
		if a := s.attempts.get(p.who, p.gen); a != nil && a.seat == p {
			slot, answer := s.gate(a).Ask(s.now, &p.Wait)
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
	slot, answer := s.gate(a).Leave(s.now, &a.seat.Wait)
	s.turn(a, slot, answer)
	s.serve()
}

// gate is what an attempt waits for.
func (s *sim) gate(a *attempt) *admission.Gate {
	r := &s.services[a.service].replicas[a.replica]
	if a.seat.front {
		return r.front.Gate
	}
	return r.pool
}

// turn is the end of an attempt's wait.
func (s *sim) turn(a *attempt, slot admission.Slot, answer admission.Answer) {
	if answer == admission.Waiting {
		return
	}
	v := &s.services[a.service]
	r, p := &v.replicas[a.replica], a.seat
	a.seat = nil
	switch {
	case p.front:
		s.letIn(v, r, a, p, slot, answer)
	case answer == admission.Admitted:
		a.slots[atWorker] = slot
		s.start(v, r, a)
	case answer == admission.Expired:
		v.n.Expired++
		s.reply(a, expired, 0)
		s.goOut(r, a, false)
	default:
		v.n.Dropped++
		s.reply(a, busy, 0)
		s.goOut(r, a, false)
	}
}
