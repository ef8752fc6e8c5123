package sim

import (
	"time"

	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/lab/internal/draw"
)

// fleet is a Fleet at work.
type fleet struct {
	*Fleet
	plan   plan
	from   source
	picks  draw.Stream
	starts draw.Stream
	made   uint64   // pieces of work so far
	own    []uint32 // Closed: of these, how many each client began
	spent  []uint32 // calls of each client's session
	group  int      // clients to a state
	trace  int
	broker *broker // nil unless there is one between load and clients

	away      int // faults for which its store is away
	restarted int // states of clients, by faults that take some each time
}

func newFleet(s *sim, i int) fleet {
	f := &s.world.Fleets[i]
	f2 := fleet{Fleet: f, group: max(f.Shared, 1)}
	f2.from = source{load: f.Load, even: f.Even, draws: draw.New(s.seed, forArrivals, uint64(i))}
	f2.picks = draw.New(s.seed, forClients, uint64(i))
	f2.starts = draw.New(s.seed, forThinking, uint64(i))
	if f.Loop == Closed {
		f2.own = make([]uint32, f.Clients)
	}
	if f.Session > 0 {
		f2.spent = make([]uint32, f.Clients)
	}
	f2.broker = newBroker(s, i)
	f2.plan = s.plan(&f.Plan, i, (f.Clients+f2.group-1)/f2.group)
	return f2
}

func (s *sim) startFleet(i int) {
	f := &s.fleets[i]
	switch f.Loop {
	case Open, Trace:
		s.nextArrival(i)
	case Closed:
		for c := range f.Clients {
			at := s.now
			if f.Spread > 0 {
				at = at.Add(time.Duration(float64(f.starts.U() * float64(f.Spread))))
			}
			s.at(at, evClient, uint32(c), uint32(i))
		}
	}
}

func (s *sim) nextArrival(i int) {
	f := &s.fleets[i]
	if f.Loop == Trace {
		if at, ok := f.recorded(f.trace); ok && at < s.world.Duration {
			s.at(clock.Instant(at), evArrival, uint32(i), 0)
			f.trace++
		}
		return
	}
	if at, ok := f.from.next(s.world.Duration); ok {
		s.at(at, evArrival, uint32(i), 0)
	}
}

// arrival is a call of an open fleet, by one of its clients.
func (s *sim) arrival(i int) {
	f := &s.fleets[i]
	s.nextArrival(i)
	if f.broker != nil {
		s.publish(i)
		return
	}
	s.request(i, f.pick())
}

// pick says which client has the next piece of work.
func (f *fleet) pick() uint32 {
	switch {
	case f.Greedy <= 0 || f.Clients < 2:
		return uint32(f.picks.N(max(f.Clients, 1)))
	case f.picks.U() < f.Greedy:
		return 0
	}
	return 1 + uint32(f.picks.N(f.Clients-1))
}

// client is the next call of a client of a closed fleet.
func (s *sim) client(i int, who uint32) {
	if s.now < s.end {
		s.request(i, who)
	}
}

// request starts one piece of work of a client.
func (s *sim) request(i int, who uint32) {
	f := &s.fleets[i]
	if f.spent != nil {
		s.renew(f, who)
	}
	j := s.newJob(&f.plan)
	j.fleet, j.client, j.instance = int32(i), who, int(who)/f.group
	j.id = f.name(i, who)
	s.rec.offered(s, i)
	s.runJob(j)
}

// name names the next piece of work in the draws that are made for it: in an open
// loop by its place among all, in a closed one by its client's, for there the others
// come sooner or later as their policies have it.
func (f *fleet) name(i int, who uint32) uint64 {
	f.made++
	if f.own == nil {
		return jobID(i, f.made)
	}
	f.own[who]++
	return ownID(i, who, f.own[who])
}

// renew replaces a client whose session is over. What it shares with others stays.
func (s *sim) renew(f *fleet, who uint32) {
	if f.spent[who]++; int(f.spent[who]) <= f.Session {
		return
	}
	f.spent[who] = 1
	if f.group > 1 {
		return
	}
	for _, e := range f.plan.edges {
		s.edges[e].forget(int(who) / f.group)
	}
}
