// Package tune searches the numbers of a policy in the lab.
//
// Candidates race: all have the same random numbers, those that are shown to be worse in
// pairs of runs get no more of them. Around the best the search goes on, until nothing there
// is better. Then the best is compared with today's policy, with seeds and trouble that the
// search has not seen. Only that comparison can say that it is better.
//
// The same options give the same result, whatever the number of workers, unless the time or
// the context ends it.
package tune

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/gabion-go/gabion/config"
	"github.com/gabion-go/gabion/lab/internal/scenario"
	"github.com/gabion-go/gabion/lab/internal/stat"
	"github.com/gabion-go/gabion/policy"
)

// Options say what is tuned, and for what.
type Options struct {
	Worlds     []World
	Config     *config.File
	Dependency string // of Config
	Dimensions []Dimension
	Notes      []string
	Goal       *Goal
	Seed       uint64 // 0 means each scenario's
	Validation uint64 // the seed of the validation, which the search must not have
	MaxRuns    int    // of the search; 0 means no bound
	Workers    int    // 0 means GOMAXPROCS
	Command    string

	// Guards are scenarios in which the proposal must not be worse; nil means none.
	Guards []World

	// Used returns the share of the time that is used; nil means that there is no bound.
	Used func() float64

	// Progress receives what is done, from one goroutine at a time. Nil means no reports.
	Progress func(Progress)
}

// Progress is how far tuning is.
type Progress struct {
	Phase      string // what is done now, in a few words
	Candidates int    // that were made so far; 0 after the search
	Done, All  int    // runs; All is 0 if unknown
}

// The shares of the time after which the search and the validation end.
const (
	searchShare   = 0.6
	validateShare = 0.92
)

// Rounds of the races: how many runs a candidate has after each. They are multiples of the
// number of variations.
var (
	rounds    = []int{3, 6, 12}
	finalRuns = 18
)

// worthPoints is the least difference of scores that counts: a call of two thousand.
const worthPoints = 0.05

// Run tunes. The error is that something cannot be run or measured as it is; where ctx is
// over, the result says what is known until then.
func Run(ctx context.Context, o Options) (*Result, error) {
	b := newBench(&o)
	if _, err := b.ready(b.base, searched); err != nil {
		return nil, err
	}
	found := Search(ctx, o.problem(b))
	if len(found.Home.Rows) == 0 {
		if err := context.Cause(ctx); err != nil {
			return nil, err
		}
		return nil, errors.New("there was no time for a single run")
	}
	if err := b.unmeasured(found.Home.Rows); err != nil {
		return nil, err
	}
	r := o.result(b, found)
	defer func() { r.Interrupted = ctx.Err() != nil }()
	if found.Best == found.Home {
		r.Verdict, r.Why = Nothing, []string{"no candidate was better than the file as it is"}
		if found.Stopped == Interrupted {
			r.Verdict = Unfinished
		}
		return r, nil
	}
	if found.Stopped == Interrupted {
		r.Verdict, r.Why = Unfinished, []string{"the search was interrupted, and nothing was validated"}
		return r, nil
	}
	if err := o.validate(ctx, b, found, r); err != nil {
		return nil, err
	}
	if r.Verdict == Win && len(o.Guards) > 0 && ctx.Err() == nil {
		r.Guard = o.guard(ctx, b, found.Best.Point)
	}
	return r, nil
}

func (o *Options) problem(b *bench) *Problem {
	sizes := make([]int, len(o.Dimensions))
	for d := range sizes {
		sizes[d] = len(o.Dimensions[d].Values)
	}
	p := &Problem{
		Sizes: sizes, Home: b.home(), Seed: b.seedOf(0), Possible: b.possible, Run: b.run, Score: b.score,
		Worth: worthPoints, Rounds: rounds, Final: finalRuns, MaxRuns: o.MaxRuns, Workers: o.Workers,
	}
	if o.Used != nil {
		p.Over = func(share float64) bool { return o.Used() > searchShare*share }
		p.Left = func(runs int) int { return int(float64(runs) * (searchShare/max(o.Used(), 1e-9) - 1)) }
	}
	if o.Progress != nil {
		p.Progress = func(phase string, candidates, runs int) {
			o.Progress(Progress{Phase: phase, Candidates: candidates, Done: runs})
		}
	}
	return p
}

func (o *Options) result(b *bench, found *Found) *Result {
	r := &Result{
		Version: ResultVersion, Goal: o.Goal.Text, Added: []string{}, Config: o.Config.Name, Dependency: o.Dependency, Dimensions: o.Dimensions,
		Idle: []string{}, Notes: append([]string{}, o.Notes...), Changes: b.changes(found.Best.Point), Why: []string{}, Command: o.Command,
		Search: SearchFacts{Seed: o.Seed, Candidates: len(found.All), Runs: found.Runs, Stopped: found.Stopped},
	}
	for _, bound := range o.Goal.Bounds {
		if bound.Added {
			r.Added = append(r.Added, bound.Text)
		}
	}
	for _, w := range o.Worlds {
		r.Scenarios = append(r.Scenarios, w.File.Name)
	}
	for _, d := range found.Idle {
		r.Idle = append(r.Idle, o.Dimensions[d].Path)
	}
	columns := b.frontColumns()
	for _, k := range columns {
		r.Columns = append(r.Columns, b.columns[k].shown())
	}
	r.Front = b.front(found, columns)
	return r
}

// validate compares the best with today's policy.
func (o *Options) validate(ctx context.Context, b *bench, found *Found, r *Result) error {
	n := min(len(found.Best.Rows), len(found.Home.Rows))
	now, best := b.score(found.Home.Rows[:n], found.Home.Rows[:n]), b.score(found.Best.Rows[:n], found.Home.Rows[:n])
	differences := make([]float64, 0, n)
	for i := range now {
		if d := best[i] - now[i]; !math.IsNaN(d) {
			differences = append(differences, d)
		}
	}
	seeds := seedsFor(differences)
	var ended func() bool
	if o.Used != nil {
		used := o.Used()
		perSeed := used / float64(max(found.Runs, 1)) * float64(2*len(validated))
		seeds = min(seeds, max(int((validateShare-used)/max(perSeed, 1e-9)), leastSeeds))
		until := validateShare
		if seeds <= leastSeeds {
			until = 1 // a claim is worth more than the guards
		}
		ended = func() bool { return o.Used() > until }
	}
	v, err := b.validate(ctx, found.Best.Point, validated, seeds, o.Workers, func(w int) uint64 { return o.Validation + b.seedOf(w) }, ended, o.told("validating"))
	if err != nil {
		return err
	}
	r.Validation = &Validation{Seed: o.Validation, Seeds: v.seeds, Planned: seeds, Variations: []string{}}
	for _, variation := range validated {
		r.Validation.Variations = append(r.Validation.Variations, variation.name)
	}
	if v.seeds > 0 {
		r.Validation.Rows = b.rows(v)
	}
	switch {
	case ctx.Err() != nil:
		r.Verdict, r.Why = Unfinished, []string{fmt.Sprintf("the validation was interrupted after %d of %d seeds", v.seeds, seeds)}
	case v.seeds < leastSeeds:
		r.Verdict, r.Why = Unfinished, []string{fmt.Sprintf("the time was over after %d seeds of the validation, and fewer than %d tell nothing", v.seeds, leastSeeds)}
	default:
		r.Verdict, r.Why = judge(r.Validation.Rows)
	}
	return nil
}

// told tells of the runs of a phase.
func (o *Options) told(phase string) func(done, all int) {
	if o.Progress == nil {
		return nil
	}
	return func(done, all int) { o.Progress(Progress{Phase: phase, Done: done, All: all}) }
}

// guardRuns is how often each guard is run: enough to see what is plainly worse.
const guardRuns = 3

// harm is the least difference by which a guard warns.
var harm = map[Column]float64{{"goodput", ""}: 0.005, {"load", scenario.Trouble}: 0.05, {"recovery", ""}: 2}

// guard compares both sides in other scenarios.
func (o *Options) guard(ctx context.Context, b *bench, best Point) *Guard {
	g := &Guard{Planned: len(o.Guards), Runs: guardRuns, Worse: []Judged{}, Missing: []string{}}
	for _, w := range o.Guards {
		if ctx.Err() != nil || o.Used != nil && o.Used() > 1 {
			g.Missing = append(g.Missing, "no time was left for the others")
			break
		}
		one := &bench{worlds: []World{w}, base: b.base, dims: b.dims, goal: b.goal, seed: b.seed}
		for c := range harm {
			one.columns = append(one.columns, c)
		}
		slices.SortFunc(one.columns, func(x, y Column) int { return slices.Index(keys(), x.Key) - slices.Index(keys(), y.Key) })
		v, err := one.validate(ctx, best, searched[:1], guardRuns, o.Workers, one.seedOf, nil, o.told("in "+w.File.Name))
		if err != nil {
			g.Missing = append(g.Missing, err.Error())
			continue
		}
		if v.seeds == 0 {
			continue
		}
		g.Scenarios++
		for k, c := range one.columns {
			j := one.judged(v, 0, -1, k, Cost)
			if j.Scenario = w.File.Name; j.Verdict == stat.Worse.String() && math.Abs(j.Delta.Value) >= harm[c] {
				g.Worse = append(g.Worse, j)
			}
		}
	}
	return g
}

// Like places a candidate as what calls by a policy of a scenario: with what the scenario says
// of the dependency and its callers, and with all numbers of its own.
func Like(candidate policy.Policy) func(policy.Policy) policy.Policy {
	return func(p policy.Policy) policy.Policy {
		made := candidate.Clone()
		made.Trust, made.Key, made.Safe = p.Trust, p.Key, p.Safe
		return made
	}
}
