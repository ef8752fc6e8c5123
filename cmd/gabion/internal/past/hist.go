package past

import (
	"math"
	"slices"
	"time"
)

// cells is a histogram: how many durations there are between two.
type cells []bucket

// histogram are the cells of what was counted under a name and a label. Native buckets are
// narrower, and go first.
func (s scrape) histogram(what, label string) cells {
	var fine, classic cells
	for k, n := range s {
		switch {
		case k.what != what || k.label != label || k.high == 0:
		case k.low < 0:
			classic = append(classic, bucket{0, k.high, n})
		default:
			fine = append(fine, bucket{k.low, k.high, n})
		}
	}
	byEnd := func(a, b bucket) int {
		if a.high < b.high {
			return -1
		}
		return 1
	}
	if len(fine) > 0 {
		slices.SortFunc(fine, byEnd)
		return fine
	}
	slices.SortFunc(classic, byEnd)
	for i := len(classic) - 1; i > 0; i-- { // from all that is shorter to what is between
		classic[i].low = classic[i-1].high
		classic[i].n = max(classic[i].n-classic[i-1].n, 0)
	}
	return classic
}

func (c cells) count() (n float64) {
	for _, b := range c {
		n += b.n
	}
	return n
}

// quantile is where a share of p lies, in the logarithm between the bounds of a cell.
func (c cells) quantile(p float64) time.Duration {
	want := p * c.count()
	for i, b := range c {
		if want -= b.n; want > 0 && i+1 < len(c) || b.n == 0 {
			continue
		}
		high := b.high
		if math.IsInf(high, 1) {
			high = 2 * b.low
		}
		along := min(max(1+want/b.n, 0), 1)
		if b.low <= 0 {
			return inSeconds(high * along)
		}
		return inSeconds(b.low * math.Pow(high/b.low, along))
	}
	return 0
}

func inSeconds(s float64) time.Duration { return time.Duration(min(s, 1e9) * float64(time.Second)) }
