// Package draw is where a simulation's randomness comes from.
//
// Every purpose of every part of the world has a [Stream] of its own, named by the
// seed and what it is for. So changing a policy does not shift the draws of others,
// and two policies can be compared with the same random numbers (common random numbers).
// All draws are the same on every machine.
package draw

import (
	"math"
	"math/bits"
	"time"
)

// Stream is a sequence of draws: SplitMix64 (Steele, Lea, Flood, "Fast splittable
// pseudorandom number generators", OOPSLA 2014). The zero Stream is a valid one;
// streams that must differ are made by [New].
type Stream struct{ state uint64 }

const golden = 0x9e3779b97f4a7c15

// New returns the stream with that name: what it is for, and of which part.
func New(seed uint64, what Purpose, part uint64) Stream {
	return Stream{mix(mix(seed+golden) + mix(uint64(what)*0xd1b54a32d192ed03+part))}
}

// Purpose says what a stream is for.
type Purpose uint64

func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}

// Bits returns 64 random bits.
func (s *Stream) Bits() uint64 {
	s.state += golden
	return mix(s.state)
}

// U returns a number in [0, 1).
func (s *Stream) U() float64 { return float64(s.Bits()>>11) / (1 << 53) }

// Open returns a number in (0, 1): what logarithms can take.
func (s *Stream) Open() float64 { return (float64(s.Bits()>>12) + 0.5) / (1 << 52) }

// N returns a number below n, which must be positive (Lemire, "Fast random integer
// generation in an interval", 2019, without the rejection: the bias is below
// n/2^64).
func (s *Stream) N(n int) int {
	high, _ := bits.Mul64(s.Bits(), uint64(n))
	return int(high)
}

// Yes returns true with probability p.
func (s *Stream) Yes(p float64) bool { return p > 0 && s.U() < p }

// Exp returns an exponential draw with that mean.
func (s *Stream) Exp(mean time.Duration) time.Duration {
	return round(float64(-Ln(s.Open()) * float64(mean)))
}

// Normal returns a draw of the standard normal distribution (Marsaglia's polar
// method; its second draw is not kept, so that a stream is nothing but its state).
func (s *Stream) Normal() float64 {
	for {
		x, y := 2*s.U()-1, 2*s.U()-1
		r := float64(x*x) + float64(y*y)
		if r > 0 && r < 1 {
			return float64(x * math.Sqrt(float64(-2*Ln(r))/r))
		}
	}
}

// round returns a whole number of nanoseconds, at least none.
func round(ns float64) time.Duration {
	switch {
	case !(ns > 0):
		return 0
	case ns >= math.MaxInt64/4:
		return math.MaxInt64 / 4
	}
	return time.Duration(ns + 0.5)
}
