package measured

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/gabion-go/gabion/internal/facts"
	"github.com/gabion-go/gabion/internal/formulas"
	"github.com/gabion-go/gabion/internal/policyfile"
	"github.com/gabion-go/gabion/policy"
)

// vitals are what was measured of one dependency. What a source does not tell is zero; the
// flags say which sources tell what.
type vitals struct {
	name string
	span time.Duration // that the counts are of; 0 is not known

	calls, succeeded  float64 // calls that ended
	attempts, retries float64
	ended             map[string]float64 // calls that did not succeed, by reason
	refused           map[string]float64 // attempts and re-sends that were not made, by reason
	cut               float64            // attempts that their timeout ended

	took formulas.Counts // attempts that succeeded

	opens     float64       // times that a breaker opened
	notClosed bool          // one is not closed right now
	limit     float64       // slots of the bulkhead
	longest   time.Duration // a call with more than one attempt took this long; only a recording tells

	settings  []policyfile.Change // that are in force and no defaults, as far as the source says
	hasPolicy bool                // it says so
}

func newVitals(name string) *vitals {
	return &vitals{name: name, ended: map[string]float64{}, refused: map[string]float64{}}
}

// rate is calls a second; 0 is not known.
func (v *vitals) rate() float64 {
	if v.span < time.Second {
		return 0
	}
	return v.calls / v.span.Seconds()
}

// sample is what decides about times.
func (v *vitals) sample() formulas.Sample {
	return formulas.Sample{
		Took: v.took, Calls: v.calls, Failed: v.calls - v.succeeded - v.ended[policy.NotRetryable.String()],
		Attempts: v.attempts, Retries: v.retries, Cut: v.cut,
		GaveUp: sum(v.ended, policy.CallTimeout.String(), policy.Canceled.String()),
		Opened: v.opens > 0 || v.notClosed || v.ended[policy.BreakerOpen.String()]+v.refused[policy.BreakerOpen.String()] > 0,
	}
}

// facts are what the linter can calculate with. A percentile needs samples: p99 a hundred,
// p99.9 a thousand.
func (v *vitals) facts() (f facts.Facts) {
	f.Rate, f.P50 = policy.PerSecond(roundTo(v.rate(), 3)), round(v.took.Quantile(0.5))
	if n := v.took.Count(); n >= 100 {
		f.P99 = round(v.took.Quantile(0.99))
		if n >= 1000 {
			f.P999 = round(v.took.Quantile(0.999))
		}
	}
	return f
}

// roundTo rounds to a number of digits.
func roundTo(x float64, digits int) float64 {
	if math.IsInf(x, 0) || math.IsNaN(x) {
		return 0
	}
	y, _ := strconv.ParseFloat(strconv.FormatFloat(x, 'e', digits-1, 64), 64) // it is what was just written
	return y
}

// sum adds what a map holds under some names.
func sum(of map[string]float64, names ...string) (n float64) {
	for _, name := range names {
		n += of[name]
	}
	return n
}

// round keeps three digits of a time.
func round(d time.Duration) time.Duration { return time.Duration(roundTo(float64(d), 3)) }

// niceTime rounds a time up to something that people write.
func niceTime(d time.Duration) time.Duration {
	unit := time.Millisecond
	for unit*100 < d {
		unit *= 10
	}
	return (d + unit - 1) / unit * unit
}

func text(d time.Duration) string { return policy.FormatDuration(round(d)) }

// percent keeps two digits of a share, and of what is missing to all: a few failures are not 100 %.
func percent(x float64) string {
	y := roundTo(100*x, 2)
	if x > 0.5 {
		y = roundTo(100-roundTo(100-100*x, 2), 9)
	}
	return strconv.FormatFloat(y, 'f', -1, 64) + " %"
}

func number(x float64) string {
	s := strconv.FormatFloat(roundTo(x, 12), 'f', -1, 64)
	if x >= 10_000 && x < 1e15 && x == math.Trunc(x) {
		for i := len(s) - 3; i > 0; i -= 3 {
			s = s[:i] + "," + s[i:]
		}
	}
	return s
}

// sentence says what was measured.
func (v *vitals) sentence() string {
	parts := []string{number(v.calls) + " calls"}
	if v.span > 0 {
		parts[0] += " in " + text(v.span)
	}
	if v.calls > 0 {
		parts = append(parts, percent(v.succeeded/v.calls)+" succeeded", fmt.Sprintf("%.2f attempts a call", v.attempts/v.calls))
	}
	s := v.sample()
	return strings.Join(append(parts, s.Said()), ", ")
}
