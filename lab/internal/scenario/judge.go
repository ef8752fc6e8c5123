package scenario

import (
	"math"
	"slices"

	"github.com/gabion-go/gabion/lab/internal/stat"
)

// Groups of headlines: for whom something is good.
const (
	Callers    = "callers"    // who wait for answers
	Dependency = "dependency" // what is called
	Recovery   = "recovery"   // how soon all is well when nothing is wrong any more
	Certainty  = "certainty"  // that it is at all
	Effects    = "effects"    // that messages have theirs once, neither twice nor never
)

// Headline is one of the few numbers by which a side is judged.
type Headline struct {
	Group string   `json:"group"`
	Key   string   `json:"key"`   // of the metric
	Phase string   `json:"phase"` // all, during
	At    string   `json:"at"`    // what of the runs: mean, p50, p80, worst
	Name  string   `json:"name"`  // for people
	Unit  string   `json:"unit"`
	Value Estimate `json:"value"`
}

// Judgement is one side against another, with the same random numbers.
type Judgement struct {
	A        int       `json:"a"`      // a side, by its place in the study's sides
	B        int       `json:"b"`      // the side that is judged against it
	Winner   string    `json:"winner"` // the name of the side that wins; empty when none does
	Points   float64   `json:"points"` // what B wins by, less what it loses by
	Sentence string    `json:"sentence"`
	Heads    []Weighed `json:"heads"`
}

// Weighed is the difference in a headline, and what it counts for.
type Weighed struct {
	Diff
	Group  string  `json:"group"`
	Weight float64 `json:"weight"` // points for each unit of the metric: 100 make 1 % a point
	Points float64 `json:"points"` // what B wins by it; 0 where nothing is resolved
}

// weight is a metric by which sides are judged. Each votes once, in one phase, and
// what follows from it elsewhere does not vote again. A point is one call of a hundred
// that is answered in time. What calls wait for nothing, what the dependency gets
// beyond need, and how long all that lasts is worth less: it costs answers too where
// it does harm, and those are counted.
type weight struct {
	group, key string
	trouble    bool    // of the time of trouble, where there is one; else of the whole run
	points     float64 // for each unit, if it is one more
	least      float64 // what is below it is no gain: a dependency that gets less than is needed is not better off for it
}

var weights = []weight{
	{Callers, "goodput", false, 100, 0},
	{Callers, "goodput", true, 0, 0},        // is said, for it says where, and counts in the one above
	{Callers, "failed_time", false, -2, 0},  // a second that each call waits for nothing is two answers of a hundred
	{Dependency, "load", true, -5, 1},       // and to send twice what is needed is five
	{Dependency, "peak", false, -1, 1},      // and a busiest moment of twice the usual is one
	{Recovery, "recovery", false, -0.05, 0}, // and twenty seconds are one
	{Certainty, "stuck", false, -30, 0},     // and three runs of a hundred that stay down are nearly one
	{Effects, "doubled_share", false, -100, 0},
	{Effects, "lost_share", false, -100, 0}, // and an effect that is there twice, or not at all, is an answer that is not there
}

// decisive is the least sum of points by which a side wins.
const decisive = 0.1

// phaseOf is the phase in which a weight is taken.
func (h *weight) phaseOf(side *Side) string {
	if h.trouble {
		for _, p := range side.Phases {
			if p.Name == "during" {
				return p.Name
			}
		}
	}
	return "all"
}

// metricIn returns a metric about everything, or nil.
func (s *Side) metricIn(phase, key string) *Metric {
	list := s.Metrics
	if phase != "all" {
		list = nil
		for i := range s.Phases {
			if s.Phases[i].Name == phase {
				list = s.Phases[i].Metrics
			}
		}
	}
	for i := range list {
		if list[i].Key == key && list[i].Of == "" {
			return &list[i]
		}
	}
	return nil
}

// headlines are the few numbers of a side, in the order in which to show them.
func (s *Side) headlines() []Headline {
	all := []Headline{}
	for i := range weights {
		h := &weights[i]
		phase := h.phaseOf(s)
		m := s.metricIn(phase, h.key)
		if m == nil || h.points == 0 && phase == "all" {
			continue
		}
		if h.key == "recovery" {
			all = append(all, recoveries(m)...)
			continue
		}
		all = append(all, Headline{h.group, h.key, phase, "mean", m.Name, m.Unit, m.Mean})
	}
	return all
}

// recoveries are the middle run, the one that four of five are not slower than, and the
// slowest.
func recoveries(m *Metric) (all []Headline) {
	var xs []float64
	for _, v := range m.Values {
		if x := float64(v); !math.IsNaN(x) {
			xs = append(xs, x)
		}
	}
	worst := stat.Interval{Value: math.NaN(), Low: math.Inf(-1), High: math.Inf(1)}
	for _, x := range xs {
		worst.Value = max(x, worst.Value)
		if math.IsNaN(worst.Value) {
			worst.Value = x
		}
		worst.Low = worst.Value // of other runs one may be slower
	}
	for _, q := range []struct {
		at string
		i  stat.Interval
	}{{"p50", stat.Median(xs)}, {"p80", stat.Quantile(xs, 0.8)}, {"worst", worst}} {
		all = append(all, Headline{Recovery, m.Key, "all", q.at, m.Name, m.Unit, estimate(q.i)})
	}
	return all
}

// judgements are the sides against each other: the second against the first, and both
// against the plain client where that is a third.
func (s *Study) judgements() []Judgement {
	all := []Judgement{}
	pairs := [][2]int{{0, 1}, {2, 0}, {2, 1}}
	switch len(s.Sides) {
	case 1:
		pairs = nil
	case 2:
		pairs = pairs[:1]
	}
	for _, p := range pairs {
		all = append(all, s.judge(p[0], p[1]))
	}
	return all
}

func (s *Study) judge(a, b int) Judgement {
	j := Judgement{A: a, B: b, Heads: []Weighed{}}
	left := s.Duration - s.During[1] // never is as long as anybody looked
	for i := range weights {
		if h, ok := weights[i].weigh(&s.Sides[a], &s.Sides[b], left); ok {
			j.Points += h.Points
			j.Heads = append(j.Heads, h)
		}
	}
	j.Points = round6(j.Points)
	switch {
	case j.Points >= decisive:
		j.Winner = s.Sides[b].Name
	case j.Points <= -decisive:
		j.Winner = s.Sides[a].Name
	}
	if s.wrongMore(&j) {
		j.Winner = ""
	}
	j.Sentence = s.sentence(&j)
	return j
}

// wrongMore is true when the winner has more effects twice, or loses more, than the other: answers
// do not make up for that, since to those who count them what was done twice is an answer too.
func (s *Study) wrongMore(j *Judgement) bool {
	bad := stat.Worse
	if j.Winner == s.Sides[j.A].Name && j.Points < 0 {
		bad = stat.Better
	}
	return j.Winner != "" && slices.ContainsFunc(j.Heads, func(h Weighed) bool { return h.Group == Effects && h.Verdict == bad.String() })
}

// weigh compares two sides in one headline.
func (h *weight) weigh(a, b *Side, never float64) (Weighed, bool) {
	phase := h.phaseOf(a)
	x, y := a.metricIn(phase, h.key), b.metricIn(phase, h.key)
	if x == nil || y == nil || h.points == 0 && phase == "all" {
		return Weighed{}, false
	}
	w := Weighed{Diff: diffOf(phase, x, y), Group: h.group, Weight: h.points}
	if math.IsNaN(w.Delta.Value) {
		return Weighed{}, false
	}
	xs, ys := known(x.Values, y.Values)
	for i := range xs {
		xs[i], ys[i] = max(min(xs[i], h.cap(never)), h.least), max(min(ys[i], h.cap(never)), h.least)
	}
	delta, verdict := comparer(h.key)(xs, ys, x.More, worth[x.Unit])
	if h.points != 0 && verdict != stat.Unresolved && w.Verdict != stat.Unresolved.String() {
		w.Points = round6(h.points * delta.Value)
	}
	return w, true
}

// cap is the most that a metric is taken for.
func (h *weight) cap(never float64) float64 {
	if h.group == Recovery {
		return never
	}
	return math.Inf(1)
}
