package sim

import (
	"time"

	"github.com/gabion-go/gabion/internal/admission"
	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/internal/ratelimit"
	"github.com/gabion-go/gabion/lab/internal/draw"
)

// service is a Service at work.
type service struct {
	*Service
	index    int
	replicas []replica
	plan     plan
	turn     int
	active   []activeFault
	limits   *limiters
	accounts map[[2]int]*account // of its quotas, by who calls
	under    int                 // requests being worked on, at all replicas
	worked   time.Duration       // how long they were, all together, until moved
	moved    clock.Instant
	n        *Work
}

// replica is one instance.
type replica struct {
	busy  int // requests being worked on
	front front
	pool  *admission.Gate // its workers; nil where no request ever waits
	debt  time.Duration   // work that refusals cost and that is not done yet
	warm  clock.Instant   // until when work is slow after a restart
	cold  clock.Instant   // when that began
	rests pauses
}

func newService(s *sim, i int) service {
	v := service{Service: &s.world.Services[i], index: i, limits: new(limiters)}
	v.replicas = make([]replica, v.count())
	for i := range v.replicas {
		v.replicas[i].pool, v.replicas[i].front = v.pool(), v.front(s.now)
		v.replicas[i].rests = newPauses(s, &v, i)
	}
	return v
}

func (v *Service) count() int { return max(v.Replicas, 1) }

// choose picks the replica for an attempt, by draws of its own.
func (s *sim) choose(v *service, a *attempt) int {
	n := len(v.replicas)
	if n == 1 {
		return 0
	}
	draws := draw.New(s.seed, forBalance, attemptID(s.calls.at(a.call).id, a.try))
	switch v.Balance {
	case RoundRobin:
		v.turn = (v.turn + 1) % n
		return v.turn
	case TwoChoices:
		a, b := draws.N(n), draws.N(n)
		if v.replicas[b].load() < v.replicas[a].load() {
			return b
		}
		return a
	case LeastBusy:
		least := draws.N(n)
		for i := range v.replicas {
			if v.replicas[i].load() < v.replicas[least].load() {
				least = i
			}
		}
		return least
	}
	return draws.N(n)
}

// crew is how many work at each replica now.
func (v *service) crew() int {
	n := v.Workers
	for i := range v.active {
		if f := &v.active[i]; f.Kind == Crew {
			n = max(int(float64(float64(n)*f.Factor)+0.5), 1)
		}
	}
	return n
}

func (r *replica) load() int { return r.busy + r.queued() }

func (r *replica) queued() int { return queuedAt(r.pool) + queuedAt(r.front.Gate) }

func queuedAt(g *admission.Gate) int {
	if g == nil {
		return 0
	}
	_, _, queued := g.Occupancy()
	return queued
}

// arrive is an attempt that reaches the service.
func (s *sim) arrive(a *attempt) {
	v := &s.services[a.service]
	a.came = s.now
	a.replica = s.choose(v, a)
	v.n.Received++
	if ans, after, silent := s.troubles(v, a); silent {
		v.n.Silent++
		s.vanish(a)
		return
	} else if ans != answered {
		v.n.Refused++
		s.reply(a, ans, after)
		return
	}
	if !s.admit(v, a) {
		v.n.Refused++
		return
	}
	if v.DropExpired && s.now >= a.expires {
		v.n.Expired++
		s.reply(a, expired, 0)
		return
	}
	if r := &v.replicas[a.replica]; v.Admission != nil {
		s.ask(v, r, a)
	} else {
		s.work(v, r, a)
	}
}

// work gives an attempt to a worker, or puts it in the queue.
func (s *sim) work(v *service, r *replica, a *attempt) {
	a.admitted = s.now
	free := r.pool == nil
	if !free {
		a.slots[atWorker], free = r.pool.Enter(s.now, "")
	}
	switch {
	case free:
		s.start(v, r, a)
	case s.wait(v, r, a):
		v.n.Queued++
	default:
		v.n.Refused++
		v.n.Full++
		s.refusalCost(v, r, a)
		s.reply(a, busy, 0)
		s.goOut(r, a, false)
	}
}

// admit asks the service's own rate limit, and its quotas.
func (s *sim) admit(v *service, a *attempt) bool {
	ok, after := s.limit(v.limits, &v.Limit, a)
	if ok {
		ok, after = charge(s, v, a)
	}
	if !ok {
		s.reply(a, throttled, after)
	}
	return ok
}

// limiters are a limit at work: one, or one for each caller.
type limiters struct {
	one  ratelimit.Limiter
	each map[[2]int]*ratelimit.Limiter // by who calls, and which of them
}

func (l *limiters) of(caller, who int) *ratelimit.Limiter {
	if l.each == nil {
		l.each = map[[2]int]*ratelimit.Limiter{}
	}
	name := [2]int{caller, who}
	if l.each[name] == nil {
		l.each[name] = new(ratelimit.Limiter)
	}
	return l.each[name]
}

// limit takes one turn of a limit.
func (s *sim) limit(limits *limiters, l *Limit, a *attempt) (ok bool, after time.Duration) {
	if l.Rate <= 0 {
		return true, 0
	}
	turns := &limits.one
	if l.PerCaller {
		turns = limits.of(s.edges[a.edge].caller, s.calls.at(a.call).who)
	}
	at, ok := turns.Reserve(s.now, ratelimit.Every(l.Rate, l.Burst), 0)
	if ok {
		return true, 0
	}
	if l.Honest {
		return false, at.Sub(s.now)
	}
	return false, l.After
}

// start begins the work for an attempt.
func (s *sim) start(v *service, r *replica, a *attempt) {
	v.move(s.now, r, 1)
	a.stage, a.started = working, s.now
	c := s.calls.at(a.call)
	if v.Honours && c.keyed && c.known() {
		a.work = 0 // the answer is known
	} else {
		a.work = s.workTime(v, r, a, c)
	}
	a.work += r.debt
	r.debt = 0
	s.next(a, r.rests.done(s.now, a.work), evDone)
}

func (s *sim) workTime(v *service, r *replica, a *attempt, c *call) time.Duration {
	t := 0.0
	if met := s.met(a, c); met != nil {
		t = float64(met.Took)
	} else {
		t = float64(v.takes(s.seed, c.id, a.try))
	}
	if v.Crowd > 0 {
		t = float64(t * (1 + float64(v.Crowd*float64(r.busy))))
	}
	factor, more := s.slowness(v, a)
	t = float64(t*factor) + float64(more)
	if s.now < r.warm && r.cold < r.warm { // three times as long at first
		left := float64(r.warm.Sub(s.now)) / float64(r.warm.Sub(r.cold))
		t = float64(t * (1 + float64(2*left)))
	}
	return time.Duration(t + 0.5)
}

// done is the end of a replica's own work for an attempt.
func (s *sim) done(a *attempt) {
	v := &s.services[a.service]
	a.answer = answered
	if len(v.plan.Steps) == 0 {
		s.finished(a, true)
		return
	}
	s.arm(a)
	j := s.newJob(&v.plan)
	j.instance, j.attempt, j.agen = a.replica, a.self, a.gen
	c := s.calls.at(a.call)
	j.id, j.root = c.id*0x9e3779b97f4a7c15+uint64(a.try), c.root
	j.deadline = min(j.deadline, a.expires)
	s.runJob(j)
}

// finished is the end of an attempt at its replica, whatever is below.
func (s *sim) finished(a *attempt, ok bool) {
	v := &s.services[a.service]
	c := s.calls.at(a.call)
	r := &v.replicas[a.replica]
	v.n.spent(s, a, c)
	v.move(s.now, r, -1)
	fails := s.fails(v, a)
	if met := s.met(a, c); met != nil && fails.answer == answered {
		fails.answer = met.answer()
	}
	switch {
	case !ok && v.Marks:
		v.n.Failed++
		a.answer = stopBelow
	case !ok:
		v.n.Failed++
		a.answer = badBelow
	case fails.late:
		s.effect(v, c, a)
		a.answer, a.after = fails.answer, fails.after
	case fails.answer != answered:
		v.n.Failed++
		a.answer, a.after = fails.answer, fails.after
	default:
		s.effect(v, c, a)
	}
	a.bad.cut, a.bad.body = fails.cut, fails.body
	if fails.lost || fails.cut {
		v.n.LostAnswers++
		a.answer = broken
	}
	a.bad.lost = fails.lost
	s.reply(a, a.answer, a.after)
	s.serveNext(r, a)
}

// move changes how many requests a replica works on, and keeps for how long.
func (v *service) move(now clock.Instant, r *replica, by int) {
	v.worked += time.Duration(v.under) * now.Sub(v.moved)
	v.moved = now
	r.busy += by
	v.under += by
}

// effect is the work that was done: once for a call, if all is well.
func (s *sim) effect(v *service, c *call, a *attempt) {
	a.did = true
	if v.Honours && c.keyed && c.known() {
		v.n.Replays++
		return
	}
	c.effects++
	v.n.Effects++
	times := c.effects
	if c.of != nil {
		times = s.saw(c.of.message, c.of.part)
	}
	if times > 1 {
		v.n.Duplicates++
	}
}

// known reports whether the work of a call was done before. A call of a message's work has
// a key that is derived from the message's, the same whenever it is made.
func (c *call) known() bool {
	return c.effects > 0 || c.of != nil && c.of.message.effects[c.of.part] > 0
}

// serveNext gives a worker back, for the next one who waits.
func (s *sim) serveNext(r *replica, a *attempt) {
	if r.pool != nil {
		r.pool.Release(s.now, a.slots[atWorker])
		s.serve()
	}
	s.goOut(r, a, true)
}

// reply sends an answer home.
func (s *sim) reply(a *attempt, ans answer, after time.Duration) {
	a.answer, a.after, a.stage = ans, after, homeward
	e := &s.edges[a.edge]
	if a.draws.Yes(e.Loss) {
		s.vanish(a)
		return
	}
	late := e.Network.Draw(&a.draws)
	if !s.asked(a) { // who asked from outside reads the body himself
		late += a.bad.body
	}
	if ans != refused { // by the host and not by who pauses
		late += s.services[a.service].replicas[a.replica].rests.over(s.now)
	}
	s.next(a, s.now.Add(late), evHome)
}

// vanish is an attempt of which the caller hears nothing.
func (s *sim) vanish(a *attempt) {
	a.there = false
	s.arm(a)
	s.release(a)
}
