package draw

import "sort"

// Zipf says which of n things is asked for: the k-th has a share of draws in proportion to
// 1/k^s. It is not changed once it is made, and safe for concurrent use.
type Zipf struct{ upTo []float64 } // the share of draws that are at most that thing

// NewZipf returns n things, at least one. With an s of 0 all are asked for equally often.
func NewZipf(n int, s float64) *Zipf {
	upTo := make([]float64, max(n, 1))
	sum := 0.0
	for k := range upTo {
		sum += Exp(float64(-s * Ln(float64(k+1))))
		upTo[k] = sum
	}
	for k := range upTo {
		upTo[k] /= sum
	}
	return &Zipf{upTo}
}

// Len returns how many things there are.
func (z *Zipf) Len() int { return len(z.upTo) }

// Draw returns the next draw of s: a thing, counted from 0.
func (z *Zipf) Draw(s *Stream) int {
	u := s.U()
	return min(sort.Search(len(z.upTo), func(k int) bool { return z.upTo[k] > u }), len(z.upTo)-1)
}
