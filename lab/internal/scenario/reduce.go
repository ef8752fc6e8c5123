package scenario

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/gabion-go/gabion/lab/internal/sim"
	"github.com/gabion-go/gabion/lab/internal/stat"
	"github.com/gabion-go/gabion/policy"
)

// seriesRuns is how many runs the bands of series are made of: more would make them
// no smoother, and cost memory.
const seriesRuns = 200

// summary is what is kept of one run.
type summary struct {
	seed, hash, events uint64
	stuck              bool
	tail               float64     // goodput at the end, as a share of what was offered; NaN is unknown
	values             [][]float64 // by phase, all first, then by metric
	ended              []map[policy.Reason]float64
	bins               [][]float32 // by channel, then bin; nil for those beyond the first
	broken             []string
}

// phaseNames returns the phases of a file and where they begin and end. The first
// is all of them.
func (f *File) phaseNames() (names []string, bounds [][2]time.Duration) {
	from, to := f.trouble()
	return f.phaseNamesOf(from, to)
}

// phaseNamesOf is phaseNames where the trouble is at another time.
func (f *File) phaseNamesOf(from, to time.Duration) (names []string, bounds [][2]time.Duration) {
	names, bounds = []string{"all"}, [][2]time.Duration{{f.warmup, f.duration}}
	if from == to {
		return names, bounds
	}
	for _, p := range []struct {
		name     string
		from, to time.Duration
	}{{"before", f.warmup, from}, {"during", max(from, f.warmup), to}, {"after", max(to, f.warmup), f.duration}} {
		if p.to > p.from {
			names, bounds = append(names, p.name), append(bounds, [2]time.Duration{p.from, p.to})
		}
	}
	return names, bounds
}

// summarize reduces a run to what is kept of it.
func (f *File) summarize(w *world, r *sim.Result, series bool) summary {
	s := summary{seed: r.Seed, hash: r.Hash, events: r.Events, broken: r.Broken}
	counted := r.Phases
	if f.warmup > 0 {
		counted = counted[1:]
	}
	all := counted[0]
	if len(counted) > 1 {
		all = w.empty()
		for i := range counted {
			all.Add(&counted[i])
		}
	}
	defs := f.defs()
	s.take(w, &all, defs)
	if names, _ := f.phaseNamesOf(w.from, w.to); len(names) > 1 {
		for i := range counted {
			s.take(w, &counted[i], defs)
		}
	}
	v := f.look(w, r)
	s.tail, s.stuck = v.tail, v.stuck
	s.values[0] = append(s.values[0], v.recovery, v.retryTail, v.peak, b2f(v.stuck))
	if series {
		s.bins = f.channels(w, r)
	}
	return s
}

func b2f(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// empty is a phase in which nothing has happened.
func (w *world) empty() sim.Phase {
	p := sim.Phase{
		Fleets: make([]sim.FleetCounts, len(w.Fleets)), Edges: make([]sim.Counts, len(w.edges)), Services: make([]sim.Work, len(w.Services)),
		Messages: make([]sim.MessageCounts, len(w.Fleets)),
	}
	for i := range p.Edges {
		p.Edges[i].Ended = map[policy.Reason]int64{}
	}
	return p
}

// take measures one phase.
func (s *summary) take(w *world, p *sim.Phase, defs []def) {
	m := &measured{Phase: p, world: w}
	m.fleet = mergeFleets(p.Fleets)
	values := make([]float64, len(defs), len(defs)+len(ofRun))
	for i, d := range defs {
		values[i] = d.measure(m)
	}
	s.values = append(s.values, values)
	ended, calls := map[policy.Reason]float64{}, int64(0)
	for i, e := range w.edges {
		if e.fleet < 0 {
			continue
		}
		for reason, n := range p.Edges[i].Ended {
			ended[reason] += float64(n) // whole numbers: no order matters
			calls += n
		}
	}
	for reason := range ended {
		ended[reason] /= float64(calls)
	}
	s.ended = append(s.ended, ended)
}

func mergeFleets(fleets []sim.FleetCounts) sim.FleetCounts {
	if len(fleets) == 1 {
		return fleets[0]
	}
	p, all := sim.Phase{Fleets: make([]sim.FleetCounts, 1)}, sim.Phase{}
	for i := range fleets {
		all.Fleets = fleets[i : i+1]
		p.Add(&all)
	}
	return p.Fleets[0]
}

// study puts together what the runs of all sides came to.
func (f *File) study(o *Options, sides []*runs) *Study {
	s := &Study{
		Version: StudyVersion, Name: f.Name, Title: f.Title, Story: f.Story, Text: f.Text, Seed: o.Seed, Replications: o.Replications,
		Duration: seconds(f.duration), Warmup: seconds(f.warmup), Bin: seconds(f.bin), Marks: f.marks(), Assumptions: f.assumptions(),
		Command: o.Command, Diffs: []Diff{}, Settings: []SettingDiff{},
	}
	from, to := f.trouble()
	s.During = [2]float64{seconds(from), seconds(to)}
	means := f.means()
	for _, rs := range sides {
		rs.world.means = means
	}
	s.Capacity, s.Bottleneck = f.pathCapacity(sides[0].world)
	s.Warnings = append(f.overloads(sides[0].world), f.partlyGiven(o.compared(), sides)...)
	hash := uint64(14695981039346656037)
	for _, rs := range sides {
		side := f.side(rs)
		for i := range side.Runs {
			s.Events += rs.runs[i].events
			hash = (hash ^ rs.runs[i].hash) * 1099511628211
		}
		s.Sides = append(s.Sides, side)
	}
	s.Hash = fmt.Sprintf("%016x", hash)
	if len(s.Sides) > 1 {
		s.Diffs = diffs(&s.Sides[0], &s.Sides[1])
		s.Settings = settingDiffs(s.Sides[0].Policies, s.Sides[1].Policies)
	}
	s.Judgements = s.judgements()
	return s
}

// side reduces the runs of one side.
func (f *File) side(rs *runs) Side {
	side := Side{Name: rs.name, Config: rs.world.hash, Policies: rs.world.policies, Broken: []string{}, Asserts: []Verdict{}}
	stuck, known := 0, 0
	var tails []float64
	for i := range rs.runs {
		r := &rs.runs[i]
		side.Runs = append(side.Runs, Run{Seed: r.seed, Hash: fmt.Sprintf("%016x", r.hash), Events: r.events, Stuck: r.stuck})
		side.Broken = append(side.Broken, r.broken...)
		if !math.IsNaN(r.tail) {
			known++
			stuck += int(b2f(r.stuck))
			tails = append(tails, r.tail)
		}
	}
	side.Stuck = estimate(stat.Share(stuck, known))
	side.Modes = twoModes(tails, 0.2)
	side.Series = f.series(rs)
	defs := f.defs()
	side.Metrics = rs.metrics(slices.Concat(defs, ofRun), 0)
	names, bounds := f.phaseNames()
	for k, name := range names {
		if k == 0 && len(names) > 1 {
			continue
		}
		side.Phases = append(side.Phases, Phase{
			Name: name, From: seconds(bounds[k][0]), To: seconds(bounds[k][1]), Metrics: rs.metrics(defs, k), Ended: rs.endings(k),
		})
	}
	for i := range f.asserts {
		side.Asserts = append(side.Asserts, f.judge(rs, &f.asserts[i], names))
	}
	side.Worst = f.worst(rs, &side, names)
	side.Heads = side.headlines()
	return side
}

// values returns a metric of all runs.
func (rs *runs) values(phase, metric int) []float64 {
	xs := make([]float64, len(rs.runs))
	for i := range rs.runs {
		xs[i] = rs.runs[i].values[phase][metric]
	}
	return xs
}

func (rs *runs) metrics(defs []def, phase int) (all []Metric) {
	for i, d := range defs {
		xs := rs.values(phase, i)
		known := slices.DeleteFunc(slices.Clone(xs), math.IsNaN)
		m := Metric{Key: d.key, Of: d.of, Name: d.name, Unit: d.unit, More: d.more, Mean: estimate(middle(d.key, known))}
		if d.key == "stuck" {
			m.Mean = estimate(stat.Share(int(sum(known)), len(known)))
		} else {
			m.Modes = twoModes(known, 0.2*math.Abs(m.Mean.Value))
		}
		for _, x := range xs {
			m.Values = append(m.Values, Number(round6(x)))
		}
		all = append(all, m)
	}
	return all
}

func sum(xs []float64) (s float64) {
	for _, x := range xs {
		s += x
	}
	return s
}

// twoModes looks for two heaps of runs.
func twoModes(xs []float64, worth float64) *TwoModes {
	for _, x := range xs {
		if math.IsInf(x, 0) {
			return nil
		}
	}
	m := stat.Heaps(xs, worth)
	if !m.Two {
		return nil
	}
	return &TwoModes{round6(m.Low), round6(m.High), round6(m.ShareOfHigh)}
}

// endings are why calls of clients ended, on average over runs.
func (rs *runs) endings(phase int) (all []Ending) {
	for _, reason := range append([]policy.Reason{policy.None}, policy.Reasons()...) {
		share := 0.0
		for i := range rs.runs {
			share += rs.runs[i].ended[phase][reason]
		}
		if share /= float64(len(rs.runs)); share > 0 && !slices.ContainsFunc(all, func(e Ending) bool { return e.Reason == word(reason) }) {
			all = append(all, Ending{word(reason), reason.Local(), round6(share)})
		}
	}
	slices.SortStableFunc(all, func(a, b Ending) int { return cmp.Compare(b.Share, a.Share) })
	return all
}

func word(r policy.Reason) string {
	if r == policy.None {
		return "ok"
	}
	return r.String()
}

// judge says whether an assertion holds.
func (f *File) judge(rs *runs, a *assertion, names []string) Verdict {
	defs := slices.Concat(f.defs(), ofRun)
	metric := slices.IndexFunc(defs, func(d def) bool { return d.key == a.key && d.of == a.of })
	phase := max(slices.Index(names, a.phase), 0)
	return a.judge(rs.values(phase, metric))
}

// worst says what cost clients answers, and services work, each where it was worst: the
// share of a whole run says little of a trouble that was short.
func (f *File) worst(rs *runs, side *Side, names []string) []Cause {
	most := map[[2]string]Cause{} // by text and service
	for k, name := range names {
		if k == 0 && len(names) > 1 {
			continue
		}
		for _, c := range f.causes(rs, side, k) {
			if c.Phase = name; c.Share > most[[2]string{c.Text, c.Of}].Share {
				most[[2]string{c.Text, c.Of}] = c
			}
		}
	}
	all := []Cause{}
	for _, c := range most {
		if c.Share >= 0.001 {
			c.Share = round6(c.Share)
			all = append(all, c)
		}
	}
	slices.SortFunc(all, func(a, b Cause) int {
		return cmp.Or(cmp.Compare(b.Share, a.Share), cmp.Compare(a.Text, b.Text), cmp.Compare(a.Of, b.Of))
	})
	return slices.Clip(all[:min(len(all), 6)])
}

// causes are those of one phase.
func (f *File) causes(rs *runs, side *Side, phase int) (all []Cause) {
	metrics := side.Metrics
	if len(side.Phases) > 1 {
		metrics = side.Phases[phase-1].Metrics
	}
	mean := func(key, of string) float64 {
		for _, m := range metrics {
			if m.Key == key && m.Of == of {
				return m.Mean.Value
			}
		}
		return 0
	}
	for _, e := range rs.endings(phase) {
		switch {
		case e.Reason == "ok":
		case e.Local:
			all = append(all, Cause{Text: "refused without an attempt: " + e.Reason, Share: e.Share})
		default:
			all = append(all, Cause{Text: "failed: " + e.Reason, Share: e.Share})
		}
	}
	all = append(all, Cause{Text: "not answered when the run ended", Share: mean("unfinished", "")})
	for _, s := range f.services {
		all = append(all,
			Cause{Text: "work of " + s.name + " for callers who had gone", Of: s.name, Share: mean("wasted", s.name)},
			Cause{Text: "requests at " + s.name + " beyond those needed", Of: s.name, Share: mean("amplification", s.name) - 1})
	}
	return all
}

// chart makes the map of its cells.
func (f *File) chart(all []*cells) *Map {
	loads, triggers, n := f.gridOf()
	m := &Map{Loads: loads, Triggers: triggers, Replications: n}
	sides := [2][][]Cell{}
	for _, c := range all {
		of := &sides[c.side]
		if *of == nil {
			*of = make([][]Cell, len(triggers))
			for i := range *of {
				(*of)[i] = make([]Cell, len(loads))
			}
		}
		stuck, known, goodput := 0, 0, 0.0
		for i, tail := range c.tails {
			if !math.IsNaN(tail) {
				known++
				stuck += int(b2f(c.stuck[i]))
				goodput += tail
			}
		}
		(*of)[c.row][c.column] = Cell{estimate(stat.Share(stuck, known)), Number(round6(goodput / float64(known)))}
	}
	m.Cells, m.Against = sides[0], sides[1]
	return m
}

// assumptions are what a study should say.
func (f *File) assumptions() []string {
	if slices.ContainsFunc(f.fleets, func(c namedFleet) bool { return c.queued }) {
		return slices.Concat(usually, ofBrokers)
	}
	return usually
}

// usually are the assumptions of every study.
var usually = []string{
	"Callers are as fast as they have to be: no scheduler, garbage collector, TLS or kernel queue of theirs is modelled.",
	"Service times are drawn, not reckoned: a request's cost depends on its content only as far as the scenario says.",
	"Networks delay and lose messages independently of each other and of load.",
	"Load balancers know their replicas and notice nothing of a fault.",
	"Work goes on after its caller has gone, unless the service drops what has expired.",
}
