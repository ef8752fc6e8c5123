package sim

import (
	"math"

	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/internal/machine"
	"github.com/gabion-go/gabion/lab/internal/draw"
	"github.com/gabion-go/gabion/lab/internal/engine"
)

// Purposes of draws. Their numbers are part of what a seed means.
const (
	forArrivals draw.Purpose = iota + 1
	forClients
	forThinking
	forNetwork
	forService
	forBalance
	forFaults
	forPolicy
	forPlans
	forMessages
	forConsumers
	forWaits
	forAcks
	forKeys
	forPauses
	forShares
	forStore
	forUses
	forWays
)

// sim is one run.
type sim struct {
	world *World
	seed  uint64
	now   clock.Instant
	end   clock.Instant // of the load
	queue engine.Queue[event]
	hash  uint64

	fleets   []fleet
	services []service
	edges    []edge
	moved    []int64 // by service: attempts that went there as to an endpoint, less those that went elsewhere
	rec      recorder
	watch    *Watch
	over     bool
	troubled int // faults that will begin or end
	many     int // with this many instances or more, blank states change hands

	calls    pool[call]
	attempts pool[attempt]
	jobs     pool[job]

	messages   pool[*message]
	deliveries pool[delivery]

	sharers []*sharer

	woken []*seat // whose wait has an answer
	live  *Live   // who asks from outside; nil in a run
}

// event says what happens and to whom. The tag is the generation of a pool's slot
// above the kind, so that what is stale is noticed.
type event struct{ who, tag uint32 }

// The kinds of events.
const (
	evArrival  uint32 = iota + 1 // a fleet's next call
	evClient                     // a client of a closed fleet makes its next call
	evWake                       // a call wants to be asked
	evArrive                     // an attempt reaches its replica
	evDone                       // a replica has done the work
	evHome                       // an answer reaches the caller
	evDeadline                   // an attempt's time is over
	evFault                      // a fault begins, changes or ends
	evBin                        // a bin of the series ends
	evCut                        // a phase begins
	evLeave                      // an attempt may wait no longer
	evStop                       // of a Live: it is now
	evDelivery                   // a delivery wants to be asked
	evEnd                        // the time of a run is over
	evLapse                      // the visibility of a delivery ends
	evReady                      // a message may come again
	evRoom                       // a consumer asks again whether it has room
	evOffer                      // a broker delivers what it can
	evOpened                     // a connection is open
	evTurn                       // an attempt may wait no longer for a connection
	evShare                      // a client's renewal of its shares goes on
	kinds
)

const kindBits = 8

func (s *sim) at(t clock.Instant, kind, who, gen uint32) {
	s.queue.Push(t, event{who, gen<<kindBits | kind})
}

// Run runs the world once.
func Run(w *World, seed uint64) *Result { return RunWatched(w, seed, nil) }

// RunWatched is Run with one client watched, which changes nothing that happens.
func RunWatched(w *World, seed uint64, watch *Watch) *Result {
	s := newSim(w, seed, watch)
	s.run()
	return s.result()
}

func newSim(w *World, seed uint64, watch *Watch) *sim {
	return &sim{world: w, seed: seed, end: clock.Instant(w.Duration), watch: watch, many: many}
}

func (s *sim) run() {
	s.build()
	stop := s.end.Add(s.world.Drain)
	if s.world.Drain <= 0 && !s.world.queues() {
		stop = clock.Never
	}
	for !s.over {
		e, ok := s.queue.Pop()
		if !ok || e.At > stop {
			break
		}
		s.now = e.At
		s.hash = (s.hash ^ uint64(e.At) ^ uint64(e.What.who)<<32 ^ uint64(e.What.tag)) * 0x9fb21c651e98df25
		s.hash ^= s.hash >> 29
		s.rec.events++
		s.handle(e.What)
	}
}

func (s *sim) handle(e event) {
	gen := e.tag >> kindBits
	switch e.tag & (1<<kindBits - 1) {
	case evArrival:
		s.arrival(int(e.who))
	case evClient:
		s.client(int(gen), e.who)
	case evWake:
		if c := s.calls.get(e.who, gen); c != nil {
			s.step(c)
		}
	case evArrive:
		s.arrive(s.attempts.at(e.who))
	case evDone:
		if a := s.attempts.get(e.who, gen); a != nil {
			s.done(a)
		}
	case evHome:
		s.home(s.attempts.at(e.who))
	case evDeadline:
		if a := s.attempts.get(e.who, gen); a != nil {
			s.timeout(a)
		}
	case evOpened:
		if a := s.attempts.get(e.who, gen); a != nil {
			s.calls.at(a.call).conns.opened(a)
		}
	case evTurn:
		if a := s.attempts.get(e.who, gen); a != nil {
			s.calls.at(a.call).conns.noTurn(a)
		}
	case evLeave:
		if a := s.attempts.get(e.who, gen); a != nil {
			s.leave(a)
		}
	case evFault:
		s.troubled--
		s.fault(int(e.who), gen)
	case evShare:
		s.sharers[e.who].renew(s, e.who)
	case evBin:
		s.bin()
	case evCut:
		s.rec.enter(s, int(e.who))
	default:
		s.handleMessages(e)
	}
}

// build makes everything that the world names.
func (s *sim) build() {
	w := s.world
	for i := range w.Services {
		s.services, s.moved = append(s.services, newService(s, i)), append(s.moved, 0)
	}
	for i := range w.Fleets {
		s.fleets = append(s.fleets, newFleet(s, i))
	}
	for i := range w.Services { // callers before callees would not know their edges
		s.services[i].plan = s.plan(&w.Services[i].Plan, -1-i, s.services[i].count())
	}
	s.rec.begin(s)
	for i := range s.fleets {
		s.startFleet(i)
		startSharing(s, i)
	}
	for i := range w.Faults {
		s.atFault(clock.Instant(w.Faults[i].At), i, 0)
	}
	s.at(clock.Instant(s.rec.width), evBin, 0, 0)
}

// plan is a Plan whose edges have their states.
type plan struct {
	*Plan
	edges []int // of each step, into sim.edges
}

func (s *sim) plan(p *Plan, caller, instances int) plan {
	made := plan{Plan: p}
	for i := range p.Steps {
		e := &p.Steps[i].Edge
		made.edges = append(made.edges, len(s.edges))
		s.edges = append(s.edges, edge{
			Edge: e, caller: caller, rules: e.Rules, repeats: e.Repeats, states: make([]*machine.State, instances), blank: newBlanks(e.Rules, instances, s.many),
			cache: newCache(s, len(s.edges), e.Cache),
		})
	}
	return made
}

// pool keeps what is used again and again, by slots. A slot's generation changes
// when it is freed.
type pool[T any] struct {
	chunks [][]slot[T]
	free   []uint32
	n      uint32
}

type slot[T any] struct {
	gen  uint32
	live bool
	it   T
}

const chunkBits = 8

func (p *pool[T]) slot(i uint32) *slot[T] { return &p.chunks[i>>chunkBits][i&(1<<chunkBits-1)] }

// take returns an unused slot. What it held before is still there.
func (p *pool[T]) take() (uint32, uint32, *T) {
	var i uint32
	if n := len(p.free); n > 0 {
		i, p.free = p.free[n-1], p.free[:n-1]
	} else {
		i = p.n
		p.n++
		if int(i>>chunkBits) == len(p.chunks) {
			p.chunks = append(p.chunks, make([]slot[T], 1<<chunkBits))
		}
	}
	s := p.slot(i)
	s.live = true
	return i, s.gen, &s.it
}

func (p *pool[T]) at(i uint32) *T { return &p.slot(i).it }

// get returns what is in a slot if it is still of that generation.
func (p *pool[T]) get(i, gen uint32) *T {
	if s := p.slot(i); s.live && s.gen == gen {
		return &s.it
	}
	return nil
}

func (p *pool[T]) put(i uint32) {
	p.renew(i)
	p.slot(i).live = false
	p.free = append(p.free, i)
}

// renew makes stale what was scheduled for a slot, and returns its new generation.
func (p *pool[T]) renew(i uint32) uint32 {
	s := p.slot(i)
	s.gen = (s.gen + 1) & (math.MaxUint32 >> kindBits)
	return s.gen
}

// each calls f for everything in use.
func (p *pool[T]) each(f func(*T)) {
	for i := range p.n {
		if s := p.slot(i); s.live {
			f(&s.it)
		}
	}
}
