package scenario

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/gabion-go/gabion/internal/policyfile"
	"github.com/gabion-go/gabion/lab/internal/stat"
	"github.com/gabion-go/gabion/policy"
)

// SweepOptions say which key of the policies has which values.
type SweepOptions struct {
	Options // Policies, Seed, Replications, Workers, Command and Progress count

	Key    string   // a path of package config, such as breaker.open
	Policy string   // whose it is, by its name in the scenario; empty means of all
	Values []string // as a file spells them
}

// MaxSweep is how many values a sweep may have.
const MaxSweep = 50

// Sweep is a scenario with one value after another of a policy's key, all with the same
// random numbers. It is not changed once it is made.
type Sweep struct {
	Version      int           `json:"version"`
	Name         string        `json:"name"`
	Title        string        `json:"title"`
	Key          string        `json:"key"`
	Policies     []string      `json:"policies"` // whose key it is, by their names in the scenario
	Seed         uint64        `json:"seed"`
	Replications int           `json:"replications"`
	Columns      []SweepColumn `json:"columns"`
	Rows         []SweepRow    `json:"rows"` // the values in their order, then what they are compared with
	Best         []SweepBest   `json:"best"` // for whom which value is best
	Command      string        `json:"command"`
}

// SweepColumn is a headline of which each value has a figure.
type SweepColumn struct {
	Group string `json:"group"` // callers, dependency, recovery, certainty
	Key   string `json:"key"`
	Phase string `json:"phase"`
	At    string `json:"at"` // mean, p50, worst
	Name  string `json:"name"`
	Unit  string `json:"unit"`

	weight *weight
}

// Kinds of rows.
const (
	Swept  = "swept"    // with a value of the sweep
	AsItIs = "as it is" // with the policies as they are
	Bare   = "plain"    // the plain client
)

// SweepRow is what one value came to.
type SweepRow struct {
	Kind   string      `json:"kind"`
	Value  string      `json:"value"`  // of the key; empty where policies differ in it
	Points float64     `json:"points"` // by which it is better than the policies as they are; one is a call of a hundred that is answered in time
	Cells  []SweepCell `json:"cells"`
	Fails  []string    `json:"fails"` // assertions that do not hold

	side Side
}

// SweepCell is one figure.
type SweepCell struct {
	Value   Estimate `json:"value"`
	Verdict string   `json:"verdict"` // best of its column, better or worse than that, or unresolved; empty where nothing is compared
}

// SweepBest is the best of a column.
type SweepBest struct {
	Column int   `json:"column"`
	Row    int   `json:"row"`   // -1 where the runs tell no value from another
	Alike  []int `json:"alike"` // the values that the runs do not tell from it
}

// Best is the verdict on the best value of a column.
const Best = "best"

// RunSweep runs the scenario with one value after another. The error is that a key or a
// value is not possible, or it is one of Run.
func (f *File) RunSweep(ctx context.Context, o SweepOptions) (*Sweep, error) {
	switch {
	case len(o.Values) < 2:
		return nil, fmt.Errorf("a sweep wants two values of %s and more", o.Key)
	case len(o.Values) > MaxSweep:
		return nil, fmt.Errorf("%d values of %s are more than %d", len(o.Values), o.Key, MaxSweep)
	}
	o.Options = f.complete(o.Options)
	o.Alone, o.Against, o.Map, o.Watch, o.Record = true, nil, false, "", nil
	rows, err := f.sweepRows(&o)
	if err != nil {
		return nil, err
	}
	s := &Sweep{
		Version: 1, Name: f.Name, Title: f.Title, Key: o.Key, Seed: o.Seed, Replications: o.Replications, Command: o.Command, Best: []SweepBest{},
	}
	for i, r := range rows {
		study, err := f.Run(ctx, r.options(&o, i, len(rows)))
		if err != nil {
			return nil, err
		}
		s.Rows = append(s.Rows, r.row(study, o.Key))
		s.Rows[i].side.Series = Series{} // of many values, and not shown
		if i == 0 {
			s.Policies = r.names()
		}
	}
	f.compareRows(s)
	return s, nil
}

// sweepRow is a row to be run.
type sweepRow struct {
	kind, value string
	policies    Policies
	touched     *[]string
}

// sweepRows are the values, the policies as they are, and the plain client. Each is made
// ready once before anything is run.
func (f *File) sweepRows(o *SweepOptions) (rows []sweepRow, err error) {
	for _, value := range o.Values {
		touched := []string{}
		r := sweepRow{Swept, value, o.Policies, &touched}
		r.policies.Edit = func(name string, p policy.Policy) (policy.Policy, error) {
			if o.Policy != "" && name != o.Policy {
				return p, nil
			}
			if !slices.Contains(touched, name) {
				touched = append(touched, name)
			}
			if before := o.Policies.Edit; before != nil {
				var err error
				if p, err = before(name, p); err != nil {
					return p, err
				}
			}
			return policyfile.Set(p, o.Key, value)
		}
		rows = append(rows, r)
	}
	bare := o.Policies
	bare.Rival, bare.Change, bare.Edit, bare.Name = rivalPlain, nil, nil, ""
	rows = append(rows, sweepRow{AsItIs, "", o.Policies, new([]string)}, sweepRow{Bare, "", bare, new([]string)})
	for _, r := range rows {
		w, err := f.world(&r.policies, asItIs)
		if err != nil {
			if r.kind == Swept {
				err = fmt.Errorf("%s=%s: %w", o.Key, r.value, err)
			}
			return nil, err
		}
		if r.kind == Swept && len(*r.touched) == 0 {
			var names []string
			for _, p := range w.policies {
				names = append(names, p.Name)
			}
			return nil, fmt.Errorf("nothing in %s goes by the policy %q: %s", f.Name, o.Policy, oneOf(o.Policy, names))
		}
	}
	return rows, nil
}

func (r *sweepRow) names() []string { return slices.Clone(*r.touched) }

// options are those of one row.
func (r *sweepRow) options(o *SweepOptions, i, of int) Options {
	made := o.Options
	made.Policies = r.policies
	if o.Progress != nil {
		made.Progress = func(done, all int) { o.Progress(i*all+done, of*all) }
	}
	return made
}

// row is what a row's study says.
func (r *sweepRow) row(s *Study, key string) SweepRow {
	made := SweepRow{Kind: r.kind, Value: r.value, Fails: []string{}, side: s.Sides[0]}
	for _, v := range made.side.Asserts {
		if v.Holds == No {
			made.Fails = append(made.Fails, v.Text)
		}
	}
	for _, p := range made.side.Policies {
		for _, set := range p.Settings {
			switch {
			case r.kind != AsItIs || set.Path != key:
			case made.Value == "":
				made.Value = set.Value
			case made.Value != set.Value:
				made.Value = ""
				return made
			}
		}
	}
	return made
}

// compareRows fills in the figures, and what they say.
func (f *File) compareRows(s *Sweep) {
	for _, h := range s.Rows[0].side.Heads {
		if h.Key == "failed_time" || h.At == "p80" {
			continue
		}
		c := SweepColumn{Group: h.Group, Key: h.Key, Phase: h.Phase, At: h.At, Name: h.Name, Unit: h.Unit}
		for i := range weights {
			if weights[i].key == h.Key && weights[i].phaseOf(&s.Rows[0].side) == h.Phase {
				c.weight = &weights[i]
			}
		}
		s.Columns = append(s.Columns, c)
	}
	from, to := f.trouble()
	judging := &Study{Duration: seconds(f.duration), During: [2]float64{seconds(from), seconds(to)}, Replications: s.Replications}
	now := slices.IndexFunc(s.Rows, func(r SweepRow) bool { return r.Kind == AsItIs })
	for i := range s.Rows {
		judging.Sides = append(judging.Sides, s.Rows[i].side)
	}
	for i := range s.Rows {
		s.Rows[i].Points = judging.judge(now, i).Points
		s.Rows[i].Cells = make([]SweepCell, len(s.Columns))
		for k := range s.Columns {
			s.Rows[i].Cells[k].Value = s.Columns[k].of(&s.Rows[i].side)
		}
	}
	for k := range s.Columns {
		s.compareColumn(k, judging.Duration-judging.During[1])
	}
}

// of is a side's figure.
func (c *SweepColumn) of(side *Side) Estimate {
	for _, h := range side.Heads {
		if h.Key == c.Key && h.Phase == c.Phase && h.At == c.At {
			return h.Value
		}
	}
	return estimate(stat.Mean(nil))
}

// compareColumn finds the best value, and those that the runs do not tell from it.
func (s *Sweep) compareColumn(k int, never float64) {
	c := &s.Columns[k]
	if c.At == "worst" {
		return // of one run, whatever the others are
	}
	best := -1
	for i, r := range s.Rows {
		x := c.typical(&r.side, never)
		if r.Kind != Swept || math.IsNaN(x) {
			continue
		}
		if best < 0 || c.closer(x, c.typical(&s.Rows[best].side, never)) {
			best = i
		}
	}
	if best < 0 {
		return
	}
	found := SweepBest{Column: k, Row: best, Alike: []int{}}
	resolved := false
	for i := range s.Rows {
		verdict := c.compare(&s.Rows[best].side, &s.Rows[i].side, never)
		s.Rows[i].Cells[k].Verdict = verdict.String()
		if s.Rows[i].Kind != Swept || i == best {
			continue
		}
		resolved = resolved || verdict != stat.Unresolved
		if verdict == stat.Unresolved {
			found.Alike = append(found.Alike, i)
		}
	}
	s.Rows[best].Cells[k].Verdict = Best
	if !resolved {
		found.Row = -1
		s.Rows[best].Cells[k].Verdict = stat.Unresolved.String()
	}
	s.Best = append(s.Best, found)
}

// closer reports whether x is better than y. Of two that are alike the first stays.
func (c *SweepColumn) closer(x, y float64) bool {
	if c.Key == "goodput" {
		return x > y
	}
	return x < y
}

// values are a metric of all runs, as far as they count: less than is needed is no gain,
// and never is as long as anybody looked.
func (c *SweepColumn) values(side *Side, never float64) []Number {
	m := side.metricIn(c.Phase, c.Key)
	if m == nil {
		return nil
	}
	values := slices.Clone(m.Values)
	for i, v := range values {
		if !math.IsNaN(float64(v)) {
			values[i] = Number(max(min(float64(v), c.weight.cap(never)), c.weight.least))
		}
	}
	return values
}

func (c *SweepColumn) typical(side *Side, never float64) float64 {
	xs, _ := known(c.values(side, never), c.values(side, never))
	return middle(c.Key, xs).Value
}

func (c *SweepColumn) compare(a, b *Side, never float64) stat.Verdict {
	xs, ys := known(c.values(a, never), c.values(b, never))
	_, verdict := comparer(c.Key)(xs, ys, c.Key == "goodput", cmp.Or(worth[c.Unit], 0.0005))
	return verdict
}
