package sim

import (
	"time"

	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/internal/machine"
	"github.com/gabion-go/gabion/lab/internal/draw"
	"github.com/gabion-go/gabion/policy"
)

// Live is one service of a world that is asked from outside, at times that the caller
// says. Everything else is as in a run: workers and queues, faults, limits, and services
// below. It reads no clock, and is not safe for concurrent use.
type Live struct {
	sim     *sim
	service int
	edge    int               // by which it is asked
	asks    map[uint32]*Asked // by the slot of the attempt
	known   map[uint64]uint32 // calls with a key, by name: their slots
	order   []uint64          // of these, the oldest first
	made    uint64            // requests without a key, so far
	forgot  int64
}

// maxKnown is how many calls with a key are known at once: some megabytes.
const maxKnown = 100_000

// Request is what reaches a service from outside.
type Request struct {
	Call     uint64        // its name in the draws: requests of one call have the same. Zero gives it one of its own
	Keyed    bool          // it carries an idempotency key, which Call was made of
	Who      int           // which client sent it, for limits per caller
	Expires  time.Duration // when its caller has no more use for an answer; zero means never
	Priority policy.Priority
}

// Reply is what a service says to a [Request].
type Reply struct {
	At      time.Duration
	Status  int           // of HTTP; zero is a connection that breaks before an answer
	Refused bool          // as if the server did not listen: no byte of the request was read
	Worked  bool          // the work was done, or known to be, whatever the rest says
	CutBody bool          // the answer breaks off in its body
	Body    time.Duration // for so long the body takes to arrive
	After   time.Duration // when to come again; zero says nothing
	Stop    bool          // it says not to retry
	Shed    string        // why an Admission refused it; empty means that none did
	Try     int           // which request of its call this was, from 1
	Effects int           // how often the work of its call has been done so far
}

// Asked is a request that has no reply yet.
type Asked struct {
	slot uint32
	tell func(Reply)
}

// NewLive returns a service of a world at time 0. The world's fleets ask nothing.
func NewLive(w *World, service int, seed uint64) (*Live, error) {
	rules, err := machine.Compile(policy.Policy{})
	if err != nil {
		return nil, err
	}
	own := *w
	own.Warmup, own.Cuts, own.Bin = 0, nil, 1<<61 // one bin, and no series
	own.Fleets = []Fleet{{Clients: 1, Loop: Trace, Plan: Plan{Steps: []Step{{Edge: Edge{To: service, Rules: rules}}}}}}
	own.Faults = append([]Fault(nil), w.Faults...) // with their places, which draws are named after
	for i := range own.Faults {
		own.Faults[i].Fleet = 0
	}
	l := &Live{sim: newSim(&own, seed, nil), service: service, asks: map[uint32]*Asked{}, known: map[uint64]uint32{}}
	l.sim.live = l
	l.sim.build()
	l.edge = l.sim.fleets[0].plan.edges[0]
	l.Advance(0)
	return l, nil
}

// asked reports whether an attempt came from outside.
func (s *sim) asked(a *attempt) bool { return s.live != nil && a.edge == s.live.edge }

// Advance makes everything happen that happens up to now. Times never fall.
func (l *Live) Advance(now time.Duration) {
	s := l.sim
	until := max(clock.Instant(now), s.now)
	for some := true; some; {
		some = false
		s.at(until, evStop, 0, 0)
		for {
			e, _ := s.queue.Pop()
			s.now = e.At
			if e.What.tag&(1<<kindBits-1) == evStop {
				break
			}
			s.handle(e.What)
			some = true // and what it scheduled for this instant comes after the stop
		}
	}
}

// Next returns when something happens by itself, unless a request comes first; false when nothing
// will.
func (l *Live) Next() (time.Duration, bool) {
	at, ok := l.sim.queue.Due()
	return time.Duration(at), ok && at < 1<<61
}

// Ask is a request that arrives now. Its reply comes by tell, from within this call, a
// later one or an Advance; from a black hole none comes.
func (l *Live) Ask(now time.Duration, r Request, tell func(Reply)) *Asked {
	l.Advance(now)
	s := l.sim
	c := l.call(&r)
	i, gen, a := s.attempts.take()
	*a = attempt{
		self: i, gen: gen, call: c.self, edge: l.edge, service: l.service, ticket: machine.Ticket{Deadline: clock.Never},
		out: true, there: true, sent: s.now, expires: clock.Never, priority: int8(r.Priority),
	}
	c.sent++
	c.refs++
	a.try = c.sent
	a.draws = draw.New(s.seed, forNetwork, attemptID(c.id, c.sent))
	if r.Expires > 0 {
		a.expires = clock.Instant(r.Expires)
	}
	t := &Asked{slot: i, tell: tell}
	l.asks[i] = t
	s.arrive(a)
	l.Advance(now)
	return t
}

// call returns the call that a request belongs to. It ends with its last request, unless
// it has a key.
func (l *Live) call(r *Request) *call {
	s := l.sim
	if r.Keyed {
		if i, ok := l.known[r.Call]; ok {
			return s.calls.at(i)
		}
	}
	i, gen, c := s.calls.take()
	c.sim, c.out = s, c.out[:0]
	c.facts = facts{self: i, gen: gen, edge: l.edge, id: r.Call, who: r.Who, keyed: r.Keyed, root: s.now, over: true, ok: true}
	c.ends = &s.rec.phases[0].Edges[l.edge]
	c.ends.Calls++
	if r.Call == 0 {
		l.made++
		c.id = callID(jobID(0, l.made), 0, 0)
	}
	if r.Keyed {
		l.remember(c)
	}
	return c
}

// remember keeps a call for requests to come, and forgets the oldest of too many.
func (l *Live) remember(c *call) {
	s := l.sim
	c.refs++
	l.known[c.id] = c.self
	l.order = append(l.order, c.id)
	if len(l.order) <= maxKnown {
		return
	}
	old := s.calls.at(l.known[l.order[0]])
	delete(l.known, l.order[0])
	l.order = l.order[1:]
	l.forgot++
	if old.refs--; old.refs == 0 {
		s.forget(old)
	}
}

// Gone is a caller who waits no longer. The service does not see it, but for an Admission. It
// reports whether a reply is still told when the service is done with the request.
func (l *Live) Gone(now time.Duration, t *Asked) (told bool) {
	l.Advance(now)
	if l.asks[t.slot] != t {
		return false // it has its reply
	}
	a := l.sim.attempts.at(t.slot)
	a.out = false
	if told = a.there; !told {
		delete(l.asks, t.slot)
	}
	l.sim.release(a)
	return told
}

// deliver hands a reply to who asked.
func (l *Live) deliver(a *attempt) {
	s := l.sim
	t := l.asks[a.self]
	delete(l.asks, a.self)
	c := s.calls.at(a.call)
	r := Reply{At: time.Duration(s.now), Try: a.try, Effects: c.effects, Worked: a.did, Body: a.bad.body, CutBody: a.bad.cut && !a.bad.lost}
	a.answer.reply(&r)
	if r.CutBody {
		r.Status = 200
	}
	o := a.answer.outcome(a.after, &policy.Policy{Trust: policy.Internal})
	if o.HasAfter {
		r.After = o.After
	}
	r.Stop = o.Stop
	a.out = false
	s.release(a)
	if t != nil {
		t.tell(r)
	}
}

// reply is what an answer is to a socket.
func (a answer) reply(r *Reply) {
	switch a {
	case refused:
		r.Refused = true
	case broken:
	case shed:
		r.Status, r.Shed = 503, "queue-full"
	case shedAll:
		r.Status, r.Shed = 503, "too-long"
	case tooLate:
		r.Status, r.Shed = 504, "expired"
	default:
		r.Status = a.status()
	}
}

// Work returns what happened at the service so far.
func (l *Live) Work() Work { return l.sim.rec.phases[0].Services[l.service] }

// Calls returns how many calls the requests so far belonged to: one for each key, and
// one for each request without one.
func (l *Live) Calls() int64 { return l.sim.rec.phases[0].Edges[l.edge].Calls }

// Forgotten returns how many keys are not known any more: their next request counts as
// a new call.
func (l *Live) Forgotten() int64 { return l.forgot }

// Under returns how many requests are being worked on now, and how many wait.
func (l *Live) Under() (working, queued int) {
	v := &l.sim.services[l.service]
	for i := range v.replicas {
		queued += v.replicas[i].queued()
	}
	return v.under, queued
}

// Deaf reports whether the service does not listen now: every connection is refused.
func (l *Live) Deaf() bool {
	v := &l.sim.services[l.service]
	for i := range v.active {
		f := &v.active[i]
		all := (f.Share <= 0 || f.Share >= 1) && (f.Replicas == 0 || f.Replicas >= v.count())
		if all && (f.Kind == Restart || f.Kind == Refuse && f.Ramp <= 0) {
			return true
		}
	}
	return false
}
