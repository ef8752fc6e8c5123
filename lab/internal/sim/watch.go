package sim

import (
	"time"

	"github.com/gabion-go/gabion/policy"
)

// Watch names a client whose decisions are told, one by one.
type Watch struct {
	Fleet  int    // or -1 minus a service
	Client uint32 // of the fleet, or which of the service's replicas
	Whole  bool   // also the calls of all clients that share what it knows

	// Tell gets the decisions about each call, in order. Calls are numbered by the run, edges as in
	// Result.Edges.
	Tell func(call uint64, edge int, e policy.Event)

	// Knows, unless nil, gets the stats that each decision was made from, after it.
	Knows func(call uint64, edge int, st policy.Stats)

	// Heard, unless nil, gets the duration and outcome of each attempt that ended while
	// its caller waited for it. It gets none of those that ran out of time.
	Heard func(call uint64, edge, try int, took time.Duration, o policy.Outcome)
}

// watches reports whether an instance of a caller is, or knows what is known of,
// the client that is watched.
func (s *sim) watches(caller, instance int) bool {
	w := s.watch
	if w == nil || caller != w.Fleet {
		return false
	}
	if caller < 0 {
		return int(w.Client) == instance
	}
	return int(w.Client)/s.fleets[caller].group == instance
}

// watched reports whether the calls of a job on an edge are those of the client that is
// watched.
func (s *sim) watched(j *job, e int) bool {
	return s.watches(s.edges[e].caller, j.instance) && (j.fleet < 0 || s.watch.Whole || j.client == s.watch.Client)
}

// tell passes on what the machine and the parts that it shares said.
func (s *sim) tell(c *call) {
	for _, e := range c.log.Drain() {
		s.watch.Tell(c.id, c.edge, e)
	}
	j := s.jobs.get(c.job, c.jgen)
	if j == nil {
		return
	}
	st := s.state(c.edge, j.instance)
	st.Deliver(func(e policy.Event) { s.watch.Tell(c.id, c.edge, e) })
	if s.watch.Knows != nil {
		s.watch.Knows(c.id, c.edge, st.Stats(s.now))
	}
}
