package breaker

import "github.com/gabion-go/gabion/window"

// A ring holds the last n outcomes, two bits each, and what they add up to.
type ring struct {
	bits []uint64 // 32 outcomes a word: failed, slow
	n    int
	next int // where the next outcome goes; the oldest once the ring is full
	sum  window.Counts
}

func newRing(n int) *ring { return &ring{bits: make([]uint64, (n+31)/32), n: n} }

// add counts an outcome, and forgets the oldest when there is no more room.
func (r *ring) add(failed, slow bool) {
	word, shift := &r.bits[r.next/32], r.next%32*2
	if r.sum.Calls == int64(r.n) {
		old := *word >> shift
		r.sum.Calls--
		r.sum.Failures -= int64(old & 1)
		r.sum.Slow -= int64(old >> 1 & 1)
	}
	bits := one(failed) | one(slow)<<1
	*word = *word&^(3<<shift) | uint64(bits)<<shift
	r.sum.Calls++
	r.sum.Failures += int64(bits & 1)
	r.sum.Slow += int64(bits >> 1)
	if r.next++; r.next == r.n {
		r.next = 0
	}
}

func (r *ring) clear() { r.next, r.sum = 0, window.Counts{} }

func one(b bool) uint32 {
	if b {
		return 1
	}
	return 0
}
