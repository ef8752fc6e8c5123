package tune

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/gabion-go/gabion/lab/internal/parallel"
	"github.com/gabion-go/gabion/lab/internal/scenario"
	"github.com/gabion-go/gabion/lab/internal/stat"
)

// The number of seeds of a validation: fewer say little about how far they are off, and more would
// show differences that don't matter.
const (
	leastSeeds = 8
	fewSeeds   = 12
	mostSeeds  = 40
)

// seedsFor is how many seeds should tell a difference that the search has seen, twice over.
// The validation's own numbers have no say in it, so looking at them cannot help a claim.
func seedsFor(differences []float64) int {
	m, sd := math.Abs(mean(differences)), stat.Deviation(differences)
	if !(m > 0) || math.IsNaN(sd) {
		return mostSeeds
	}
	n := 4.2 * sd / m
	return int(min(max(math.Ceil(n*n), fewSeeds), mostSeeds))
}

// pair is what both sides came to, by world, variation and seed.
type pair struct {
	now, best [][][]Row
	seeds     int // that are complete
}

// check is a comparison that is to be made: of which variations, and with which replications.
type check struct {
	of          []variation
	first, runs int
	seed        func(w int) uint64
	ended       func() bool // nil means never
	told        func(done, all int)
}

// validate runs both sides. What ended stopped is kept.
func (b *bench) validate(ctx context.Context, best Point, workers int, c check) (*pair, error) {
	v := &pair{}
	var sides [2]*side
	for i, p := range []Point{b.home(), best} {
		var err error
		if sides[i], err = b.side(p, c.of); err != nil {
			return nil, err
		}
	}
	made, err := b.policyOf(best)
	twins := err == nil && same(made, Defaults(made))
	if twins { // they run once
		sides[0].usual = nil
	}
	each := len(b.worlds) * len(c.of) * 2
	rows := make([]Row, c.runs*each)
	run := func(i int) {
		w, k := i%each/2/len(c.of), i%each/2%len(c.of)
		rows[i] = b.measure(sides[i%2], w, k, c.seed(w), c.first+i/each)
	}
	parallel.Run(len(rows), workers, func() bool { return ctx.Err() != nil || c.ended != nil && c.ended() }, run, func(_, done int) {
		if c.told != nil {
			c.told(done, len(rows))
		}
	})
	v.now, v.best = make([][][]Row, len(b.worlds)), make([][][]Row, len(b.worlds))
	for w := range b.worlds {
		v.now[w], v.best[w] = make([][]Row, len(c.of)), make([][]Row, len(c.of))
	}
	for ; v.seeds < c.runs; v.seeds++ {
		all := rows[v.seeds*each : (v.seeds+1)*each]
		if slices.ContainsFunc(all, func(r Row) bool { return r == nil }) {
			break
		}
		for i, r := range all {
			w, k, side := i/2/len(c.of), i/2%len(c.of), [2][][][]Row{v.now, v.best}[i%2]
			if twins && i%2 == 0 {
				r = append(r, all[i+1]...)
			}
			side[w][k] = append(side[w][k], r)
		}
	}
	return v, nil
}

// home is the file as it is.
func (b *bench) home() Point { return b.starts[0].grid(0).From }

// values are a column of the file, the defaults and the best, by seed: the mean over worlds and
// variations of what is known of all. World or variation -1 is all.
func (b *bench) values(v *pair, world, variation, k int) (now, usual, best []float64) {
	for seed := range v.seeds {
		x, u, y, n := 0.0, 0.0, 0.0, 0
		for w := range v.now {
			for i := range v.now[w] {
				if world >= 0 && w != world || variation >= 0 && i != variation {
					continue
				}
				row := v.now[w][i][seed]
				p, q := row[k], v.best[w][i][seed][k]
				r := p
				if at := k + len(b.columns); at < len(row) && !math.IsNaN(row[at]) {
					r = row[at]
				}
				if !math.IsNaN(p) && !math.IsNaN(q) {
					x, u, y, n = x+p, u+r, y+q, n+1
				}
			}
		}
		if n > 0 {
			now, usual, best = append(now, x/float64(n)), append(usual, u/float64(n)), append(best, y/float64(n))
		}
	}
	return now, usual, best
}

// judged compares both sides in a column.
func (b *bench) judged(v *pair, world, variation, k int, role string) Judged {
	now, usual, best := b.values(v, world, variation, k)
	m := b.columns[k].metric()
	delta, verdict := stat.Paired(now, best, m.more, m.worth)
	floor := Bound{Column: b.columns[k], Now: true, Usual: true, AtMost: !m.more}
	beyond, worst := stat.Paired(floor.limits(now, usual), best, m.more, m.worth)
	j := Judged{
		Shown: b.columns[k].shown(), Role: role, Now: estimate(stat.Mean(now)), Usual: estimate(stat.Mean(usual)), Best: estimate(stat.Mean(best)),
		Delta: estimate(delta), Verdict: verdict.String(),
	}
	if j.beyond = beyond; m.more {
		j.beyond = stat.Interval{Value: -beyond.Value, Low: -beyond.High, High: -beyond.Low}
	}
	if worst == stat.Worse && verdict == stat.Worse {
		j.Harm = round6(j.beyond.Value)
	}
	if world >= 0 && len(b.worlds) > 1 {
		j.Scenario = b.worlds[world].File.Name
	}
	if variation >= 0 {
		j.Variant = validated[variation].name
	}
	return j
}

// bounded is a bound in one world.
func (b *bench) bounded(v *pair, world, i int) Judged {
	bound := &b.goal.Bounds[i]
	j := b.judged(v, world, -1, 1+i, Bounded)
	j.Bound = bound.Text
	if !bound.Now {
		j.HoldsNow, j.Holds = bound.holds(j.Now.Interval), bound.holds(j.Best.Interval)
		return j
	}
	now, usual, best := b.values(v, world, -1, 1+i)
	m := bound.Column.metric()
	delta, verdict := stat.Paired(bound.limits(now, usual), best, m.more, m.worth)
	j.HoldsNow, j.Holds = string(scenario.Yes), string(scenario.Yes)
	switch {
	case len(now) < 2:
		j.Holds = string(scenario.Unsure)
	case verdict == stat.Worse:
		j.Holds = string(scenario.No)
	case bound.Slack > 0 && delta.Contains(0):
		j.Holds = string(scenario.Unsure)
	}
	return j
}

// holds says whether a bound that is a number holds.
func (bound *Bound) holds(i stat.Interval) string {
	low, high := i.Low-bound.Value, i.High-bound.Value
	if !bound.AtMost {
		low, high = -high, -low
	}
	switch {
	case math.IsNaN(i.Value):
		return string(scenario.Unsure)
	case high <= 0:
		return string(scenario.Yes)
	case low > 0:
		return string(scenario.No)
	}
	return string(scenario.Unsure)
}

// rows are all numbers of the validation: the objective of all, of each world and of each
// variation, then bounds and costs.
func (b *bench) rows(v *pair) (rows []Judged) {
	rows = append(rows, b.judged(v, -1, -1, 0, Objective))
	for w := range b.worlds {
		if len(b.worlds) > 1 {
			rows = append(rows, b.judged(v, w, -1, 0, Objective))
		}
		for i := range validated {
			rows = append(rows, b.judged(v, w, i, 0, Objective))
		}
	}
	for w := range b.worlds {
		for i := range b.goal.Bounds {
			rows = append(rows, b.bounded(v, w, i))
		}
	}
	for k := 1 + len(b.goal.Bounds); k < len(b.columns); k++ {
		rows = append(rows, b.judged(v, -1, -1, k, Cost))
	}
	return rows
}

// repairs reports whether a bound that today does not hold does.
func (j *Judged) repairs() bool {
	return j.Role == Bounded && j.HoldsNow == string(scenario.No) && j.Holds == string(scenario.Yes) && j.Verdict == stat.Better.String()
}

// refused says what speaks against a row's side that is the best; "" is nothing. Where a bound
// is repaired the objective may be worse: the bound is what was asked for first.
func (j *Judged) refused(repaired bool) string {
	worse := j.Verdict == stat.Worse.String()
	switch {
	case j.Role == Objective && j.Harm > 0 && !repaired:
		return fmt.Sprintf("%s is worse%s: %s", j.Label, j.in(), j.difference())
	case j.Role == Cost && j.Label == "stuck" && j.Harm > 0:
		return "more runs stay down: " + j.difference()
	case j.Role != Bounded || j.Holds == string(scenario.Yes):
		return ""
	case j.HoldsNow == string(scenario.No) && worse:
		return fmt.Sprintf("%s does not hold%s, today as little, and it gets worse: %s", j.Bound, j.in(), j.difference())
	case j.HoldsNow == string(scenario.No):
		return ""
	case j.Holds == string(scenario.No):
		return fmt.Sprintf("%s does not hold%s: %s", j.Bound, j.in(), j.difference())
	case j.HoldsNow == string(scenario.Yes):
		return fmt.Sprintf("whether %s holds%s is not resolved: %s", j.Bound, j.in(), j.difference())
	}
	return ""
}

// judge says whether the rows show that the best is better, and why. The first row is the
// objective in all.
func judge(rows []Judged) (verdict string, why []string) {
	first := &rows[0]
	repaired := slices.ContainsFunc(rows, func(j Judged) bool { return j.repairs() })
	for i := range rows {
		if says := rows[i].refused(repaired); says != "" {
			why = append(why, says)
		}
	}
	if len(why) > 0 {
		return Unresolved, why
	}
	better, worse := first.Verdict == stat.Better.String(), first.Verdict == stat.Worse.String()
	if better {
		why = append(why, fmt.Sprintf("%s is better: %s", first.Label, first.difference()))
	}
	for i := range rows {
		if j := &rows[i]; j.repairs() {
			why = append(why, fmt.Sprintf("%s holds%s, and today it does not: %s", j.Bound, j.in(), j.difference()))
		}
	}
	switch d := first.Delta; {
	case worse && repaired:
		return Win, append(why, fmt.Sprintf("the price is %s: %s", first.Label, first.difference()))
	case better || repaired:
		return Win, why
	case !d.Contains(0) && d.Value > 0 == first.More:
		return Unresolved, append(why, fmt.Sprintf("%s is better by less than counts: %s", first.Label, first.difference()))
	}
	return Unresolved, append(why, fmt.Sprintf("the runs do not tell whether %s is better: %s", first.Label, first.difference()))
}
