package scenario

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/gabion-go/gabion/internal/yamlstrict"
	"github.com/gabion-go/gabion/lab/internal/sim"
)

// acyclic refuses services that call each other in a circle.
func (r *reader) acyclic(nodes map[string]yamlstrict.Node) {
	const (
		fresh = iota
		open
		done
	)
	state := make([]int, len(r.file.services))
	var visit func(i int) bool
	visit = func(i int) bool {
		state[i] = open
		for _, e := range r.file.services[i].calls {
			if e.to < 0 || state[e.to] == done {
				continue
			}
			if state[e.to] == open || !visit(e.to) {
				return false
			}
		}
		state[i] = done
		r.file.order = append(r.file.order, i)
		return true
	}
	for i := range r.file.services {
		if state[i] == fresh && !visit(i) {
			s := r.file.services[i]
			r.fail(nodes[s.name].Key, s.name+" calls itself in the end", "remove a call of the circle")
			return
		}
	}
	slices.Reverse(r.file.order)
}

func (r *reader) grid(m *mapping) {
	g := &r.file.grid
	g.replications = int(m.Replications)
	g.replications = cmp.Or(g.replications, 10)
	for _, p := range m.Load {
		g.loads = append(g.loads, float64(p))
	}
	for _, p := range m.Trigger {
		g.triggers = append(g.triggers, float64(p))
	}
	at := r.places["map"]
	switch {
	case at.Line > 0 && (len(g.loads) == 0 || len(g.triggers) == 0) && !r.places["map.load"].Wrong && !r.places["map.trigger"].Wrong:
		r.fail(at, "map wants load and trigger", "write map: {load: [50%, 100%], trigger: [100%, 200%]}")
	case len(g.loads)*len(g.triggers) > maxCells:
		r.fail(at, fmt.Sprintf("a map of %d cells", len(g.loads)*len(g.triggers)), fmt.Sprintf("%d are the most", maxCells))
	case !slices.IsSorted(g.loads) || !slices.IsSorted(g.triggers):
		r.fail(at, "the values of a map do not rise", "write them in their order")
	}
}

// bounds refuses what would run for too long.
func (r *reader) bounds() {
	work, visits := 0.0, 0.0
	for _, f := range r.file.fleets {
		work += f.mostWork(r.file.duration)
		for _, v := range r.file.visits(f.calls) {
			visits += v
		}
	}
	if work > maxWork {
		r.fail(r.places["clients"], fmt.Sprintf("up to %.2g pieces of work are too many for a run", work), fmt.Sprintf("%.0g are the most: fewer clients, a lower rate, or a shorter duration", maxWork))
	}
	if visits > maxVisits {
		r.fail(r.places["services"], fmt.Sprintf("one piece of work makes %.3g requests", visits), fmt.Sprintf("%d are the most: a smaller fan, or fewer layers", maxVisits))
	}
}

// mostWork is how many pieces of work a fleet may begin.
func (f *namedFleet) mostWork(duration time.Duration) float64 {
	switch sim.Loop(f.Loop) {
	case sim.Closed:
		think := max(f.Think.Mean(), time.Nanosecond)
		return float64(f.Count) * (1 + float64(duration)/float64(think))
	case sim.Trace:
		return float64(len(f.Trace) + len(f.Replay.At))
	}
	most := float64(f.Rate)
	for _, s := range f.steps {
		most = max(most, f.rateOf(&s))
	}
	return 2 * most * duration.Seconds()
}

// rateOf is the rate of a change.
func (f *namedFleet) rateOf(s *loadStep) float64 {
	if s.Times > 0 {
		return float64(s.Times) * float64(f.Rate)
	}
	return float64(s.Rate)
}

// visits returns how often each service is asked for one piece of work, if nothing
// is tried again.
func (f *File) visits(calls []namedEdge) []float64 {
	all := make([]float64, len(f.services))
	add := func(calls []namedEdge, times float64) {
		for _, e := range calls {
			n := times * float64(max(e.Fan, 1))
			if e.Chance > 0 {
				n *= float64(e.Chance)
			}
			all[e.to] += n
		}
	}
	add(calls, 1)
	for _, i := range f.order {
		add(f.services[i].calls, all[i])
	}
	return all
}
