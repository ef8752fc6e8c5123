package sim

import (
	"math/bits"
	"time"
)

// Hist counts durations with an error below one percent, in buckets that grow with
// what they hold. The zero Hist is empty.
type Hist struct {
	buckets [][]uint32 // by power of two
	n       int64
	sum     float64
	max     time.Duration
}

// fine is into how many parts a power of two is divided: 64 make the widest part
// 1.6 % of its place, and its middle at most 0.8 % off.
const fine = 6

func place(d time.Duration) (power, part int) {
	x := uint64(max(d, 0)) + 1<<fine
	power = bits.Len64(x) - fine - 1
	return power, int(x>>power) & (1<<fine - 1)
}

// Add counts d.
func (h *Hist) Add(d time.Duration) {
	power, part := place(d)
	for len(h.buckets) <= power {
		h.buckets = append(h.buckets, nil)
	}
	if h.buckets[power] == nil {
		h.buckets[power] = make([]uint32, 1<<fine)
	}
	h.buckets[power][part]++
	h.n++
	h.sum += float64(d)
	h.max = max(h.max, d)
}

// N returns how many were counted.
func (h *Hist) N() int64 { return h.n }

// Mean returns their mean, exactly; 0 if there are none.
func (h *Hist) Mean() time.Duration {
	if h.n == 0 {
		return 0
	}
	return time.Duration(h.sum / float64(h.n))
}

// Max returns the longest.
func (h *Hist) Max() time.Duration { return h.max }

// Quantile returns a duration that a share of p of what was counted is not above.
func (h *Hist) Quantile(p float64) time.Duration {
	want := int64(float64(p * float64(h.n)))
	if want >= h.n {
		return h.max
	}
	for power, parts := range h.buckets {
		for part, n := range parts {
			if want -= int64(n); want < 0 {
				low := uint64(1<<fine+part) << power
				middle := time.Duration(low + uint64(1)<<power/2 - 1<<fine)
				return min(middle, h.max)
			}
		}
	}
	return h.max
}

// Merge adds what another counted.
func (h *Hist) Merge(o *Hist) {
	for power, parts := range o.buckets {
		for len(h.buckets) <= power {
			h.buckets = append(h.buckets, nil)
		}
		if parts == nil {
			continue
		}
		if h.buckets[power] == nil {
			h.buckets[power] = make([]uint32, 1<<fine)
		}
		for i, n := range parts {
			h.buckets[power][i] += n
		}
	}
	h.n += o.n
	h.sum += o.sum
	h.max = max(h.max, o.max)
}
