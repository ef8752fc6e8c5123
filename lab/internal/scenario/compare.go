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
	for i := range a {
		x, y := known(a[i].Values, b[i].Values)
		compare := stat.Paired
		if byMedian(a[i].Key) {
			compare = stat.PairedMedian
		}
		delta, verdict := compare(x, y, a[i].More, worth[a[i].Unit])
		all = append(all, Diff{
			Key: a[i].Key, Of: a[i].Of, Name: a[i].Name, Phase: phase, Unit: a[i].Unit, A: a[i].Mean, B: b[i].Mean,
			Delta: estimate(delta), Verdict: verdict.String(),
		})
	}
	return all
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
