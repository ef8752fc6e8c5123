package sim

import (
	"time"

	"github.com/gabion-go/gabion/internal/terms"
	"github.com/gabion-go/gabion/policy"
)

// Tries is how many tries are told apart; later ones count with the last.
const Tries = 6

// Counts is what happened on one edge.
type Counts struct {
	Calls    int64 // of the dependency
	Attempts int64
	ByTry    [Tries]int64
	Good     int64                   // calls that succeeded
	Ended    map[policy.Reason]int64 // calls by why they ended; None is success
	Astray   int64                   // attempts that were lost on their way to the service
	Hedges   int64
	HedgeWon int64
	Local    int64 // calls that ended without an attempt
	Hits     int64 // answers out of the cache: no calls
	Joined   int64 // answers of a call that was under way for the same: no calls either

	Ways map[int]Fate // of attempts, by the status that failed; nil unless the World counts them

	Opened      int64         // connections
	Unconnected int64         // attempts that may have waited no longer for one
	Waited      time.Duration // of all attempts, for one
}

// Work is what happened at one service.
type Work struct {
	Received    int64
	Refused     int64 // before any work
	Full        int64 // of these, because the queue was
	Silent      int64 // swallowed by a black hole
	Queued      int64
	Dropped     int64 // by CoDel
	Expired     int64 // out of the queue, since their caller's time was over
	Lost        int64 // in a restart
	LostAnswers int64
	Failed      int64         // work that came to nothing
	Effects     int64         // pieces of work done
	Duplicates  int64         // of these, done before for the same call
	Replays     int64         // answered again without work
	Useful      time.Duration // work whose caller waited for the answer
	Wasted      time.Duration // work for callers who had gone
	RefuseWork  time.Duration
	OverQuota   int64                    // of those refused: because a quota had not enough left
	Taken       [terms.MaxQuotas]float64 // of each quota
	Back        [terms.MaxQuotas]float64 // of each quota, what came back, or would have if it had been used up
}

// spent counts a piece of work: useful if the caller still waits for its answer.
func (w *Work) spent(s *sim, a *attempt, c *call) {
	t := s.now.Sub(a.started)
	if a.out && (!c.over || s.asked(a)) {
		w.Useful += t
		s.rec.here(s).Useful[a.service] += int64(t)
	} else {
		w.Wasted += t
	}
}

// Bin is a piece of a series: what happened in it.
type Bin struct {
	Offered  int64 // pieces of work begun by clients
	Good     int64 // that ended well, in time
	Late     int64 // that ended well, too late
	Bad      int64
	Local    int64   // attempts that gabion refused, by whatever layer
	Latency  Hist    // of what ended well, late or not: a refusal is no fast answer
	Attempts []int64 // for each service
	ByTry    [Tries]int64
	Hedges   int64   // of these, to be faster and not because something failed
	Useful   []int64 // nanoseconds of work that ended while its caller waited, for each service
	Queue    []int64 // who waits when the bin ends, for each service
	Open     []int64 // breakers that refuse when the bin ends, of those looked at, for each edge
	Looked   []int64
	Budget   []int64 // re-sends that the budgets looked at allow, for each edge
}

// FleetCounts is what a fleet's clients saw after the warm-up.
type FleetCounts struct {
	Offered, Good, Late, Bad int64
	Unfinished               int64 // work that still had no answer when the run ended
	Latency                  Hist  // how long all of it took; of what is unfinished, how long it had taken
	Answered                 Hist  // of these, how long what ended well took, late or not
	Failed                   Hist  // and how long the others waited for nothing
	Ghosts                   int64 // calls that failed for the client and were done nevertheless
}

// Phase is what happened between two cuts. What fleets saw, and how calls ended (all
// of Counts but Attempts, ByTry and Astray), counts to the phase in which the client's
// work began; what reached the network and services, to that in which it happened.
type Phase struct {
	Fleets   []FleetCounts
	Edges    []Counts
	Services []Work
	Messages []MessageCounts // of each fleet; all zero for one without a broker
}

// Window is a time in which something is wrong.
type Window struct {
	From, To time.Duration
	Kind     Kind
}

// look is how many instances of a caller are looked at in each bin.
const look = 64

// Result is what a run leaves behind.
type Result struct {
	Seed     uint64
	Hash     uint64 // of every event, in order
	Events   uint64
	Ended    time.Duration // the time of the last event
	Width    time.Duration
	Bins     []Bin
	Fleets   []FleetCounts
	Edges    []Counts
	Services []Work
	Messages []MessageCounts
	Phases   []Phase // what Fleets, Edges and Services are the sums of
	Faults   []Window
	Under    int64    // what clients still waited for at the end
	Broken   []string // invariants that did not hold; always empty
}

func (s *sim) result() *Result {
	r := &s.rec
	r.move(s, 0)
	r.unfinished(s)
	all := r.phases[0]
	if len(r.phases) > 1 {
		all = newPhase(s)
		for i := range r.phases {
			all.Add(&r.phases[i])
		}
	}
	return &Result{
		Seed: s.seed, Hash: s.hash, Events: r.events, Ended: time.Duration(s.now), Width: r.width,
		Bins: r.bins, Fleets: all.Fleets, Edges: all.Edges, Services: all.Services, Messages: all.Messages, Phases: r.phases, Faults: r.faults,
		Under: r.under, Broken: s.audit(&all),
	}
}

// Add adds what happened in another phase of the same world.
func (p *Phase) Add(o *Phase) {
	for i := range o.Fleets {
		p.Fleets[i].add(&o.Fleets[i])
	}
	for i := range o.Edges {
		p.Edges[i].add(&o.Edges[i])
	}
	for i := range o.Messages {
		p.Messages[i].add(&o.Messages[i])
	}
	for i := range o.Services {
		p.Services[i].add(&o.Services[i])
	}
}

func (f *FleetCounts) add(o *FleetCounts) {
	f.Offered, f.Good, f.Late, f.Bad, f.Ghosts = f.Offered+o.Offered, f.Good+o.Good, f.Late+o.Late, f.Bad+o.Bad, f.Ghosts+o.Ghosts
	f.Unfinished += o.Unfinished
	f.Latency.Merge(&o.Latency)
	f.Answered.Merge(&o.Answered)
	f.Failed.Merge(&o.Failed)
}

func (n *Counts) add(o *Counts) {
	n.Calls, n.Attempts, n.Good = n.Calls+o.Calls, n.Attempts+o.Attempts, n.Good+o.Good
	n.Hedges, n.HedgeWon, n.Local, n.Astray = n.Hedges+o.Hedges, n.HedgeWon+o.HedgeWon, n.Local+o.Local, n.Astray+o.Astray
	n.Hits, n.Joined = n.Hits+o.Hits, n.Joined+o.Joined
	n.Opened, n.Unconnected, n.Waited = n.Opened+o.Opened, n.Unconnected+o.Unconnected, n.Waited+o.Waited
	for i, k := range o.ByTry {
		n.ByTry[i] += k
	}
	for way, f := range o.Ways {
		n.fate(way, f)
	}
	for reason, k := range o.Ended {
		n.Ended[reason] += k
	}
}

func (w *Work) add(o *Work) {
	w.Received, w.Refused, w.Full, w.Silent = w.Received+o.Received, w.Refused+o.Refused, w.Full+o.Full, w.Silent+o.Silent
	w.Queued, w.Dropped, w.Expired, w.Lost = w.Queued+o.Queued, w.Dropped+o.Dropped, w.Expired+o.Expired, w.Lost+o.Lost
	w.LostAnswers, w.Failed = w.LostAnswers+o.LostAnswers, w.Failed+o.Failed
	w.Effects, w.Duplicates = w.Effects+o.Effects, w.Duplicates+o.Duplicates
	w.Replays, w.Useful, w.Wasted, w.RefuseWork = w.Replays+o.Replays, w.Useful+o.Useful, w.Wasted+o.Wasted, w.RefuseWork+o.RefuseWork
	w.OverQuota += o.OverQuota
	for i := range w.Taken {
		w.Taken[i], w.Back[i] = w.Taken[i]+o.Taken[i], w.Back[i]+o.Back[i]
	}
}
