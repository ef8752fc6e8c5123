package tune

import (
	"fmt"
	"math"
	"slices"

	"github.com/gabion-go/gabion/internal/policyfile"
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
	starts  []Start // the first coordinate of a point
	goal    *Goal
	columns []Column // the objective, the bounds, then costs that are neither
	seed    uint64   // 0 means each scenario's
	trials  map[string]*side
}

// side is a policy that is ready to run: by world and variation. Beside today's policy are the
// defaults, if they are others; their columns come after its own.
type side struct{ own, usual [][]*scenario.Trial }

func newBench(o *Options) *bench {
	b := &bench{worlds: o.Worlds, starts: o.Starts, goal: o.Goal, seed: o.Seed, trials: map[string]*side{}}
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
	made := b.starts[p[0]].Policy
	for d, v := range p[1:] {
		dim := &b.starts[p[0]].Dimensions[d]
		if v == dim.Home {
			continue
		}
		var err error
		if made, err = policyfile.Set(made, dim.Path, dim.Values[v]); err != nil {
			return made, err
		}
	}
	return made, made.Validate()
}

// side makes a point ready to run.
func (b *bench) side(p Point, of []variation) (*side, error) {
	made, err := b.policyOf(p)
	if err != nil {
		return nil, err
	}
	s := &side{}
	if s.own, err = b.ready(made, of); err == nil && slices.Equal(p, b.home()) && !same(made, Defaults(made)) {
		s.usual, err = b.ready(Defaults(made), of)
	}
	return s, err
}

// measure runs one replication of a side in one variation of a world.
func (b *bench) measure(s *side, w, variation int, seed uint64, replication int) Row {
	row := make(Row, 0, 2*len(b.columns))
	for _, trials := range [][][]*scenario.Trial{s.own, s.usual} {
		if trials == nil {
			continue
		}
		sample := trials[w][variation].Run(seed, replication)
		for _, c := range b.columns {
			row = append(row, c.take(&sample))
		}
	}
	return row
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
	s, err := b.side(p, searched)
	if err == nil {
		b.trials[p.key()] = s
	}
	return err == nil
}

// run runs a replication of a point in all worlds.
func (b *bench) run(p Point, replication int) Row {
	s := b.trials[p.key()]
	var own, usual Row
	for w := range b.worlds {
		row := b.measure(s, w, replication%len(searched), b.seedOf(w), replication)
		own, usual = append(own, row[:len(b.columns)]...), append(usual, row[len(b.columns):]...)
	}
	return append(own, usual...)
}

// seedOf is the seed of a world's search.
func (b *bench) seedOf(w int) uint64 {
	if b.seed != 0 {
		return b.seed
	}
	return b.worlds[w].File.Seed
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
			missed := b.goal.Bounds[k].missed(rows, home, w*len(b.columns)+1+k, len(b.worlds)*len(b.columns))
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

// column is one number of all rows, NaN where it was not measured.
func column(rows []Row, at int) []float64 {
	xs := make([]float64, len(rows))
	for i := range rows {
		xs[i] = math.NaN()
		if at < len(rows[i]) {
			xs[i] = rows[i][at]
		}
	}
	return xs
}

// missed says by which share of the bound each replication is beyond it; below 0 it keeps to it.
// A difference to today that does not count is taken as zero. What the defaults come to is in
// the rows of home, later by a number of columns.
func (bound *Bound) missed(rows, home []Row, at, later int) []float64 {
	m := bound.Column.metric()
	limits := bound.limits(column(home, at), column(home, at+later))
	scale := max(mean(limits), m.floor)
	missed := make([]float64, len(rows))
	for i := range rows {
		x := rows[i][at] - limits[i]
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

// limits are the bound in each run, given what the file and the defaults come to there.
func (bound *Bound) limits(now, usual []float64) []float64 {
	m := bound.Column.metric()
	if bound.Usual {
		now = m.weaker(now, usual)
	}
	limits := make([]float64, len(now))
	for i, x := range now {
		switch {
		case !bound.Now:
			limits[i] = bound.Value
		case bound.AtMost:
			limits[i] = max(x, m.least) * (1 + bound.Slack)
		default:
			limits[i] = x * (1 - bound.Slack)
		}
	}
	return limits
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
