// Package stat says how much a few runs prove.
//
// A replication is one observation; what happens inside of one is not independent.
// All intervals are at 95 %.
package stat

import (
	"math"
	"slices"
)

// Interval is an estimate and where the truth lies with 95 % confidence.
type Interval struct{ Value, Low, High float64 }

// Contains reports whether x is inside.
func (i Interval) Contains(x float64) bool { return i.Low <= x && x <= i.High }

// Half returns half the width.
func (i Interval) Half() float64 { return (i.High - i.Low) / 2 }

// Mean returns the mean of independent observations, by Student's t. One
// observation says nothing about how far it is off: its interval is everything.
func Mean(xs []float64) Interval {
	n := len(xs)
	if n == 0 {
		return Interval{math.NaN(), math.Inf(-1), math.Inf(1)}
	}
	mean, sd := moments(xs)
	if n == 1 {
		return Interval{mean, math.Inf(-1), math.Inf(1)}
	}
	half := t95(n-1) * sd / math.Sqrt(float64(n))
	return Interval{mean, mean - half, mean + half}
}

// moments returns mean and standard deviation, in two passes.
func moments(xs []float64) (mean, sd float64) {
	for _, x := range xs {
		mean += x
	}
	mean /= float64(len(xs))
	if len(xs) < 2 {
		return mean, 0
	}
	for _, x := range xs {
		sd += float64((x - mean) * (x - mean))
	}
	return mean, math.Sqrt(sd / float64(len(xs)-1))
}

// Deviation returns the standard deviation of observations.
func Deviation(xs []float64) float64 {
	_, sd := moments(xs)
	return sd
}

// t95 is the 97.5th percentile of Student's distribution, by the expansion of
// Cornish and Fisher (Abramowitz and Stegun, 26.7.5), and exact where that is poor.
func t95(freedom int) float64 {
	exact := [...]float64{0, 12.706205, 4.302653, 3.182446, 2.776445, 2.570582, 2.446912, 2.364624}
	if freedom < len(exact) {
		return exact[freedom]
	}
	const z = 1.959963984540054
	n := float64(freedom)
	z3, z5, z7 := z*z*z, z*z*z*z*z, z*z*z*z*z*z*z
	return z + (z3+z)/(4*n) + (5*z5+16*z3+3*z)/(96*n*n) + (3*z7+19*z5+17*z3-15*z)/(384*n*n*n)
}

// Share returns the probability of something that happened k times of n (Wilson,
// "Probable inference", JASA 1927), which holds also for none and all.
func Share(k, n int) Interval {
	if n == 0 {
		return Interval{math.NaN(), 0, 1}
	}
	const z = 1.959963984540054
	p, m := float64(k)/float64(n), float64(n)
	centre := (p + z*z/(2*m)) / (1 + z*z/m)
	half := z / (1 + z*z/m) * math.Sqrt(p*(1-p)/m+z*z/(4*m*m))
	return Interval{p, max(centre-half, 0), min(centre+half, 1)}
}

// Verdict says which of two is better.
type Verdict uint8

// The verdicts.
const (
	Unresolved Verdict = iota // the interval of the difference holds zero
	Better
	Worse
)

// String returns "unresolved", "better" or "worse".
func (v Verdict) String() string { return [...]string{"unresolved", "better", "worse"}[v] }

// Paired compares two things with the same random numbers: b[i] and a[i] are of one seed.
// It returns the mean of the differences b − a and whether b is better, where more is
// better or less is. Differences below worth count as none whatever they prove.
func Paired(a, b []float64, moreIsBetter bool, worth float64) (Interval, Verdict) {
	return paired(a, b, Mean, moreIsBetter, worth)
}

// PairedMedian is Paired by the median of the differences, for observations of which
// some are infinite by nature: what never came is farther off than what came late,
// and two that never came are alike.
func PairedMedian(a, b []float64, moreIsBetter bool, worth float64) (Interval, Verdict) {
	return paired(a, b, Median, moreIsBetter, worth)
}

func paired(a, b []float64, middle func([]float64) Interval, moreIsBetter bool, worth float64) (Interval, Verdict) {
	ds := make([]float64, min(len(a), len(b)))
	for i := range ds {
		if a[i] != b[i] { // the difference of two infinities is no number
			ds[i] = b[i] - a[i]
		}
	}
	d := middle(ds)
	switch {
	case len(ds) < 2 || d.Contains(0) || math.Abs(d.Value) < worth:
		return d, Unresolved
	case d.Value > 0 == moreIsBetter:
		return d, Better
	}
	return d, Worse
}

// Median returns the middle of observations, and an interval by order statistics
// (the binomial bounds, which assume nothing of the distribution).
func Median(xs []float64) Interval { return Quantile(xs, 0.5) }

// Quantile returns a quantile of observations and an interval by order statistics.
// Where there are too few for one, it is open on that side.
func Quantile(xs []float64, p float64) Interval {
	s := slices.Sorted(slices.Values(xs))
	n := len(s)
	if n == 0 {
		return Interval{math.NaN(), math.Inf(-1), math.Inf(1)}
	}
	i := Interval{s[min(int(p*float64(n)), n-1)], math.Inf(-1), math.Inf(1)}
	if low := binomialBelow(n, p, 0.025); low > 0 {
		i.Low = s[low-1]
	}
	if high := n - binomialBelow(n, 1-p, 0.025); high < n {
		i.High = s[high]
	}
	return i
}

// binomialBelow returns the largest k for which P(X < k) is at most alpha, X being
// binomial with n and p. Terms are reckoned as logarithms: of a thousand and more
// observations that of none is too small to be a number.
func binomialBelow(n int, p, alpha float64) int {
	if p <= 0 || p >= 1 {
		return 0
	}
	odds := math.Log(p / (1 - p))
	term := float64(n) * math.Log1p(-p) // of X = 0
	sum := 0.0
	for k := range n {
		if sum += math.Exp(term); sum > alpha {
			return k
		}
		term += math.Log(float64(n-k)/float64(k+1)) + odds
	}
	return n
}

// Modes says whether observations fall into two heaps, for which a mean stands for
// nothing.
type Modes struct {
	Two         bool
	Low, High   float64 // the means of the heaps
	ShareOfHigh float64
}

// Heaps looks for two heaps: the cut that leaves the least variance inside of both
// (Otsu, 1979), believed when what is left is less than a tenth of all, when both
// have at least a twentieth of the observations, and when they are apart by worth.
func Heaps(xs []float64, worth float64) Modes {
	s := slices.Sorted(slices.Values(xs))
	n := len(s)
	if n < 8 {
		return Modes{}
	}
	mean, sd := moments(s)
	all := float64(sd*sd) * float64(n-1)
	best, cut := math.Inf(1), 0
	sum, squares, total, totalSquares := 0.0, 0.0, 0.0, 0.0
	for _, x := range s {
		total += x - mean
		totalSquares += float64((x - mean) * (x - mean))
	}
	for i := 1; i < n; i++ {
		x := s[i-1] - mean
		sum, squares = sum+x, squares+float64(x*x)
		left := squares - sum*sum/float64(i)
		right := (totalSquares - squares) - (total-sum)*(total-sum)/float64(n-i)
		if left+right < best {
			best, cut = left+right, i
		}
	}
	low, _ := moments(s[:cut])
	high, _ := moments(s[cut:])
	few := max(2, n/20)
	return Modes{
		Two: best < all/10 && cut >= few && n-cut >= few && high-low >= worth,
		Low: low, High: high, ShareOfHigh: float64(n-cut) / float64(n),
	}
}
