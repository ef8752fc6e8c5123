package scenario

import (
	"math"
	"time"

	"github.com/gabion-go/gabion/lab/internal/sim"
)

// verdicts are what is seen in the bins of a run only.
type verdicts struct {
	recovery, retryTail, peak, tail float64
	stuck                           bool
}

// look finds out how a run recovers.
func (f *File) look(w *world, r *sim.Result) (v verdicts) {
	from, to := w.from, w.to
	ended := func(b *sim.Bin) int64 { return b.Good + b.Late + b.Bad }
	before := sums(r, w.Warmup, from)
	base, extra := 1.0, 0.0
	if n := ended(&before); n > 0 {
		base = float64(before.Good) / float64(n)
		extra = retries(&before)
	}
	if base < 0.5 { // it was down before: coming back to that is no recovery
		base, extra = 1, 0
	}
	last := int(w.Duration / r.Width)
	first := int((to + r.Width - 1) / r.Width)
	begin := to + (w.Duration-to)/4*3
	end := sums(r, begin, w.Duration)
	v.tail = math.NaN()
	if last-first >= 4 && end.Offered > 0 {
		v.tail = float64(end.Good) / float64(end.Offered)
		v.stuck = v.tail < 0.5
	}
	v.recovery, v.retryTail, v.peak = math.NaN(), math.NaN(), math.NaN()
	if from == to || first >= last {
		return v
	}
	v.recovery = f.until(w, r, first, last, func(b *sim.Bin) bool {
		n := ended(b)
		return n == 0 && b.Offered > 0 || n > 0 && float64(b.Good)/float64(n) < 0.99*base-noise(base*(1-base), n)
	})
	if !math.IsInf(v.recovery, 1) { // what ends may end well, and yet less of it than begins
		rest := sums(r, max(begin, to+time.Duration(v.recovery*1e9)), w.Duration)
		if float64(rest.Good) < float64(rest.Offered)*(0.99*base-noise(2, rest.Offered)) {
			v.recovery = math.Inf(1)
		}
	}
	v.retryTail = f.until(w, r, first, last, func(b *sim.Bin) bool {
		return retries(b) > 0.02+extra+noise(extra, b.ByTry[0])
	})
	v.peak = peak(r, &before, max(int((from-w.Warmup)/r.Width), 1), first, last)
	return v
}

// noise is how far the mean of n observations of that variance may be off, if
// nothing is wrong: four standard deviations. A share of nearly all or nothing is
// taken for one of a hundredth, for what was seen of it may be luck.
func noise(variance float64, n int64) float64 {
	return 4 * math.Sqrt(max(variance, 0.0099)/float64(max(n, 1)))
}

// until returns how many seconds after the trouble a bin was last wrong: none if
// none is, and for ever if the last one is.
func (f *File) until(w *world, r *sim.Result, first, last int, wrong func(b *sim.Bin) bool) float64 {
	for i := min(last, len(r.Bins)) - 1; i >= first; i-- {
		switch {
		case !wrong(&r.Bins[i]):
		case i == last-1:
			return math.Inf(1)
		default:
			return (time.Duration(i+1)*r.Width - w.to).Seconds()
		}
	}
	return 0
}

// retries is how many tries were later ones, for each first one. Hedges are none:
// they go on for as long as there is load.
func retries(b *sim.Bin) float64 {
	later := -b.Hedges
	for _, n := range b.ByTry[1:] {
		later += n
	}
	if b.ByTry[0] == 0 {
		return float64(max(min(later, 1), 0))
	}
	return float64(later) / float64(b.ByTry[0])
}

// peak is the busiest bin afterwards, to the usual one before.
func peak(r *sim.Result, before *sim.Bin, bins, first, last int) float64 {
	usual, most := total(before)/float64(bins), 0.0
	for i := first; i < min(last, len(r.Bins)); i++ {
		most = max(most, total(&r.Bins[i]))
	}
	if usual == 0 {
		return math.NaN()
	}
	return most / usual
}

func total(b *sim.Bin) float64 {
	n := int64(0)
	for _, k := range b.ByTry {
		n += k
	}
	return float64(n)
}

// sums adds the bins that lie within.
func sums(r *sim.Result, from, to time.Duration) (all sim.Bin) {
	for i := int((from + r.Width - 1) / r.Width); i < min(int(to/r.Width), len(r.Bins)); i++ {
		b := &r.Bins[i]
		all.Offered, all.Good, all.Late, all.Bad = all.Offered+b.Offered, all.Good+b.Good, all.Late+b.Late, all.Bad+b.Bad
		all.Hedges += b.Hedges
		for k, n := range b.ByTry {
			all.ByTry[k] += n
		}
	}
	return all
}
