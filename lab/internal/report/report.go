// Package report shows what the runs of a scenario came to: on one screen of a
// terminal, and on one page of HTML that asks nothing of a network and needs no script.
//
// Both are made of a [scenario.Study] alone, so that the same study gives the same
// bytes.
package report

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/gabion-go/gabion/lab/internal/scenario"
)

// find returns the metric with a key that is about everything, or nil.
func find(list []scenario.Metric, key string) *scenario.Metric {
	for i := range list {
		if list[i].Key == key && list[i].Of == "" {
			return &list[i]
		}
	}
	return nil
}

// pick returns the metric with a key in a phase, or of the whole run; nil if it is missing.
func (s *sheet) pick(side int, phase, key string) *scenario.Metric {
	return find(s.metricsOf(side, phase), key)
}

// The names of phases.
const (
	whole  = "all"
	during = "during"
	after  = "after"
)

// phaseName writes a phase for people.
func phaseName(name string) string {
	switch name {
	case whole:
		return "Whole run"
	case "before":
		return "Before"
	case during:
		return "During the trouble"
	case after:
		return "After"
	}
	return name
}

// metricName is what a metric is called, with whose it is.
func metricName(m *scenario.Metric) string {
	name := m.Name
	if name == "" {
		name = m.Key
	}
	if m.Of != "" && !strings.Contains(name, m.Of) {
		name += " of " + m.Of
	}
	return name
}

// value says what runs came to: where they end in two ways, both, and never the
// mean of them, which may be what no run did.
func value(m *scenario.Metric) string {
	if m == nil {
		return none
	}
	if t := m.Modes; t != nil {
		return measure(t.Low, m.Unit) + " or " + measure(t.High, m.Unit)
	}
	return measure(m.Mean.Value, m.Unit)
}

// margin says how sure that is.
func margin(m *scenario.Metric) string {
	if m == nil {
		return ""
	}
	if t := m.Modes; t != nil {
		return fmt.Sprintf("the higher in %s of runs", percent(t.ShareOfHigh))
	}
	return interval(m.Mean, m.Unit)
}

// interval says where a number may lie that can't be negative.
func interval(e scenario.Estimate, unit string) string {
	if math.IsInf(e.Low, -1) {
		return ""
	}
	e.Low = max(e.Low, 0)
	if unit == scenario.Share {
		e.High = min(e.High, 1)
	}
	return between(e, unit, measure)
}

// stuckText is a probability of staying down, with the runs that it is from.
func stuckText(side *scenario.Side) string {
	n := 0
	for _, r := range side.Runs {
		if r.Stuck {
			n++
		}
	}
	return fmt.Sprintf("%d of %s", n, counted(len(side.Runs), "run"))
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return grouped(strconv.Itoa(n)) + " " + what + "s"
}

// tally counts the assertions of a side.
func tally(list []scenario.Verdict) (yes, no, unsure int) {
	for _, v := range list {
		switch v.Holds {
		case scenario.Yes:
			yes++
		case scenario.No:
			no++
		default:
			unsure++
		}
	}
	return yes, no, unsure
}

// tallyText says how assertions went, in a sentence.
func tallyText(list []scenario.Verdict) string {
	yes, no, unsure := tally(list)
	switch {
	case len(list) == 0:
		return "The scenario asserts nothing."
	case yes == len(list):
		return "All " + counted(yes, "assertion") + " hold."
	}
	parts := []string{fmt.Sprintf("%d of %s hold", yes, counted(len(list), "assertion"))}
	if yes == 1 {
		parts[0] += "s"
	}
	if no > 0 {
		parts = append(parts, strconv.Itoa(no)+" failed")
	}
	if unsure > 0 {
		parts = append(parts, strconv.Itoa(unsure)+" unresolved")
	}
	return strings.Join(parts, ", ") + "."
}

// Verdicts of a difference, as [stat.Verdict] spells them.
const (
	better = "better"
	worse  = "worse"
)

// order puts worse first, then better, then what is unresolved.
func order(d *scenario.Diff) int {
	switch d.Verdict {
	case worse:
		return 0
	case better:
		return 1
	}
	return 2
}

// dull reports whether there is nothing to say of a difference: it is zero or unknown in every
// pair.
func dull(d *scenario.Diff) bool {
	return math.IsNaN(d.Delta.Value) || d.Delta.Value == 0 && d.Delta.Low == 0 && d.Delta.High == 0
}

// both says what the sides came to in a difference, and what it is: of runs that end
// in two ways two values, and no mean of the difference.
func (s *sheet) both(d *scenario.Diff) (a, b, delta string) {
	delta = change(d.Delta.Value, d.Unit)
	of := func(i int, mean float64) string {
		if m := matching(s.metricsOf(i, d.Phase), &scenario.Metric{Key: d.Key, Of: d.Of}); m != nil && m.Modes != nil {
			delta = "two ways"
			return value(m)
		}
		return measure(mean, d.Unit)
	}
	a, b = of(0, d.A.Value), of(1, d.B.Value)
	return a, b, delta
}

// metricsOf returns the metrics of a side in a phase.
func (s *sheet) metricsOf(i int, phase string) []scenario.Metric {
	return metricsIn(&s.Sides[i], phase)
}

func metricsIn(side *scenario.Side, phase string) []scenario.Metric {
	if phase == whole {
		return side.Metrics
	}
	for _, ph := range side.Phases {
		if ph.Name == phase {
			return ph.Metrics
		}
	}
	return nil
}

// matching returns the metric that is the same as another one elsewhere.
func matching(list []scenario.Metric, like *scenario.Metric) *scenario.Metric {
	for i := range list {
		if list[i].Key == like.Key && list[i].Of == like.Of {
			return &list[i]
		}
	}
	return nil
}

// headlines are the differences that people ask for first.
var headlines = [...]struct{ phase, key string }{
	{during, "goodput"}, {after, "goodput"}, {during, "amplification"}, {during, "wasted"}, {during, "p99"}, {after, "p99"}, {whole, "goodput"},
	{whole, "amplification"}, {whole, "p99"}, {whole, "duplicates"}, {whole, "recovery"}, {whole, "retry_tail"}, {whole, "peak"}, {whole, "stuck"},
}

// headline returns the differences that people ask for first, of those that are
// resolved: where something goes wrong, those of the time of trouble instead of those of
// the whole run.
func (s *sheet) headline() (list []*scenario.Diff) {
	trouble := s.During[1] > s.During[0]
	for _, h := range headlines {
		if trouble && h.phase == whole && slices.Contains(tableKeys[:], h.key) {
			continue
		}
		for i := range s.Diffs {
			if d := &s.Diffs[i]; d.Phase == h.phase && d.Key == h.key && d.Of == "" && !dull(d) && order(d) < 2 {
				list = append(list, d)
			}
		}
	}
	return list
}
