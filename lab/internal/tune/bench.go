package tune

import (
	"fmt"
	"math"
	"slices"

	"github.com/gabion-go/gabion/config"
	"github.com/gabion-go/gabion/lab/internal/scenario"
	"github.com/gabion-go/gabion/policy"
)

// World is a scenario in which candidates are measured.
type World struct {
	File *scenario.File

	// Place returns the policies of the scenario with the candidate in its place.
	Place func(candidate policy.Policy) scenario.Policies
}

// variation is a scenario's trouble, changed.
type variation struct {
	name string
	scenario.Variation
}

// The search sees trouble of three lengths, one after the other. The validation has others,
// and other severities, besides the scenario as it is.
var (
	searched  = []variation{{"as it is", scenario.Variation{}}, {"", scenario.Variation{Length: 0.75}}, {"", scenario.Variation{Length: 1.25}}}
	validated = []variation{
		{"as it is", scenario.Variation{}},
		{"shorter trouble", scenario.Variation{Length: 0.6}},
		{"longer trouble", scenario.Variation{Length: 1.6}},
		{"milder trouble", scenario.Variation{Severity: 0.8}},
		{"worse trouble", scenario.Variation{Severity: 1.2}},
	}
)

// costs are the columns that are measured whatever the goal is.
var costs = []Column{
	{"goodput", ""}, {"amplification", scenario.Trouble}, {"recovery", ""}, {"peak", ""}, {"failed_time", ""}, {"duplicates", ""}, {"stuck", ""},
}

// bench measures candidates.
type bench struct {
	worlds  []World
	base    policy.Policy
	dims    []Dimension
	goal    *Goal
	columns []Column // the objective, the bounds, then costs that are neither
	seed    uint64   // 0 means each scenario's
	trials  map[string][][]*scenario.Trial
}

func newBench(o *Options) *bench {
	b := &bench{worlds: o.Worlds, base: o.Config.Policies[o.Dependency], dims: o.Dimensions, goal: o.Goal, seed: o.Seed, trials: map[string][][]*scenario.Trial{}}
	b.columns = []Column{o.Goal.Objective}
	for _, bound := range o.Goal.Bounds {
		b.columns = append(b.columns, bound.Column)
	}
	for _, c := range costs {
		if !slices.Contains(b.columns, c) {
			b.columns = append(b.columns, c)
		}
	}
	return b
}

// policyOf returns the policy of a point. The error is that it cannot be.
func (b *bench) policyOf(p Point) (policy.Policy, error) {
	made := b.base
	for d, v := range p {
		if v == b.dims[d].Home {
			continue
		}
		var err error
		if made, err = config.Set(made, b.dims[d].Path, b.dims[d].Values[v]); err != nil {
			return made, err
		}
	}
	return made, made.Validate()
}

// ready makes a policy ready to run in all worlds, with some variations of each.
func (b *bench) ready(p policy.Policy, of []variation) ([][]*scenario.Trial, error) {
	trials := make([][]*scenario.Trial, len(b.worlds))
	for w := range b.worlds {
		for _, v := range of {
			t, err := b.worlds[w].File.Trial(b.worlds[w].Place(p), v.Variation)
			if err != nil {
				return nil, err
			}
			trials[w] = append(trials[w], t)
		}
	}
	return trials, nil
}

// possible reports whether a point can be, and makes it ready for run.
func (b *bench) possible(p Point) bool {
	made, err := b.policyOf(p)
	if err != nil {
		return false
	}
	trials, err := b.ready(made, searched)
	if err == nil {
		b.trials[p.key()] = trials
	}
	return err == nil
}

// run runs a replication of a point in all worlds.
func (b *bench) run(p Point, replication int) Row {
	trials := b.trials[p.key()]
	row := make(Row, 0, len(trials)*len(b.columns))
	for w := range trials {
		row = append(row, b.measure(trials[w][replication%len(searched)], b.seedOf(w), replication)...)
	}
	return row
}

// seedOf is the seed of a world's search.
func (b *bench) seedOf(w int) uint64 {
	if b.seed != 0 {
		return b.seed
	}
	return b.worlds[w].File.Seed
}

// measure runs one replication of a trial.
func (b *bench) measure(t *scenario.Trial, seed uint64, replication int) Row {
	s := t.Run(seed, replication)
	row := make(Row, len(b.columns))
	for k, c := range b.columns {
		row[k] = c.take(&s)
	}
	return row
}

// steep is how many points a bound costs that is missed by all of it: one per cent is five
// answers of a hundred, so no objective makes up for it.
const steep = 500

// score says how good replications are: the objective, less what bounds are missed by. One
// point is a call of a hundred, or a hundredth of what the objective is today. A bound counts
// by the mean of the replications, so each takes part in it with its own share.
func (b *bench) score(rows, home []Row) []float64 {
	total := make([]float64, len(rows))
	known := make([]int, len(rows))
	for w := range b.worlds {
		at := w * len(b.columns)
		unit := b.unit(home, at)
		for i := range rows {
			if x := rows[i][at]; !math.IsNaN(x) {
				total[i] += x * unit
				known[i]++
			}
		}
	}
	for i := range total {
		total[i] /= float64(known[i])
	}
	for w := range b.worlds {
		for k := range b.goal.Bounds {
			missed := b.goal.Bounds[k].missed(rows, home, w*len(b.columns)+1+k)
			m := mean(missed)
			if !(m > 0) {
				continue
			}
			for i, x := range missed {
				if math.IsNaN(x) {
					x = m
				}
				total[i] -= steep * x / float64(len(b.worlds))
			}
		}
	}
	return total
}

// unit is what one of the objective is in points.
func (b *bench) unit(home []Row, at int) float64 {
	m := b.goal.Objective.metric()
	unit := 100.0
	if m.unit != scenario.Share {
		if unit = 100 / max(mean(column(home, at)), m.floor); math.IsNaN(unit) {
			unit = 100 / m.floor
		}
	}
	if !m.more {
		return -unit
	}
	return unit
}

// column is one number of all rows.
func column(rows []Row, at int) []float64 {
	xs := make([]float64, len(rows))
	for i := range rows {
		xs[i] = rows[i][at]
	}
	return xs
}

// missed says by which share of the bound each replication is beyond it; below 0 it keeps to it.
// A difference to today that does not count is taken as zero.
func (bound *Bound) missed(rows, home []Row, at int) []float64 {
	m := bound.Column.metric()
	limit := bound.Value
	if bound.Now {
		limit = mean(column(home, at))
	}
	scale := max(limit, m.floor)
	missed := make([]float64, len(rows))
	for i := range rows {
		x := rows[i][at] - bound.Value
		if bound.Now {
			x = rows[i][at] - bound.of(home[i][at])
		}
		if !bound.AtMost {
			x = -x
		}
		if bound.Now {
			x -= m.worth
		}
		missed[i] = x / scale
	}
	return missed
}

// of is the bound, given what the file comes to today.
func (bound *Bound) of(now float64) float64 {
	switch {
	case !bound.Now:
		return bound.Value
	case bound.AtMost:
		return now * (1 + bound.Slack)
	}
	return now * (1 - bound.Slack)
}

// unmeasured names what of the goal is known of no run, such as a recovery where nothing
// fails.
func (b *bench) unmeasured(rows []Row) error {
	for w := range b.worlds {
		for k := range 1 + len(b.goal.Bounds) {
			if math.IsNaN(mean(column(rows, w*len(b.columns)+k))) {
				c := b.columns[k]
				return fmt.Errorf("%s is known of no run of %s: it needs trouble, a time of that name, and enough calls", c.Label(), b.worlds[w].File.Name)
			}
		}
	}
	return nil
}
