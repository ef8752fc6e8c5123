package scenario

import (
	"math"
	"slices"

	"github.com/gabion-go/gabion/lab/internal/stat"
)

// worth is the least difference that counts, by unit.
var worth = map[string]float64{Share: 0.0005, Ratio: 0.005, Seconds: 0.0005, Count: 0.5}

// diffs compares two sides, metric by metric.
func diffs(a, b *Side) []Diff {
	all := pairs("all", a.Metrics, b.Metrics)
	for i := range a.Phases {
		if len(a.Phases) > 1 {
			all = append(all, pairs(a.Phases[i].Name, a.Phases[i].Metrics, b.Phases[i].Metrics)...)
		}
	}
	return all
}

func pairs(phase string, a, b []Metric) (all []Diff) {
	others := map[string]bool{} // of whom other calls were answered on one side than on the other
	for i := range a {
		d := diffOf(phase, &a[i], &b[i])
		if d.Key == "goodput" {
			others[d.Of] = d.Verdict != stat.Unresolved.String()
		}
		all = append(all, d)
	}
	for i := range all {
		if d := &all[i]; ofAnswers[d.Key] && others[d.Of] {
			d.Verdict = stat.Unresolved.String()
		}
	}
	return all
}

// ofAnswers are the metrics of answered calls alone. Where one side answers fewer, it is
// no better for having answered the quick ones.
var ofAnswers = map[string]bool{"mean": true, "p50": true, "p90": true, "p99": true, "p999": true}

// diffOf is one metric on both sides.
func diffOf(phase string, a, b *Metric) Diff {
	x, y := known(a.Values, b.Values)
	delta, verdict := comparer(a.Key)(x, y, a.More, worth[a.Unit])
	return Diff{
		Key: a.Key, Of: a.Of, Name: a.Name, Phase: phase, Unit: a.Unit, A: a.Mean, B: b.Mean,
		Delta: estimate(delta), Verdict: verdict.String(),
	}
}

// comparer returns what compares a metric.
func comparer(key string) func(a, b []float64, moreIsBetter bool, worth float64) (stat.Interval, stat.Verdict) {
	if byMedian(key) {
		return stat.PairedMedian
	}
	return stat.Paired
}

// known returns the pairs of which both are known; what never came is.
func known(a, b []Number) (x, y []float64) {
	for i := range a {
		if p, q := float64(a[i]), float64(b[i]); !math.IsNaN(p) && !math.IsNaN(q) {
			x, y = append(x, p), append(y, q)
		}
	}
	return x, y
}

// settingDiffs are the settings that differ between the sides.
func settingDiffs(a, b []Policy) []SettingDiff {
	all := []SettingDiff{}
	for i := range min(len(a), len(b)) {
		var paths []string
		values := func(p Policy) map[string]string {
			m := map[string]string{}
			for _, s := range p.Settings {
				m[s.Path] = s.Value
				if !slices.Contains(paths, s.Path) {
					paths = append(paths, s.Path)
				}
			}
			return m
		}
		x, y := values(a[i]), values(b[i])
		for _, path := range paths {
			if x[path] != y[path] {
				all = append(all, SettingDiff{a[i].Name, path, x[path], y[path]})
			}
		}
	}
	return all
}
