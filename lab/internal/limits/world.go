// Package limits compares learned concurrency limits in worlds that are known to mislead
// them: gabion's, and those that others have published.
package limits

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/gabion-go/gabion/internal/learned"
	"github.com/gabion-go/gabion/internal/machine"
	"github.com/gabion-go/gabion/lab/internal/draw"
	"github.com/gabion-go/gabion/lab/internal/sim"
	"github.com/gabion-go/gabion/policy"
)

// World is one in which limits are compared.
type World struct {
	Name string
	Says string // what is hard about it

	Workers int       // that the service has
	Work    draw.Dist // how long one piece of work takes
	Rate    float64   // calls a second of all clients
	Clients []time.Duration
	Faults  []sim.Fault
	Queue   int // of the service; 0 means that all may wait
	Length  time.Duration
	Changes []time.Duration // when something changes; ten seconds after it, latency does not count
}

// learning is the time after a change that an algorithm has to find the new limit.
const learning = 10 * time.Second

const (
	deadline = 2 * time.Second
	network  = time.Millisecond
)

// Worlds are the six.
func Worlds() []World {
	const ms = time.Millisecond
	work := draw.LogNormal(90*ms, 250*ms) // 99 ms on average
	bimodal := draw.Mixture(draw.Part{Share: 0.95, Dist: draw.Constant(20 * ms)}, draw.Part{Share: 0.05, Dist: draw.Constant(500 * ms)})
	half, twice := sim.Fault{Kind: sim.Crew, Factor: 0.5}, sim.Fault{Kind: sim.Crew, Factor: 2}
	half.At, half.For = 90*time.Second, time.Hour
	twice.At, twice.For = half.At, half.For
	step := []time.Duration{0, half.At}
	return []World{
		{Name: "start above capacity", Says: "10 workers: the first answers have waited already", Workers: 10, Work: work,
			Rate: 150, Clients: []time.Duration{0}, Length: 3 * time.Minute, Changes: step[:1]},
		{Name: "saturated", Says: "20 workers, for ten minutes half as much again as they can do", Workers: 20, Work: work,
			Rate: 300, Clients: []time.Duration{0}, Length: 10 * time.Minute, Changes: step[:1]},
		{Name: "step down", Says: "40 workers become 20", Workers: 40, Work: work,
			Rate: 600, Clients: []time.Duration{0}, Length: 3 * time.Minute, Changes: step, Faults: []sim.Fault{half}},
		{Name: "step up", Says: "20 workers become 40", Workers: 20, Work: work,
			Rate: 600, Clients: []time.Duration{0}, Length: 3 * time.Minute, Changes: step, Faults: []sim.Fault{twice}},
		{Name: "two clients", Says: "40 workers; a second client joins that has as much to do", Workers: 40, Work: work,
			Rate: 600, Clients: step, Length: 3 * time.Minute, Changes: step},
		{Name: "bimodal", Says: "20 workers; of 20 pieces of work 19 take 20 ms and one takes 500 ms", Workers: 20, Work: bimodal,
			Rate: 680, Clients: []time.Duration{0}, Length: 3 * time.Minute, Changes: step[:1]},
	}
}

// Contender is a way to set the limit.
type Contender struct {
	Name  string
	Fixed int                 // the limit; 0 means that it is learned
	Rule  func() learned.Rule // nil means gabion's
}

// Score is what a contender came to.
type Score struct {
	Goodput float64       // answers a second within the deadline, the time of learning included
	P99     time.Duration // of answers, but of the ten seconds after a change
	Shares  []float64     // of each client's answers, while all were there
	Limits  []Sample      // of the first client
	Steady  float64       // share of the time in which its limit was within a fifth of the usual one, after the last change
}

// Sample is the limit from a time on.
type Sample struct {
	At    time.Duration
	Limit int
	Why   string
}

func rules(c Contender) (*machine.Rules, error) {
	p := policy.Policy{
		Breaker: policy.Breaker{Off: true}, Retry: policy.Retry{Attempts: 1, Budget: policy.Budget{Off: true}},
		Bulkhead: policy.Bulkhead{Limit: policy.Learned},
	}
	if c.Fixed > 0 {
		p.Bulkhead.Limit = c.Fixed
	}
	r, err := machine.Compile(p)
	if err == nil && c.Rule != nil {
		r = r.WithLimit(func(learned.Bounds) learned.Rule { return c.Rule() })
	}
	return r, err
}

// Run runs a contender in a world.
func (w *World) Run(c Contender, seed uint64) (Score, error) {
	r, err := rules(c)
	if err != nil {
		return Score{}, err
	}
	world := &sim.World{Duration: w.Length, Drain: 10 * time.Second, Faults: w.Faults, Services: []sim.Service{{
		Name: "service", Workers: w.Workers, Queue: cmp.Or(w.Queue, 1<<20), Time: w.Work,
	}}}
	for _, at := range w.Changes {
		if at > 0 {
			world.Cuts = append(world.Cuts, at)
		}
		world.Cuts = append(world.Cuts, at+learning)
	}
	for i, from := range w.Clients {
		load := sim.Steady(w.Rate)
		if from > 0 {
			load = sim.Load{{At: 0, PerSecond: 0}, {At: from, PerSecond: 0}, {At: from + 1, PerSecond: w.Rate}}
		}
		world.Fleets = append(world.Fleets, sim.Fleet{
			Name: fmt.Sprint("client ", i+1), Clients: 1, Load: load,
			Plan: sim.Plan{Deadline: deadline, Steps: []sim.Step{{Edge: sim.Edge{Rules: r, Network: draw.Constant(network)}}}},
		})
	}
	s := Score{Limits: []Sample{{Limit: start}}}
	watch := &sim.Watch{Tell: func(_ uint64, _ int, e policy.Event) {
		if e.Kind == policy.KindLimitMoved {
			sample := Sample{At: time.Duration(e.At), Limit: int(e.Count)}
			if e.Numbers != nil {
				sample.Why = e.Numbers.Moved
			}
			s.Limits = append(s.Limits, sample)
		}
	}}
	res := sim.RunWatched(world, seed, watch)
	if len(res.Broken) > 0 {
		return Score{}, fmt.Errorf("%s: %s: %v", w.Name, c.Name, res.Broken)
	}
	s.read(w, res)
	s.Steady = steady(s.Limits, w.Changes[len(w.Changes)-1]+learning, w.Length)
	return s, nil
}

// piece is a limit and how long it was in force.
type piece struct {
	limit int
	span  time.Duration
}

// pieces are the limits between two times, and the one that was in force for the middle of
// that time if they are sorted.
func pieces(limits []Sample, from, to time.Duration) (all []piece, median int) {
	for i, l := range limits {
		end := to
		if i+1 < len(limits) {
			end = min(to, limits[i+1].At)
		}
		if span := end - max(l.At, from); span > 0 {
			all = append(all, piece{l.Limit, span})
		}
	}
	slices.SortFunc(all, func(a, b piece) int { return cmp.Compare(a.limit, b.limit) })
	sum := time.Duration(0)
	for _, p := range all {
		if sum += p.span; sum >= (to-from)/2 {
			return all, p.limit
		}
	}
	return all, 0
}

// steady is the share of the time in which the limit was within a fifth of its median, or
// one slot.
func steady(limits []Sample, from, to time.Duration) float64 {
	all, median := pieces(limits, from, to)
	near := time.Duration(0)
	for _, p := range all {
		if off := max(p.limit-median, median-p.limit); off <= 1 || 5*off <= median {
			near += p.span
		}
	}
	return near.Seconds() / (to - from).Seconds()
}

func (s *Score) read(w *World, res *sim.Result) {
	var answered sim.Hist
	last := res.Phases[len(res.Phases)-1]
	total := 0.0
	for i := range last.Fleets {
		total += float64(last.Fleets[i].Good)
	}
	for i := range last.Fleets {
		s.Goodput += float64(res.Fleets[i].Good) / w.Length.Seconds()
		s.Shares = append(s.Shares, float64(last.Fleets[i].Good)/max(total, 1))
		for k := range res.Phases {
			if !w.learns(k) {
				answered.Merge(&res.Phases[k].Fleets[i].Answered)
			}
		}
	}
	s.P99 = answered.Quantile(0.99)
}

// learns reports whether a phase is one of the ten seconds after a change.
func (w *World) learns(phase int) bool { return phase%2 == 0 }
