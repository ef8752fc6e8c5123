package draw

import (
	"math"
	"sort"
	"time"
)

// Dist is a distribution of durations. Make one with the functions below; the zero
// Dist is always 0.
type Dist struct {
	kind   kind
	a, b   float64 // in nanoseconds, or without a unit for shapes
	points []Point
	parts  []Part
	floor  time.Duration // added to every draw
}

type kind uint8

const (
	constant kind = iota
	uniform
	exponential
	normal
	lognormal
	pareto
	table
	mixture
	empirical
)

// A Point of a distribution known by its quantiles: a share P of draws is at most At.
type Point struct {
	P  float64
	At time.Duration
}

// A Part of a mixture.
type Part struct {
	Share float64
	Dist  Dist
}

// Constant is always d.
func Constant(d time.Duration) Dist { return Dist{kind: constant, a: float64(d)} }

// Uniform is anywhere from one to another, equally likely.
func Uniform(from, to time.Duration) Dist {
	return Dist{kind: uniform, a: float64(from), b: float64(to - from)}
}

// Exponential has that mean.
func Exponential(mean time.Duration) Dist { return Dist{kind: exponential, a: float64(mean)} }

// AbsNormal is the distance from zero of a normal draw.
func AbsNormal(mean, deviation time.Duration) Dist {
	return Dist{kind: normal, a: float64(mean), b: float64(deviation)}
}

// z99 is the 99th percentile of the standard normal distribution.
const z99 = 2.3263478740408408

// LogNormal has that median and that 99th percentile, which must be positive.
func LogNormal(p50, p99 time.Duration) Dist {
	mu := Ln(float64(max(p50, 1)))
	return Dist{kind: lognormal, a: mu, b: (Ln(float64(max(p99, p50, 1))) - mu) / z99}
}

// Pareto begins at least and falls off with that shape: the smaller, the heavier.
func Pareto(least time.Duration, shape float64) Dist {
	return Dist{kind: pareto, a: float64(least), b: shape}
}

// Quantiles is what was measured: between two points it is linear in the logarithm
// of what is left above them, so that tails are straight, and linear where a point
// is at zero. Points must rise in P from 0 to 1 and in At.
func Quantiles(points ...Point) Dist { return Dist{kind: table, points: points} }

// The points that are kept of samples: up to mostPoints, evenly spaced, and each of the longest.
const (
	mostPoints = 8192
	mostTail   = 2048
)

// Samples is what was measured, sorted. The k-th of n is the quantile (k-1)/(n-1), and
// between two it is linear: what is drawn is never below the least and never above the
// most. Of more than ten thousand, evenly spaced ones are kept, and the longest two thousand.
func Samples(sorted []time.Duration) Dist {
	n := len(sorted)
	switch n {
	case 0:
		return Dist{}
	case 1:
		return Constant(sorted[0])
	}
	var points []Point
	last := -1
	keep := func(k int) {
		if k > last {
			points = append(points, Point{float64(k) / float64(n-1), sorted[k]})
			last = k
		}
	}
	body := max(n-mostTail, 1)
	for i := range min(body, mostPoints) {
		keep(int(int64(i) * int64(body) / int64(min(body, mostPoints))))
	}
	for k := body; k < n; k++ {
		keep(k)
	}
	return Dist{kind: empirical, points: points}
}

// Mixture is each of its parts with its share. Shares are taken in proportion.
func Mixture(parts ...Part) Dist {
	sum := 0.0
	for _, p := range parts {
		sum += p.Share
	}
	own := make([]Part, len(parts))
	for i, p := range parts {
		own[i] = Part{p.Share / sum, p.Dist}
	}
	return Dist{kind: mixture, parts: own}
}

// Plus returns the distribution with d added to every draw.
func (d Dist) Plus(more time.Duration) Dist {
	d.floor += more
	return d
}

// Draw returns the next draw of s, never negative.
func (d *Dist) Draw(s *Stream) time.Duration { return max(d.floor+d.draw(s), 0) }

func (d *Dist) draw(s *Stream) time.Duration {
	switch d.kind {
	case uniform:
		return round(d.a + float64(s.U()*d.b))
	case exponential:
		return round(float64(-Ln(s.Open()) * d.a))
	case normal:
		return round(math.Abs(d.a + float64(s.Normal()*d.b)))
	case lognormal:
		return round(Exp(d.a + float64(s.Normal()*d.b)))
	case pareto:
		return round(float64(d.a * Exp(-Ln(s.Open())/d.b)))
	case table:
		return d.at(s.U())
	case empirical:
		return d.between(s.U())
	case mixture:
		return d.pick(s).Draw(s)
	}
	return time.Duration(d.a)
}

func (d *Dist) pick(s *Stream) *Dist {
	u := s.U()
	for i := range d.parts[:len(d.parts)-1] {
		if u -= d.parts[i].Share; u < 0 {
			return &d.parts[i].Dist
		}
	}
	return &d.parts[len(d.parts)-1].Dist
}

// at returns the quantile of u.
func (d *Dist) at(u float64) time.Duration {
	i := sort.Search(len(d.points), func(i int) bool { return d.points[i].P > u })
	switch {
	case len(d.points) == 0:
		return 0
	case i == 0:
		return d.points[0].At
	case i == len(d.points):
		return d.points[i-1].At
	}
	low, high := d.points[i-1], d.points[i]
	share := (u - low.P) / (high.P - low.P)
	if low.At > 0 && high.P < 1 && low.P > 0.5 { // a tail: a straight line on paper with two logarithmic scales
		share = (Ln(1-low.P) - Ln(1-u)) / (Ln(1-low.P) - Ln(1-high.P))
		ratio := Ln(float64(high.At)) - Ln(float64(low.At))
		return round(float64(float64(low.At) * Exp(float64(share*ratio))))
	}
	return low.At + round(float64(share*float64(high.At-low.At)))
}

// between returns the quantile of u, on a straight line between points that reach from 0
// to 1.
func (d *Dist) between(u float64) time.Duration {
	i := sort.Search(len(d.points), func(i int) bool { return d.points[i].P > u })
	i = max(min(i, len(d.points)-1), 1)
	low, high := d.points[i-1], d.points[i]
	share := (u - low.P) / (high.P - low.P)
	return low.At + round(float64(share*float64(high.At-low.At)))
}

// area is the mean of what is linear between points.
func (d *Dist) area() time.Duration {
	sum := 0.0
	for i, high := range d.points[1:] {
		low := d.points[i]
		sum += float64((high.P - low.P) * (float64(low.At) + float64(high.At)) / 2)
	}
	return round(sum)
}

// Mean returns the expected draw where it is known exactly, and for a table and a
// heavy tail what a hundred thousand draws come to.
func (d Dist) Mean() time.Duration {
	switch d.kind {
	case empirical:
		return d.floor + d.area()
	case constant, exponential:
		return d.floor + time.Duration(d.a)
	case uniform:
		return d.floor + time.Duration(d.a+d.b/2)
	case lognormal:
		return d.floor + round(Exp(d.a+float64(d.b*d.b)/2))
	}
	var s Stream
	sum := 0.0
	const n = 100_000
	for range n {
		sum += float64(d.Draw(&s))
	}
	return time.Duration(sum / n)
}
