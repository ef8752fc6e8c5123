package formulas

import (
	"math"
	"slices"
	"time"
)

// Bounds are the upper bounds by which every source counts how long attempts took: those of
// contrib/gabionprom's classic buckets, since its text has no others. So the same attempts are
// the same counts, whichever source tells them.
var Bounds = [...]time.Duration{
	100 * time.Microsecond, 250 * time.Microsecond, 500 * time.Microsecond,
	time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond, 10 * time.Millisecond, 25 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond, time.Second, 2500 * time.Millisecond, 5 * time.Second,
	10 * time.Second, 30 * time.Second,
}

// Counts are of how long attempts took that succeeded: as many within each of Bounds, and not
// within the one before. The last counts those above all bounds. The zero Counts are of none.
type Counts [len(Bounds) + 1]int64

// Add counts attempts that took so long.
func (t *Counts) Add(d time.Duration, n int64) {
	i, _ := slices.BinarySearch(Bounds[:], d)
	t.Put(i, n)
}

// most is what no program can count.
const most = 1 << 50

// Put counts attempts within a bound.
func (t *Counts) Put(i int, n int64) {
	t[i] = min(t[i]+min(max(n, 0), most), most)
}

// Count is how many are counted.
func (t *Counts) Count() (n int64) {
	for _, c := range t {
		n += c
	}
	return n
}

// Unbounded stands for a bound that is not known: above all of Bounds, or beyond the attempts
// whose time is known.
const Unbounded = time.Duration(math.MaxInt64)

// Between returns times that are below and above the quantile of all attempts with a
// confidence of 95 %, whatever their distribution is. Attempts that ended before their
// answer count as longer than all whose time is known. high is Unbounded where so few
// attempts have no bound for that quantile, or where it may be among those that ended before;
// low is Unbounded where it is sure to be.
//
// The ranks are those of a distribution-free interval of order statistics: the number of
// attempts above the quantile is binomial. H. A. David, H. N. Nagaraja, Order Statistics,
// 3rd ed., Wiley 2003, section 7.1.
func (t *Counts) Between(q float64, ended int64) (low, high time.Duration) {
	n := t.Count() + min(max(ended, 0), most)
	upper, least := above(n, 1-q)
	low, high = 0, Unbounded
	if upper < n {
		low, _ = t.bucket(n - upper)
	}
	if least >= 0 {
		_, high = t.bucket(n - least)
	}
	return low, high
}

// Longest is a bound of the longest attempt whose time is known.
func (t *Counts) Longest() time.Duration {
	_, high := t.bucket(t.Count())
	return high
}

// Quantile estimates a quantile, as histogram_quantile of Prometheus does: a bucket's attempts
// are spread evenly over it. It is 0 without attempts, and the last bound above all.
func (t *Counts) Quantile(q float64) time.Duration {
	left := q * float64(t.Count())
	low := time.Duration(0)
	for i, high := range Bounds {
		if n := float64(t[i]); n > 0 && left <= n {
			return low + time.Duration(float64(high-low)*left/n)
		}
		left, low = left-float64(t[i]), high
	}
	if t.Count() == 0 {
		return 0
	}
	return low
}

// bucket returns the bounds of what holds the attempt of a rank, from 1 on; Unbounded both
// beyond those that are counted.
func (t *Counts) bucket(rank int64) (low, high time.Duration) {
	for i, n := range t {
		if high = Unbounded; i < len(Bounds) {
			high = Bounds[i]
		}
		if rank -= n; rank <= 0 {
			return low, high
		}
		low = high
	}
	return Unbounded, Unbounded
}

// doubt is what each end of an interval of 95 % leaves out.
const doubt = 0.025

// above returns of n attempts, each of which is above a quantile with a chance, how many are
// above it at most and at least, with a confidence of 95 %. At least -1 means that not even the
// longest is sure to be above the quantile.
func above(n int64, chance float64) (most, least int64) {
	const many = 10_000_000
	if n > many { // a share of fewer is no narrower
		most, least = above(many, chance)
		return int64(float64(most) / many * float64(n)), int64(float64(least) / many * float64(n))
	}
	mean, all := float64(n)*chance, float64(n)
	from := max(0, math.Floor(mean-12*math.Sqrt(mean)-12))
	sum, k, least := 0.0, from, int64(from)-1
	for most = n; k <= all; k++ {
		sum += math.Exp(choose(all, k) + k*math.Log(chance) + (all-k)*math.Log1p(-chance))
		if sum <= doubt {
			least = int64(k)
		}
		if sum >= 1-doubt {
			return int64(k), least
		}
	}
	return most, least
}

// choose is the logarithm of the binomial coefficient.
func choose(n, k float64) float64 {
	a, _ := math.Lgamma(n + 1)
	b, _ := math.Lgamma(k + 1)
	c, _ := math.Lgamma(n - k + 1)
	return a - b - c
}
