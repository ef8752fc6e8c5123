package tune

import (
	"math"
	"slices"

	"github.com/gabion-go/gabion/lab/internal/scenario"
)

// metric is what goals may speak of.
type metric struct {
	key   string
	name  string // for people
	unit  string
	more  bool    // is better
	worth float64 // the least difference that counts
	floor float64 // violations are relative to the bound, or to this if it is more
	least float64 // a bound of what is now is at least this: to send less is no merit
	phase string  // that is meant if none is said
	whole bool    // it has no phases
}

// metrics are those that a goal can name, in the order in which they are listed.
var metrics = []metric{
	{key: "goodput", name: "answered in time", unit: scenario.Share, more: true, worth: 0.0005, floor: 0.05},
	{key: "success", name: "answered at all", unit: scenario.Share, more: true, worth: 0.0005, floor: 0.05},
	{key: "amplification", name: "requests for each that is needed", unit: scenario.Ratio, worth: 0.005, floor: 0.1, least: 1, phase: scenario.Trouble},
	{key: "load", name: "load on what is in trouble", unit: scenario.Ratio, worth: 0.005, floor: 0.1, least: 1, phase: scenario.Trouble},
	{key: "peak", name: "the busiest moment afterwards", unit: scenario.Ratio, worth: 0.005, floor: 0.1, whole: true},
	{key: "recovery", name: "time to recover", unit: scenario.Seconds, worth: 0.05, floor: 1, whole: true},
	{key: "retry_tail", name: "retries go on for", unit: scenario.Seconds, worth: 0.05, floor: 1, whole: true},
	{key: "stuck", name: "stays down", unit: scenario.Share, worth: 0.0005, floor: 0.05, whole: true},
	{key: "failed_time", name: "time in calls that failed, for each call", unit: scenario.Seconds, worth: 0.0005, floor: 0.01},
	{key: "wasted", name: "work for callers who had gone", unit: scenario.Share, worth: 0.0005, floor: 0.05},
	{key: "duplicates", name: "work done twice", unit: scenario.Count, worth: 0.5, floor: 1},
	{key: "mean", name: "mean latency of answers", unit: scenario.Seconds, worth: 0.0005, floor: 0.01},
	{key: "p50", name: "p50 latency of answers", unit: scenario.Seconds, worth: 0.0005, floor: 0.01},
	{key: "p90", name: "p90 latency of answers", unit: scenario.Seconds, worth: 0.0005, floor: 0.01},
	{key: "p99", name: "p99 latency of answers", unit: scenario.Seconds, worth: 0.0005, floor: 0.01},
	{key: "p999", name: "p999 latency of answers", unit: scenario.Seconds, worth: 0.0005, floor: 0.01},
}

// metricOf finds a metric by its key, or returns nil.
func metricOf(key string) *metric {
	if i := slices.IndexFunc(metrics, func(m metric) bool { return m.key == key }); i >= 0 {
		return &metrics[i]
	}
	return nil
}

// weaker returns the numbers of the file or of the defaults: those that are easier to keep to.
func (m *metric) weaker(now, usual []float64) []float64 {
	if x, y := mean(now), mean(usual); x < y && !m.more || x > y && m.more || math.IsNaN(x) {
		return usual
	}
	return now
}

// keys are the keys of all metrics.
func keys() (all []string) {
	for _, m := range metrics {
		all = append(all, m.key)
	}
	return all
}

// Column is a metric in a phase: what one number of a run is.
type Column struct {
	Key   string
	Phase string // before, during, after, scenario.Trouble, or empty for the whole run
}

func (c Column) metric() *metric { return metricOf(c.Key) }

// Label returns the column as a goal spells it.
func (c Column) Label() string {
	switch c.Phase {
	case "", scenario.Trouble:
		return c.Key
	}
	return c.Key + " " + c.Phase
}

// take returns the column's number of one run.
func (c Column) take(s *scenario.Sample) float64 {
	if c.Key == "success" {
		return 1 - s.Metric("failed", c.Phase)
	}
	return s.Metric(c.Key, c.Phase)
}

// mean returns the mean of what is known, NaN of nothing.
func mean(xs []float64) float64 {
	sum, n := 0.0, 0
	for _, x := range xs {
		if !math.IsNaN(x) {
			sum, n = sum+x, n+1
		}
	}
	return sum / float64(n)
}
