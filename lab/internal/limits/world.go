// Package limits compares learned concurrency limits in worlds that are known to mislead
// them: gabion's, and those that others have published.
package limits

import (
	"fmt"
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
	work := draw.Exponential(100 * ms)
	bimodal := draw.Mixture(draw.Part{Share: 0.95, Dist: draw.Constant(20 * ms)}, draw.Part{Share: 0.05, Dist: draw.Constant(500 * ms)})
	return []World{
		{Name: "start above capacity", Says: "10 workers, and the limit begins with 100: the first answers have waited already",
			Workers: 10, Work: work, Rate: 150, Clients: []time.Duration{0}, Length: 5 * time.Minute, Changes: []time.Duration{0}},
		{Name: "saturated", Says: "50 workers, and ten minutes of half as much again as they can do",
			Workers: 50, Work: work, Rate: 750, Clients: []time.Duration{0}, Length: 10 * time.Minute, Changes: []time.Duration{0}},
		{Name: "step down", Says: "after two minutes half of 60 workers go",
			Workers: 60, Work: work, Rate: 900, Clients: []time.Duration{0}, Length: 5 * time.Minute, Changes: []time.Duration{0, 2 * time.Minute},
			Faults: []sim.Fault{{Kind: sim.Crew, Factor: 0.5, At: 2 * time.Minute, For: time.Hour}}},
		{Name: "step up", Says: "after two minutes 30 workers become 60",
			Workers: 30, Work: work, Rate: 900, Clients: []time.Duration{0}, Length: 5 * time.Minute, Changes: []time.Duration{0, 2 * time.Minute},
			Faults: []sim.Fault{{Kind: sim.Crew, Factor: 2, At: 2 * time.Minute, For: time.Hour}}},
		{Name: "two clients", Says: "a second client with as much to do joins after two minutes",
			Workers: 50, Work: work, Rate: 750, Clients: []time.Duration{0, 2 * time.Minute}, Length: 5 * time.Minute, Changes: []time.Duration{0, 2 * time.Minute}},
		{Name: "bimodal", Says: "19 of 20 pieces of work take 20 ms, and one takes 500 ms",
			Workers: 40, Work: bimodal, Rate: 1300, Clients: []time.Duration{0}, Length: 5 * time.Minute, Changes: []time.Duration{0}},
	}
}

// Contender is a way to set the limit.
type Contender struct {
	Name  string
	Fixed int                                      // the limit; 0 means that it is learned
	Rule  func(learned.Bounds) func() learned.Rule // nil means gabion's
}

// Score is what a contender came to.
type Score struct {
	Goodput float64       // answers a second within the deadline, the time of learning included
	P99     time.Duration // of answers, but of the ten seconds after a change
	Shares  []float64     // of each client's answers, while all were there
	Limits  []Sample      // of the first client
}

// Sample is the limit from a time on.
type Sample struct {
	At    time.Duration
	Limit int
	Why   policy.LimitCause
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
	if err != nil {
		return nil, err
	}
	return r, nil
}

// Run runs a contender in a world.
func (w *World) Run(c Contender, seed uint64) (Score, error) {
	r, err := rules(c)
	if err != nil {
		return Score{}, err
	}
	world := &sim.World{Duration: w.Length, Drain: 10 * time.Second, Faults: w.Faults, Services: []sim.Service{{
		Name: "service", Workers: w.Workers, Queue: 1 << 20, Time: w.Work,
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
	var s Score
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
	return s, nil
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
