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
	Dependency string  // of Config
	Starts     []Start // the file as it is first
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

// The shares of the time after which the search and the validation end. The rest is for the guards.
const (
	searchShare   = 0.5
	validateShare = 0.75
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
	if _, err := b.side(b.home(), searched); err != nil {
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
		r.Verdict, r.Why = Nothing, []string{"no candidate was better than the file as it is, neither the defaults nor a preset"}
		if found.Stopped == Interrupted {
			r.Verdict = Unfinished
		}
		return r, nil
	}
	if found.Stopped == Interrupted {
		r.Verdict, r.Why = Unfinished, []string{"the search was interrupted, and nothing was validated"}
		return r, nil
	}
	for i, c := range o.claims(b, found) {
		tried := *r
		if err := o.claim(ctx, b, found, c, i, &tried); err != nil {
			return nil, err
		}
		if i == 0 || tried.Verdict == Win {
			r = &tried
		}
		if tried.Verdict == Win || tried.Verdict == Unfinished {
			break
		}
	}
	return r, nil
}

// claims are what is proposed: the best, then what the search began with, then the defaults, as
// far as they look better than the file.
func (o *Options) claims(b *bench, found *Found) []*Candidate {
	all := []*Candidate{found.Best}
	for _, c := range append([]*Candidate{found.Start}, found.All...) {
		if c != found.Start && (c.Point[0] != defaultsAt || !slices.Equal(c.Point, o.Starts[defaultsAt].grid(defaultsAt).From)) {
			continue
		}
		if n := min(len(c.Rows), len(found.Home.Rows)); c != found.Home && !slices.Contains(all, c) && n > 0 {
			if mean(b.score(c.Rows[:n], found.Home.Rows[:n])) > mean(b.score(found.Home.Rows[:n], found.Home.Rows[:n])) {
				all = append(all, c)
			}
		}
	}
	return all
}

// claim validates a candidate, and looks whether it is worse in a guard.
func (o *Options) claim(ctx context.Context, b *bench, found *Found, c *Candidate, index int, r *Result) error {
	r.Changes = b.changes(c.Point)
	if err := o.validate(ctx, b, found, c, index, r); err != nil || r.Verdict != Win || len(o.Guards) == 0 {
		return err
	}
	r.Guard = o.guard(ctx, b, c.Point)
	switch {
	case len(r.Guard.Worse) > 0:
		r.Verdict, r.Why = Harmful, nil
		for _, j := range r.Guard.Worse {
			r.Why = append(r.Why, fmt.Sprintf("%s is worse in %s: %s", j.Label, j.Scenario, j.difference()))
		}
	case r.Guard.Scenarios+len(r.Guard.Missing) < r.Guard.Planned:
		r.Verdict, r.Why = Unfinished, []string{fmt.Sprintf("it is better here, and the time was over after %d of %d scenarios in which it must not be worse", r.Guard.Scenarios, r.Guard.Planned)}
	}
	return nil
}

func (o *Options) problem(b *bench) *Problem {
	grids := make([]Grid, len(o.Starts))
	for i := range grids {
		grids[i] = o.Starts[i].grid(i)
	}
	p := &Problem{
		Grid: grids[0], Others: grids[1:], Seed: b.seedOf(0), Possible: b.possible, Run: b.run, Score: b.score,
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
		Version: ResultVersion, Goal: o.Goal.Text, Added: []string{}, Config: o.Config.Name, Dependency: o.Dependency, Dimensions: o.Starts[found.Start.Point[0]].Dimensions,
		Start: o.Starts[found.Start.Point[0]].Name,
		Idle:  []string{}, Notes: append([]string{}, o.Notes...), Changes: b.changes(found.Best.Point), Why: []string{}, Command: o.Command,
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
		r.Idle = append(r.Idle, r.Dimensions[d-1].Path) // the first coordinate is the start
	}
	columns := b.frontColumns()
	for _, k := range columns {
		r.Columns = append(r.Columns, b.columns[k].shown())
	}
	r.Front = b.front(found, columns)
	return r
}

// validate compares a candidate with today's policy, in runs that no claim before had.
func (o *Options) validate(ctx context.Context, b *bench, found *Found, c *Candidate, index int, r *Result) error {
	n := min(len(c.Rows), len(found.Home.Rows))
	now, best := b.score(found.Home.Rows[:n], found.Home.Rows[:n]), b.score(c.Rows[:n], found.Home.Rows[:n])
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
		perSeed := used / float64(max(found.Runs, 1)) * float64(3*len(validated))
		seeds = min(seeds, max(int((validateShare-used)/max(perSeed, 1e-9)), leastSeeds))
		until := validateShare
		if seeds <= leastSeeds {
			until = 1 // a claim is worth more than the guards
		}
		ended = func() bool { return o.Used() > until }
	}
	v, err := b.validate(ctx, c.Point, o.Workers, check{
		of: validated, first: index * mostSeeds, runs: seeds, ended: ended, told: o.told("validating"),
		seed: func(w int) uint64 { return o.Validation + b.seedOf(w) },
	})
	if err != nil {
		return err
	}
	r.Validation = &Validation{Seed: o.Validation, Claim: index + 1, Seeds: v.seeds, Planned: seeds, Variations: []string{}}
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

// guardRuns is how often each guard is run, and in doubt.
var guardRuns = [...]int{3, 12}

// guarded is what must not be worse in a guard.
var guarded = []Column{{"goodput", ""}, {"load", scenario.Trouble}, {"recovery", ""}}

// harm is the least difference that counts in a guard.
func (j *Judged) harm() float64 {
	return map[string]float64{"goodput": 0.005, "load": 0.05, "recovery": 2}[j.Label]
}

// guard compares both sides in other scenarios, until one is worse. Where they may be worse by
// what counts, and the runs do not tell, there are more of them.
func (o *Options) guard(ctx context.Context, b *bench, best Point) *Guard {
	g := &Guard{Planned: len(o.Guards), Runs: guardRuns[0], Worse: []Judged{}, Costs: []Judged{}, Missing: []string{}}
	for i := 0; i < len(o.Guards) && len(g.Worse) == 0; i++ {
		rows, err := o.guardIn(ctx, b, best, o.Guards[i], guardRuns[0])
		if slices.ContainsFunc(rows, func(j Judged) bool { return j.beyond.Value > 0 && j.beyond.High >= j.harm() && j.Harm < j.harm() }) {
			rows, err = o.guardIn(ctx, b, best, o.Guards[i], guardRuns[1])
		}
		if err != nil {
			g.Missing = append(g.Missing, err.Error())
			continue
		}
		if rows == nil {
			break
		}
		g.Scenarios++
		for _, j := range rows {
			switch m := metricOf(j.Label); {
			case !m.more && j.Best.Value <= m.least: // to send less is no merit
			case j.Harm >= j.harm():
				g.Worse = append(g.Worse, j)
			case j.Verdict == stat.Worse.String() && math.Abs(j.Delta.Value) >= j.harm():
				g.Costs = append(g.Costs, j)
			}
		}
	}
	return g
}

// guardIn compares both sides in a guard. It returns nil where time ends it.
func (o *Options) guardIn(ctx context.Context, b *bench, best Point, w World, runs int) (rows []Judged, err error) {
	one := &bench{worlds: []World{w}, starts: b.starts, goal: b.goal, seed: b.seed, columns: guarded}
	v, err := one.validate(ctx, best, o.Workers, check{
		of: searched[:1], runs: runs, seed: one.seedOf, told: o.told("in " + w.File.Name),
		ended: func() bool { return o.Used != nil && o.Used() > 1 },
	})
	if err != nil || v.seeds < runs {
		return nil, err
	}
	for k := range one.columns {
		j := one.judged(v, 0, -1, k, Cost)
		j.Scenario = w.File.Name
		rows = append(rows, j)
	}
	return rows, nil
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
