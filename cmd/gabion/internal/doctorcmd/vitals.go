package doctorcmd

import (
	"math"
	"strconv"
	"time"

	"github.com/gabion-go/gabion/config"
	"github.com/gabion-go/gabion/policy"
)

// vitals are what was measured of one dependency. What a source does not tell is zero; the
// flags say which sources tell what.
type vitals struct {
	name string
	span time.Duration // that the counts are of; 0 is not known

	calls, succeeded          float64 // calls that ended
	attempts, retries, hedges float64
	ended                     map[string]float64 // calls that did not succeed, by reason
	refused                   map[string]float64 // attempts and re-sends that were not made, by reason
	cut                       float64            // attempts that their timeout ended
	settled                   float64            // attempts that ended

	latency policy.LatencyStats // of attempts that succeeded

	opens     float64 // times that a breaker opened
	knowOpens bool
	notClosed bool    // one is not closed right now
	limit     float64 // slots of the bulkhead
	busiest   float64 // the most slots in use at a time
	waited    float64 // calls that waited for a slot
	knowBusy  bool
	longest   time.Duration // a call with more than one attempt took this long

	settings  []config.Change // that are in force and no defaults, as far as the source says
	hasPolicy bool            // it says so
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

// facts are what the linter can calculate with.
func (v *vitals) facts() config.Facts {
	return config.Facts{
		Rate: policy.PerSecond(roundTo(v.rate(), 3)),
		P50:  v.latency.P50, P99: v.latency.P99, P999: v.latency.P999,
	}
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

// times are how long things took, in steps of 1 %.
type times struct {
	counts map[int]float64
	n      float64
}

const timeStep = 1.01

func (t *times) add(d time.Duration, n float64) {
	if t.counts == nil {
		t.counts = map[int]float64{}
	}
	t.counts[int(math.Ceil(math.Log(float64(max(d, 1)))/math.Log(timeStep)))] += n
	t.n += n
}

// quantile returns the time within which a share of all ended; 0 without any.
func (t *times) quantile(q float64) time.Duration {
	if t.n == 0 {
		return 0
	}
	low, high := math.MaxInt, math.MinInt
	for at := range t.counts {
		low, high = min(low, at), max(high, at)
	}
	seen := 0.0
	for at := low; at <= high; at++ {
		if seen += t.counts[at]; seen >= q*t.n {
			return time.Duration(math.Pow(timeStep, float64(at)))
		}
	}
	return time.Duration(math.Pow(timeStep, float64(high)))
}

// stats are the percentiles, where there are enough samples for each.
func (t *times) stats() (l policy.LatencyStats) {
	l.Samples = int64(t.n)
	l.P50, l.P95 = round(t.quantile(0.5)), round(t.quantile(0.95))
	if t.n >= 100 {
		l.P99 = round(t.quantile(0.99))
	}
	if t.n >= 1000 {
		l.P999 = round(t.quantile(0.999))
	}
	return l
}

// round keeps three digits of a time.
func round(d time.Duration) time.Duration { return time.Duration(roundTo(float64(d), 3)) }
