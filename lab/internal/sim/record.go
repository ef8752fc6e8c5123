package sim

import (
	"time"

	"github.com/gabion-go/gabion/internal/breaker"
	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/internal/machine"
	"github.com/gabion-go/gabion/policy"
)

// recorder collects what happens.
type recorder struct {
	width  time.Duration
	bins   []Bin
	phases []Phase // one more than there are cuts
	phase  int     // the one that now is in
	faults []Window
	events uint64
	begun  int64 // jobs of clients
	ended  int64
	area   float64 // requests under way, over time: for Little's law
	under  int64
	moved  clock.Instant
	stay   float64 // sum of the times that requests stayed
}

func (r *recorder) begin(s *sim) {
	r.width = s.world.Bin
	if r.width <= 0 {
		r.width = time.Second
	}
	r.phases = make([]Phase, len(s.world.Cuts)+1)
	for i := range r.phases {
		r.phases[i] = newPhase(s)
	}
	for i, at := range s.world.Cuts {
		s.at(clock.Instant(at), evCut, uint32(i+1), 0)
	}
	r.enter(s, 0)
}

func newPhase(s *sim) Phase {
	p := Phase{
		Fleets: make([]FleetCounts, len(s.fleets)), Edges: make([]Counts, len(s.edges)), Services: make([]Work, len(s.services)),
		Messages: make([]MessageCounts, len(s.fleets)),
	}
	for i := range p.Edges {
		p.Edges[i].Ended = map[policy.Reason]int64{}
	}
	return p
}

// enter makes what happens count to a phase.
func (r *recorder) enter(s *sim, phase int) {
	r.phase = phase
	for i := range s.edges {
		s.edges[i].n = &r.phases[phase].Edges[i]
	}
	for i := range s.fleets {
		if b := s.fleets[i].broker; b != nil {
			b.n = &r.phases[phase].Messages[i]
		}
	}
	for i := range s.services {
		s.services[i].countBack(s.now)
		s.services[i].n = &r.phases[phase].Services[i]
	}
}

// of returns the phase in which something began.
func (r *recorder) of(s *sim, began clock.Instant) *Phase {
	i := r.phase
	for i > 0 && began < clock.Instant(s.world.Cuts[i-1]) {
		i--
	}
	return &r.phases[i]
}

// here returns the bin of now.
func (r *recorder) here(s *sim) *Bin {
	i := int(time.Duration(s.now) / r.width)
	for len(r.bins) <= i {
		r.bins = append(r.bins, Bin{
			Attempts: make([]int64, len(s.services)), Useful: make([]int64, len(s.services)), Queue: make([]int64, len(s.services)),
			Open: make([]int64, len(s.edges)), Looked: make([]int64, len(s.edges)), Budget: make([]int64, len(s.edges)),
		})
	}
	return &r.bins[i]
}

func (r *recorder) counts(s *sim) bool { return s.now >= clock.Instant(s.world.Warmup) }

// move keeps the area under the number of requests under way.
func (r *recorder) move(s *sim, by int64) {
	r.area += float64(float64(r.under) * float64(s.now.Sub(r.moved)))
	r.moved = s.now
	r.under += by
}

func (r *recorder) offered(s *sim, fleet int) {
	r.begun++
	r.move(s, 1)
	r.here(s).Offered++
	if r.counts(s) {
		r.phases[r.phase].Fleets[fleet].Offered++
	}
}

func (r *recorder) answered(s *sim, j *job, ok bool) {
	r.ended++
	r.move(s, -1)
	took := s.now.Sub(j.began)
	r.stay += float64(took)
	b := r.here(s)
	if ok {
		b.Latency.Add(took)
	}
	late := s.now > j.deadline
	if j.began >= clock.Instant(s.world.Warmup) {
		f := &r.of(s, j.began).Fleets[j.fleet]
		f.Latency.Add(took)
		switch {
		case ok && late:
			f.Late++
			f.Answered.Add(took)
		case ok:
			f.Good++
			f.Answered.Add(took)
		default:
			f.Bad++
			f.Failed.Add(took)
		}
	}
	switch {
	case ok && late:
		b.Late++
	case ok:
		b.Good++
	default:
		b.Bad++
	}
}

// unfinished counts the unanswered work. Without it a run would look better the longer its clients
// have to wait.
func (r *recorder) unfinished(s *sim) {
	end := max(s.now, s.end)
	for i := range s.services {
		s.services[i].countBack(s.end)
	}
	s.jobs.each(func(j *job) {
		if j.fleet >= 0 && j.began >= clock.Instant(s.world.Warmup) {
			f := &r.of(s, j.began).Fleets[j.fleet]
			f.Unfinished++
			f.Latency.Add(end.Sub(j.began))
			f.Failed.Add(end.Sub(j.began))
		}
	})
}

func (r *recorder) attempted(s *sim, e *edge, a *attempt) {
	try := min(a.try, Tries) - 1
	e.n.Attempts++
	e.n.ByTry[try]++
	b := r.here(s)
	if a.ticket.Hedge {
		s.calls.at(a.call).ends.Hedges++
		b.Hedges++
	}
	b.Attempts[a.service]++
	b.ByTry[try]++
}

func (r *recorder) settled(s *sim, a *attempt, o *policy.Outcome) {
	if a.ticket.Hedge && o.Class == policy.ClassSuccess {
		s.calls.at(a.call).ends.HedgeWon++
	}
}

func (r *recorder) returned(s *sim, c *call, v *machine.End) {
	n := c.ends
	n.Ended[v.Reason]++
	if c.ok {
		n.Good++
	}
	if c.sent == 0 {
		n.Local++
		r.here(s).Local++
	}
}

// forgotten is the end of a call that nothing refers to any more.
func (r *recorder) forgotten(s *sim, c *call) {
	if c.effects > 0 && !c.ok {
		if caller := s.edges[c.edge].caller; caller >= 0 {
			r.phases[r.phase].Fleets[caller].Ghosts++
		}
	}
}

func (r *recorder) faulted(s *sim, f *Fault) {
	r.faults = append(r.faults, Window{time.Duration(s.now), time.Duration(s.now) + f.For, f.Kind})
}

// bin ends a bin: what can only be seen by looking is looked at.
func (s *sim) bin() {
	r := &s.rec
	s.now-- // it belongs to the bin that ends
	b := r.here(s)
	for i := range s.services {
		for k := range s.services[i].replicas {
			b.Queue[i] += int64(s.services[i].replicas[k].queued())
		}
	}
	for i := range s.edges {
		s.lookAt(b, i)
	}
	s.lags()
	s.now++
	if s.now < s.end || s.queue.Len() > s.troubled {
		s.at(s.now.Add(r.width), evBin, 0, 0)
	} else {
		s.over = true // faults alone change nothing any more, however long they last
	}
}

func (s *sim) lookAt(b *Bin, i int) {
	for k, seen := 0, 0; k < len(s.edges[i].states) && seen < look; k++ {
		st := s.edges[i].states[k]
		if st == nil {
			continue
		}
		seen++
		b.Looked[i]++
		if br := st.Breaker(""); br != nil {
			if state := br.State(); state == breaker.Open || state == breaker.ForcedOpen {
				b.Open[i]++
			}
		}
		b.Budget[i] += st.Stats(s.now).Budget.Level
	}
}
