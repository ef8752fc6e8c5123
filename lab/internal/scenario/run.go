package scenario

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/gabion-go/gabion/lab/internal/parallel"
	"github.com/gabion-go/gabion/lab/internal/sim"
)

// Options say how a scenario is run. The zero Options run it as the file says.
type Options struct {
	Policies Policies  // of the first side
	Against  *Policies // of the second; nil means what the file says
	Alone    bool      // no second side, whatever the file says

	Seed         uint64 // 0 means the file's
	Replications int    // 0 means the file's
	Workers      int    // how many runs at once; 0 means GOMAXPROCS
	Map          bool   // look also where runs stay down
	Watch        string // of this fleet, one client's calls are told; empty means none
	WatchClient  int    // which
	Record       *Recording
	Command      string // what reproduces this

	// Progress is called with how many runs of how many are done, from one goroutine at a time.
	Progress func(done, all int)
}

// maxReplications bounds what is kept; no question needs more.
const maxReplications = 100_000

// Run runs the scenario and returns what the runs came to. The error is that a
// policy is missing or wrong, or that ctx is over.
func (f *File) Run(ctx context.Context, o Options) (*Study, error) {
	o = f.complete(o)
	if o.Replications > maxReplications {
		return nil, fmt.Errorf("%d replications are more than %d", o.Replications, maxReplications)
	}
	sides, err := f.sides(&o)
	if err != nil {
		return nil, err
	}
	if o.Record != nil {
		if _, _, err := f.watched(o.Record); err != nil {
			return nil, err
		}
	}
	jobs := f.jobs(&o, sides)
	grids, err := f.mapJobs(&o, sides)
	if err != nil {
		return nil, err
	}
	for _, g := range grids {
		jobs = append(jobs, g.jobs...)
	}
	if err := runAll(ctx, jobs, &o); err != nil {
		return nil, err
	}
	study := f.study(&o, sides)
	if o.Record != nil {
		if study.Recorded, err = f.record(&o, sides); err != nil {
			return nil, err
		}
	}
	if len(grids) > 0 {
		study.Map = f.chart(grids)
	}
	if o.Watch != "" {
		if study.Timeline, err = f.watch(&o, sides[0]); err != nil {
			return nil, err
		}
	}
	return study, nil
}

// complete fills in what the file says.
func (f *File) complete(o Options) Options {
	if o.Seed == 0 {
		o.Seed = f.Seed
	}
	if o.Replications == 0 {
		o.Replications = f.Replications
	}
	if o.Against == nil && !o.Alone {
		o.Against = f.usualRival(&o.Policies)
	}
	if o.Command == "" {
		o.Command = fmt.Sprintf("gabion lab run %s --seed %d --replications %d", f.Name, o.Seed, o.Replications)
	}
	return o
}

// usualRival is what the file wants to be compared with: a word is about the same
// timeouts as the first side has.
func (f *File) usualRival(of *Policies) *Policies {
	switch {
	case f.rival != "":
		return &Policies{Name: f.rival, Rival: f.rival, File: of.File, As: of.As}
	case len(f.against.Policies) > 0:
		return &Policies{Name: "its rival", File: f.against}
	}
	return nil
}

// runs are the replications of one side.
type runs struct {
	name  string
	world *world
	runs  []summary // in the order of seeds
}

func (f *File) sides(o *Options) (sides []*runs, err error) {
	of := o.compared()
	if !slices.ContainsFunc(of, func(p *Policies) bool { return p.File != nil || len(p.As) == 0 }) {
		return nil, errors.New("other names are for dependencies of a file, and no file is given")
	}
	for _, p := range of {
		w, err := f.world(p, asItIs)
		if err != nil {
			return nil, err
		}
		sides = append(sides, &runs{name: p.title(f, w), world: w, runs: make([]summary, o.Replications)})
	}
	distinguish(of, sides)
	return sides, nil
}

// compared are the policies of the sides. Where two are compared, the plain client is
// the third: to beat a rival that was chosen to be beaten says little.
func (o *Options) compared() []*Policies {
	of := []*Policies{&o.Policies}
	if o.Against == nil {
		return of
	}
	if of = append(of, o.Against); o.Policies.Rival != rivalPlain && o.Against.Rival != rivalPlain {
		of = append(of, &Policies{File: o.Policies.File, As: o.Policies.As, Rival: rivalPlain})
	}
	return of
}

// distinguish adds to names that are alike what else was asked for.
func distinguish(of []*Policies, sides []*runs) {
	if len(sides) < 2 || sides[0].name != sides[1].name {
		return
	}
	for i, p := range of[:2] {
		for _, name := range slices.Sorted(maps.Keys(p.As)) {
			if other := of[1-i].As[name]; other != p.As[name] {
				sides[i].name += " " + p.As[name]
			}
		}
	}
	if sides[0].name == sides[1].name {
		sides[1].name += " again"
	}
}

// title is the name of a side, as it was asked for.
func (p *Policies) title(f *File, w *world) string {
	switch {
	case p.Name != "":
		return p.Name
	case p.Rival != "":
		return p.Rival
	case p.File != nil:
		return p.File.Name
	case w.usual:
		return "defaults"
	}
	return f.Name
}

// job is one run.
type job struct {
	world *world
	seed  uint64
	keep  func(r *sim.Result)
}

// jobs are the runs of all sides, those of one seed beside each other.
func (f *File) jobs(o *Options, sides []*runs) (jobs []job) {
	for i := range o.Replications {
		seed := f.seedOf(o.Seed, i)
		for _, side := range sides {
			jobs = append(jobs, job{side.world, seed, func(r *sim.Result) {
				side.runs[i] = f.summarize(side.world, r, i < seriesRuns)
			}})
		}
	}
	return jobs
}

// runAll runs jobs on a number of workers.
func runAll(ctx context.Context, jobs []job, o *Options) error {
	parallel.Run(len(jobs), o.Workers, func() bool { return ctx.Err() != nil },
		func(i int) { jobs[i].keep(sim.Run(&jobs[i].world.World, jobs[i].seed)) },
		func(_, done int) {
			if o.Progress != nil {
				o.Progress(done, len(jobs))
			}
		})
	return context.Cause(ctx)
}

// cells are the runs of one cell of a map.
type cells struct {
	side, row, column int
	tails             []float64 // goodput at the end, by replication; -1 is unknown
	stuck             []bool
	jobs              []job
}

// The map of a file that says nothing of one.
var (
	usualLoads    = []float64{0.5, 0.75, 1, 1.25, 1.5}
	usualTriggers = []float64{0.25, 0.5, 1, 2}
)

// mapJobs makes the runs of a map.
func (f *File) mapJobs(o *Options, sides []*runs) (all []*cells, err error) {
	if !o.Map {
		return nil, nil
	}
	if from, to := f.trouble(); from == to {
		return nil, fmt.Errorf("%s has no trouble to map: add a fault or a spike", f.Name)
	}
	loads, triggers, n := f.gridOf()
	if !slices.ContainsFunc(f.fleets, func(c namedFleet) bool { return sim.Loop(c.Loop) != sim.Trace }) {
		return nil, fmt.Errorf("%s has no load to map: all its calls are from traces", f.Name)
	}
	of := o.compared()[:min(len(sides), 2)]
	for side, p := range of {
		for row, trigger := range triggers {
			for column, load := range loads {
				w, err := f.world(p, scale{load, trigger, 1})
				if err != nil {
					return nil, err
				}
				c := &cells{side: side, row: row, column: column, tails: make([]float64, n), stuck: make([]bool, n)}
				for i := range n {
					c.jobs = append(c.jobs, job{w, f.seedOf(o.Seed, i), func(r *sim.Result) {
						s := f.summarize(w, r, false)
						c.tails[i], c.stuck[i] = s.tail, s.stuck
					}})
				}
				all = append(all, c)
			}
		}
	}
	return all, nil
}

func (f *File) gridOf() (loads, triggers []float64, replications int) {
	loads, triggers = f.grid.loads, f.grid.triggers
	if len(loads) == 0 {
		loads, triggers = usualLoads, usualTriggers
	}
	return loads, triggers, f.grid.replications
}
