package report

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/gabion-go/gabion/lab/internal/draw"
)

// The pictures are drawn on a field that is wide across and as high as a plot
// says; the page stretches the field, and never the texts.
const wide = 1000

// coordinate writes a place with a tenth of a unit, which no screen shows.
func coordinate(x float64) string {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		x = 0
	}
	s := strconv.FormatFloat(x, 'f', 1, 64)
	if n := len(s); s[n-2:] == ".0" {
		s = s[:n-2]
	}
	if s == "-0" {
		return "0"
	}
	return s
}

// A scale maps values to heights.
type scale struct {
	low, high float64
	log       bool
	unit      string
}

// linear is a scale from zero to a round number that is not below top.
func linear(top float64, unit string) scale {
	if math.IsNaN(top) || math.IsInf(top, 0) || top <= 0 {
		top = 1
	}
	step := roundStep(top / 4)
	return scale{high: math.Ceil(top/step-1e-9) * step, unit: unit}
}

// logarithmic is a scale between round numbers around low and high.
func logarithmic(low, high float64, unit string) scale {
	if math.IsNaN(low) || math.IsNaN(high) || math.IsInf(high, 0) || low <= 0 || high <= 0 {
		low, high = 1e-3, 1
	}
	from, to := roundBelow(low), roundBelow(high)
	for to < high {
		to *= 10
	}
	for to/from < 9.9 {
		to *= 10
	}
	return scale{low: from, high: to, log: true, unit: unit}
}

// roundStep returns the smallest of 1, 2, 2.5 and 5 times a power of ten that is
// not below x.
func roundStep(x float64) float64 {
	power := roundBelow(x)
	for _, m := range [...]float64{1, 2, 2.5, 5} {
		if m*power >= x*(1-1e-9) {
			return m * power
		}
	}
	return 10 * power
}

// roundBelow returns the largest power of ten that is not above x.
func roundBelow(x float64) float64 {
	power := 1.0
	for power > x && power > 1e-12 {
		power /= 10
	}
	for power*10 <= x && power < 1e15 {
		power *= 10
	}
	return power
}

// share returns where y is between the ends of the scale: 0 is at the bottom.
func (s scale) share(y float64) float64 {
	if s.log {
		if y <= s.low {
			return 0
		}
		return min(draw.Ln(y/s.low)/draw.Ln(s.high/s.low), 1)
	}
	return max(min((y-s.low)/(s.high-s.low), 1), 0)
}

// ticks are the values at which there is a line.
func (s scale) ticks() (at []float64) {
	if s.log {
		for y := s.low; y <= s.high*(1+1e-9); y *= 10 {
			at = append(at, y)
		}
		return at
	}
	step := roundStep(s.high / 4)
	for i := 0; float64(i)*step <= s.high*(1+1e-9); i++ {
		at = append(at, float64(i)*step)
	}
	return at
}

// timeSteps are the distances between labels of a time axis that people count in.
var timeSteps = [...]time.Duration{
	time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 15 * time.Second, 30 * time.Second,
	time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 30 * time.Minute,
	time.Hour, 2 * time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour, 24 * time.Hour,
}

// timeStep returns the distance that gives at most seven labels.
func timeStep(length time.Duration) time.Duration {
	for _, step := range timeSteps {
		if length <= 6*step {
			return step
		}
	}
	return (length / 6).Truncate(24*time.Hour) + 24*time.Hour
}

// timeLabel writes a label of a time axis that goes on to end.
func timeLabel(at, step, end time.Duration) string {
	switch {
	case at == 0:
		return "0"
	case end <= 2*time.Minute:
		return strconv.Itoa(int(at/time.Second)) + " s"
	case step%time.Hour == 0:
		return strconv.Itoa(int(at/time.Hour)) + " h"
	case step%time.Minute == 0 && end <= 2*time.Hour:
		return strconv.Itoa(int(at/time.Minute)) + " min"
	case step%time.Minute == 0:
		return strings.TrimSuffix(moment(at), ":00")
	}
	return moment(at)
}
