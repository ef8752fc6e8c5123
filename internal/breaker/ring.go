package breaker

import "github.com/gabion-go/gabion/internal/window"

// A ring holds the last n outcomes, two bits each, and what they add up to.
type ring struct {
	bits []uint64 // 32 outcomes a word: failed, slow
	n    int
	next int // where the next outcome goes; the oldest once the ring is full
	sum  window.Counts
	seq  uint64 // number of the newest outcome; never goes back
}

// newRing returns an empty ring for n outcomes whose numbers follow that of the last.
func newRing(n int, last uint64) *ring {
	return &ring{bits: make([]uint64, (n+31)/32), n: n, seq: last}
}

// add counts an outcome, forgets the oldest when there is no more room, and returns
// the outcome's number.
func (r *ring) add(failed, slow bool) uint64 {
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
	r.seq++
	return r.seq
}

// fail turns the outcome of that number, a success, into a failure. It reports false
// when the ring has forgotten it.
func (r *ring) fail(seq uint64) bool {
	age := r.seq - seq // 0 is the newest
	if age >= uint64(r.sum.Calls) {
		return false
	}
	at := (r.next - 1 - int(age) + 2*r.n) % r.n
	r.bits[at/32] |= 1 << (at % 32 * 2)
	r.sum.Failures++
	return true
}

func (r *ring) clear() { r.next, r.sum = 0, window.Counts{} }

func one(b bool) uint32 {
	if b {
		return 1
	}
	return 0
}
