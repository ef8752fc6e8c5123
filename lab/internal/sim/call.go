package sim

import (
	"time"

	"github.com/gabion-go/gabion/internal/admission"
	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/internal/machine"
	"github.com/gabion-go/gabion/lab/internal/draw"
	"github.com/gabion-go/gabion/policy"
)

// call is one call of a dependency: the machine, and what the world needs to know.
type call struct {
	machine machine.Call // cleared by its Begin
	step    machine.Step
	out     []uint32 // attempts that the caller waits for
	sim     *sim
	facts
}

// facts are what a call begins with as nothing.
type facts struct {
	self, gen uint32
	edge      int
	job, jgen uint32
	step      int // of the job
	who       int // which of its caller's clients or replicas
	place     int // in a recording of what calls met, from 1
	key       int // of the cache
	id        uint64
	root      clock.Instant // when the client's work began that it is a part of
	ends      *Counts       // where its end counts
	refs      int           // attempts that still know it
	sent      int
	effects   int          // how often the work was done
	fell      int          // how the last attempt failed; only where a world counts ways
	over, ok  bool         // the caller has its answer
	keyed     bool         // its attempts carry an idempotency key
	log       *machine.Log // nil unless its client is watched
	tape      *Recorded    // nil unless its attempts were recorded
	of        *messageCall // nil unless it is part of the work of a message
	conns     *conns       // nil unless its attempts need connections
}

// Wake implements bulkhead.Waker.
func (c *call) Wake() { c.sim.at(c.sim.now, evWake, c.self, c.gen) }

func (s *sim) startCall(j *job, e int, k uint64) {
	id, key := callID(j.id, j.step, k), 0
	if s.edges[e].cache != nil {
		var found bool
		if key, found = s.edges[e].cache.look(j, id); found {
			return
		}
	}
	i, gen, c := s.calls.take()
	c.sim, c.out = s, c.out[:0]
	c.facts = facts{self: i, gen: gen, edge: e, job: j.self, jgen: j.gen, step: j.step, who: j.who(), place: s.place(j), key: key, id: id}
	c.root, c.ends = j.root, &s.rec.of(s, j.root).Edges[e]
	ed, st := &s.edges[e], s.state(e, j.instance)
	rules := st.Rules().Policy
	safe := machine.IdempotentMethod(ed.Method)
	use := machine.UseKey(rules.Key, safe, ed.Keyed)
	c.keyed = use.Carried()
	p := machine.Params{Safe: safe || c.keyed, Waker: c, Priority: ed.Priority, Cost: ed.cost(s.seed, id)}
	p.NoHedge = ed.Method != "" && !machine.HedgeableMethod(ed.Method, rules.Safe)
	if j.deadline != clock.Never {
		p.Deadline = j.deadline
	}
	if c.tape = s.recorded(j); c.tape != nil {
		p = c.tape.Params
		p.Waker, p.Log = c, nil
		use = machine.KeyNone
	}
	if c.tape == nil {
		c.conns = ed.connsOf(s, j.instance)
	}
	if s.watch != nil && s.watched(j, e) {
		c.log = new(machine.Log)
		p.Log = c.log
	}
	if j.run {
		c.of = &messageCall{message: s.deliveries.at(j.attempt).message, part: part(j.step, int(k))}
	}
	c.ends.Calls++
	if use == machine.KeyLacking {
		s.turnAway(c)
		return
	}
	c.machine.Begin(st, s.now, &p)
	s.step(c)
}

// turnAway ends a call that lacks the key that its policy requires, before it begins.
func (s *sim) turnAway(c *call) {
	v := machine.End{Reason: policy.KeyMissing, Effect: policy.NoEffect}
	if c.log != nil {
		s.watch.Tell(c.id, c.edge, policy.Event{Kind: policy.KindAttemptRefused, At: s.now, Until: s.now, Reason: v.Reason, Attempt: 1})
		s.watch.Tell(c.id, c.edge, policy.Event{Kind: policy.KindReturned, At: s.now, Reason: v.Reason, Effect: v.Effect})
	}
	s.ended(c, &v)
}

// step asks the machine what to do, and does it.
func (s *sim) step(c *call) {
	if c.over {
		return
	}
	c.machine.NextInto(s.now, &c.step)
	if c.log != nil {
		s.tell(c)
	}
	switch c.step.Verb {
	case machine.Send:
		s.send(c, &c.step.Ticket)
		if c.machine.Hedges() && c.step.Again != clock.Never {
			s.at(c.step.Again, evWake, c.self, c.gen)
		}
	case machine.Wait:
		if c.step.Again != clock.Never && (len(c.out) == 0 || c.machine.Hedges()) {
			s.at(c.step.Again, evWake, c.self, c.gen)
		}
	case machine.Return:
		s.returned(c)
	}
}

// stage is where an attempt is.
type stage uint8

const (
	outward stage = iota // on its way
	waiting              // in a queue
	working              // being worked on
	homeward
)

// attempt is one attempt: on its way, in a queue, being worked on, or on its way back.
type attempt struct {
	self, gen uint32
	call      uint32
	edge      int
	service   int
	replica   int
	ticket    machine.Ticket
	draws     draw.Stream
	try       int
	out       bool // the caller waits for it
	there     bool // it is at its replica, or on its way
	armed     bool // its deadline is scheduled
	stage     stage
	sent      clock.Instant
	came      clock.Instant // at the replica
	started   clock.Instant
	expires   clock.Instant // as the replica understands it
	work      time.Duration
	answer    answer
	after     time.Duration
	priority  int8
	admitted  clock.Instant      // to the workers
	slots     [2]admission.Slot  // of the workers and of the Admission
	seat      *seat              // in a queue; nil unless it waits
	did       bool               // its work was done, or had been before under its key
	bad       flaw               // of its answer
	told      []policy.Remaining // what its answer says is left; nil if it says nothing
	conn      hold
}

// flaw is what is wrong with an answer on its way.
type flaw struct {
	lost, cut bool          // it breaks: before its first byte, or in its body
	body      time.Duration // how much longer its body takes
}

// Where an attempt has a slot.
const (
	atWorker = iota
	atFront
)

func (s *sim) send(c *call, t *machine.Ticket) {
	e := &s.edges[c.edge]
	i, gen, a := s.attempts.take()
	*a = attempt{self: i, gen: gen, call: c.self, edge: c.edge, service: placed(s, c, e, t), ticket: *t, out: true, there: true, sent: s.now}
	c.sent++
	c.sentAgain(s, t.Hedge)
	a.try = c.sent
	a.priority = int8(e.Priority)
	a.draws = draw.New(s.seed, forNetwork, attemptID(c.id, c.sent))
	c.out = append(c.out, i)
	c.refs++
	a.expires = clock.Never
	if e.Deadline {
		a.expires = t.Deadline
	}
	switch {
	case c.conns != nil:
		c.conns.connect(a)
	case c.tape != nil:
		s.rec.attempted(s, e, a)
		s.play(c, a)
	default:
		a.depart(s)
	}
}

// placed is the service that an attempt goes to: that of its endpoint, if the policy has any.
func placed(s *sim, c *call, e *edge, t *machine.Ticket) int {
	to := e.To
	if at := machine.EndpointOf(&c.machine, t); at != nil {
		for i := range s.services {
			if s.services[i].Name == at.Name {
				to = i
			}
		}
	}
	move(s, e, to, 1)
	return to
}

// move counts attempts that go to another service than the one that is called.
func move(s *sim, e *edge, to int, n int64) {
	s.moved[to] += n
	s.moved[e.To] -= n
}

// depart sends an attempt on its way.
func (a *attempt) depart(s *sim) {
	e := &s.edges[a.edge]
	s.rec.attempted(s, e, a)
	if a.draws.Yes(e.Loss) {
		move(s, e, a.service, -1)
		e.n.Astray++
		a.there = false
		s.arm(a)
		return
	}
	s.next(a, s.now.Add(e.Network.Draw(&a.draws)), evArrive)
}

// next schedules what happens to an attempt next. Its deadline is scheduled only when it comes
// before that, or when what comes is unknown: most answers are in time, and to find that out took
// one event of five.
func (s *sim) next(a *attempt, at clock.Instant, kind uint32) {
	if at >= a.ticket.Deadline {
		s.arm(a)
	}
	s.at(at, kind, a.self, a.gen)
}

// arm schedules the deadline of an attempt that the caller waits for.
func (s *sim) arm(a *attempt) {
	if !a.armed && a.out && a.ticket.Deadline != clock.Never {
		a.armed = true
		s.at(a.ticket.Deadline, evDeadline, a.self, a.gen)
	}
}

// home is an answer that reaches the caller.
func (s *sim) home(a *attempt) {
	a.there = false
	if s.asked(a) {
		s.live.deliver(a)
		return
	}
	if a.out {
		a.conn.keeps = a.answer != refused && a.answer != broken
		o := s.brought(a)
		a.fail(s, s.calls.at(a.call), &o, a.answer.way())
		s.settle(a, &o)
		return
	}
	s.release(a)
}

func (s *sim) timeout(a *attempt) {
	if a.out {
		o := policy.Outcome{Class: policy.ClassTimeout, Effect: policy.UnknownEffect}
		if r := s.edges[a.edge].repeats; r != nil {
			o = r.Of(0, o)
		}
		a.fail(s, s.calls.at(a.call), &o, TooLate)
		s.settle(a, &o)
	}
}

// settle tells the machine how an attempt ended, and asks what now.
func (s *sim) settle(a *attempt, o *policy.Outcome) {
	c := s.calls.at(a.call)
	s.rec.settled(s, a, o)
	s.comeHome(c, a, o)
	self, gen, pool := c.self, c.gen, c.conns
	s.release(a)
	if c = s.calls.get(self, gen); c != nil {
		s.step(c)
	}
	if pool != nil {
		pool.lend()
	}
}

// comeHome ends the caller's interest in an attempt.
func (s *sim) comeHome(c *call, a *attempt, o *policy.Outcome) {
	a.out = false
	if c.conns != nil {
		c.conns.parted(a)
	}
	if c.of != nil {
		c.of.last = *o
	}
	for i, other := range c.out {
		if other == a.self {
			c.out = append(c.out[:i], c.out[i+1:]...)
			break
		}
	}
	c.machine.SettleFrom(s.now, &a.ticket, o)
	if c.log != nil {
		s.tell(c)
	}
}

// returned is the end of a call for its caller. Attempts that still run are cancelled,
// and end at once, as those of a caller that stopped waiting.
func (s *sim) returned(c *call) {
	v := c.machine.End()
	c.over = true
	for len(c.out) > 0 {
		a := s.attempts.at(c.out[0])
		s.comeHome(c, a, &policy.Outcome{Class: policy.ClassIgnored, Effect: policy.UnknownEffect})
		c.refs++ // c must outlive this
		s.release(a)
		c.refs--
	}
	if c.conns != nil {
		c.conns.lend()
	}
	s.ended(c, &v)
}

// ended is the verdict on a call of which nothing is out.
func (s *sim) ended(c *call, v *machine.End) {
	c.over, c.ok = true, v.Reason == policy.None
	s.rec.returned(s, c, v)
	ok, job, jgen, step, edge, key := c.ok, c.job, c.jgen, c.facts.step, c.edge, c.key
	if j := s.jobs.get(job, jgen); j != nil && j.run && !ok {
		s.failedCall(s.deliveries.at(j.attempt), c, v)
	}
	if c.refs == 0 {
		s.forget(c)
	}
	if j := s.jobs.get(job, jgen); j != nil {
		s.called(j, step, ok)
	}
	if cache := s.edges[edge].cache; cache != nil {
		cache.fetched(key, ok)
	}
}

// release frees an attempt that neither caller nor replica knows any more, and its
// call with the last one.
func (s *sim) release(a *attempt) {
	if a.out || a.there {
		return
	}
	c := s.calls.at(a.call)
	s.attempts.put(a.self)
	if c.refs--; c.refs == 0 && c.over {
		s.forget(c)
	}
}

// forget frees a call that nothing refers to any more.
func (s *sim) forget(c *call) {
	s.rec.forgotten(s, c)
	s.calls.put(c.self)
}
