package sim

import (
	"math"
	"time"

	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/lab/internal/draw"
)

// Load is calls a second over time: straight lines between points, and constant
// after the last. The zero Load means no calls.
type Load []Rate

// Rate is a point of a [Load].
type Rate struct {
	At        time.Duration
	PerSecond float64
}

// Steady is the same rate all the time.
func Steady(perSecond float64) Load { return Load{{0, perSecond}} }

// Rate returns the calls a second at t.
func (l Load) Rate(t time.Duration) float64 {
	for i := len(l) - 1; i >= 0; i-- {
		if t < l[i].At {
			continue
		}
		if i == len(l)-1 || l[i+1].At == l[i].At {
			return l[i].PerSecond
		}
		share := float64(t-l[i].At) / float64(l[i+1].At-l[i].At)
		return l[i].PerSecond + float64(share*(l[i+1].PerSecond-l[i].PerSecond))
	}
	if len(l) == 0 {
		return 0
	}
	return l[0].PerSecond
}

// source makes the arrivals of a fleet: a Poisson process whose rate changes, by
// inversion of the expected number of arrivals, which is exact.
type source struct {
	load  Load
	even  bool
	chunk int // which line of load now is on
	now   time.Duration
	draws draw.Stream
}

// next returns when the next call is made; false when no more will be before end.
func (a *source) next(end time.Duration) (clock.Instant, bool) {
	want := 1.0 // expected arrivals until the next one
	if !a.even {
		want = -draw.Ln(a.draws.Open())
	}
	for a.now < end {
		until, from, to := a.line(end)
		span := float64(until-a.now) / 1e9
		area := float64(float64(from+to) / 2 * span)
		if area >= want {
			a.now += time.Duration(math.Ceil(float64(within(from, to, span, want) * 1e9)))
			return clock.Instant(a.now), a.now < end
		}
		want -= area
		a.now = until
		a.chunk++
	}
	return 0, false
}

// line returns the piece of the load that now is on: where it ends, and the rates
// now and there.
func (a *source) line(end time.Duration) (until time.Duration, from, to float64) {
	for a.chunk < len(a.load) && a.load[a.chunk].At <= a.now {
		a.chunk++
	}
	until = end
	if a.chunk < len(a.load) {
		until = min(until, a.load[a.chunk].At)
	}
	from = a.load.Rate(a.now)
	to = a.load.Rate(until - 1) // a step belongs to what comes after it
	return until, from, to
}

// within returns after how many seconds of a line the area under it is want:
// from·t + slope·t²/2 = want, solved for the smaller positive t.
func within(from, to, span, want float64) float64 {
	slope := (to - from) / span
	if math.Abs(slope) < 1e-12 {
		return want / from
	}
	root := math.Sqrt(max(float64(from*from)+float64(2*float64(slope*want)), 0))
	return min(float64(2*want)/(from+root), span)
}
