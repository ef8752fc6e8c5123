package sim

import (
	"strconv"
	"time"

	"github.com/gabion-go/gabion/internal/admission"
	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/internal/learned"
	"github.com/gabion-go/gabion/lab/internal/draw"
	"github.com/gabion-go/gabion/policy"
)

// Admission is what a service lets in, before its workers: what gabionhttp.Admission does.
// It does no work for callers who have gone or whose deadline has passed, and believes
// priorities.
type Admission struct {
	Limit       int             // at each replica
	Learn       *learned.Bounds // moves the limit, from Limit on; nil means that it stays
	Queue       int             // 0 means admission.QueueFor the limit, and less that none waits
	Target      time.Duration   // 0 means admission.DefaultTarget
	Interval    time.Duration   // 0 means admission.DefaultInterval
	NewestFirst bool            // in an overload
	Fair        bool            // among those who call: fleets and services
	TenantShare float64         // of which none has more than this share; 0 means no bound
	RetryAfter  time.Duration   // the least that a refusal names; 0 means a second
}

// front is an Admission at one replica.
type front struct {
	*admission.Gate
	limit *learned.Limit
}

func (v *service) front(now clock.Instant) front {
	a := v.Admission
	if a == nil {
		return front{}
	}
	r := admission.Rules{
		Limit: a.Limit, Queue: max(a.Queue, 0), Fair: a.Fair, TenantShare: a.TenantShare, Shards: 1,
		Target: or(a.Target, admission.DefaultTarget), Interval: or(a.Interval, admission.DefaultInterval),
	}
	if a.NewestFirst {
		r.Order = admission.Adaptive
	}
	var f front
	if a.Learn != nil {
		f.limit = learned.New(now, learned.NewRule(*a.Learn, a.Limit), 1)
		r.Limit = f.limit.Limit()
	}
	if a.Queue == 0 {
		r.Queue = admission.QueueFor(r.Limit)
	}
	f.Gate = admission.New(r)
	return f
}

// ask lets an attempt in, has it wait, or refuses it.
func (s *sim) ask(v *service, r *replica, a *attempt) {
	if s.now >= a.expires {
		v.n.Expired++
		s.reply(a, tooLate, 0)
		return
	}
	if !r.front.Worth(s.now, a.expires) {
		v.n.Refused++
		s.shed(v, r, a, false)
		return
	}
	tenant := s.tenant(a)
	slot, ok := r.front.Enter(s.now, tenant)
	if ok {
		a.slots[atFront] = slot
		s.work(v, r, a)
		return
	}
	p := &seat{sim: s, who: a.self, gen: a.gen, front: true}
	switch answer := r.front.Join(s.now, &p.Wait, p, policy.Priority(a.priority), tenant, a.expires); answer {
	case admission.Waiting:
		v.n.Queued++
		s.sit(a, p)
		s.at(p.Until(), evLeave, a.self, a.gen)
	default:
		v.n.Refused++
		v.n.Full++
		s.lack(v, r, answer)
		s.shed(v, r, a, p.Whole())
	}
}

// tenant is who calls: a fleet or a service, all its instances together.
func (s *sim) tenant(a *attempt) string {
	if !s.services[a.service].Admission.Fair {
		return ""
	}
	return strconv.Itoa(s.edges[a.edge].caller)
}

// shed refuses an attempt as an Admission does.
func (s *sim) shed(v *service, r *replica, a *attempt, whole bool) {
	s.refusalCost(v, r, a)
	least := or(v.Admission.RetryAfter, time.Second)
	after := time.Duration(admission.RetryAfter(least, a.draws.U())) * time.Second
	if whole {
		s.reply(a, shedAll, after)
	} else {
		s.reply(a, shed, after)
	}
}

// letIn is the end of an attempt's wait for an Admission.
func (s *sim) letIn(v *service, r *replica, a *attempt, p *seat, slot admission.Slot, answer admission.Answer) {
	switch {
	case answer == admission.Admitted && !a.out: // its caller has gone
		v.n.Expired++
		s.reply(a, tooLate, 0)
		r.front.Release(s.now, slot)
	case answer == admission.Admitted:
		a.slots[atFront] = slot
		s.work(v, r, a)
	case answer == admission.Expired:
		v.n.Expired++
		s.reply(a, tooLate, 0)
	default:
		v.n.Dropped++
		s.shed(v, r, a, p.Whole())
	}
}

// goOut gives the slot of an Admission back.
func (s *sim) goOut(r *replica, a *attempt, worked bool) {
	if r.front.Gate == nil {
		return
	}
	r.front.Release(s.now, a.slots[atFront])
	v := learned.Worked
	if s.now >= a.expires || !a.out {
		v = learned.Left
	}
	if worked {
		r.front.Ended(s.now, a.admitted, a.expires, v == learned.Worked)
	}
	if worked {
		s.learn(&s.services[a.service], r, s.now.Sub(a.admitted), v)
	}
	s.serve()
}

// lack tells a learned limit of a request that was refused for lack of a slot.
func (s *sim) lack(v *service, r *replica, answer admission.Answer) {
	if r.front.Lacks(answer) {
		s.learn(v, r, 0, learned.Lacked)
	}
}

// learn tells a learned limit, if there is one.
func (s *sim) learn(v *service, r *replica, took time.Duration, verdict learned.Verdict) {
	if r.front.limit == nil {
		return
	}
	if limit, moved := r.front.limit.Done(s.now, 0, took, verdict); moved {
		queue := -1
		if v.Admission.Queue == 0 {
			queue = admission.QueueFor(limit)
		}
		r.front.Resize(limit, queue)
	}
}

// refusalCost is what a refusal costs: a share of the work, which a worker must do in between. It
// makes the next work of the replica longer.
func (s *sim) refusalCost(v *service, r *replica, a *attempt) {
	if v.RefuseCost > 0 {
		d := draw.New(s.seed, forService, attemptID(s.calls.at(a.call).id, a.try))
		cost := time.Duration(float64(v.RefuseCost * float64(v.Time.Draw(&d))))
		v.n.RefuseWork += cost
		r.debt += cost
	}
}
