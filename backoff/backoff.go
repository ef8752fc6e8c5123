// Package backoff computes how long to wait before a retry.
//
// A wait is a pure function of the number of the retry, the wait before it, and a random
// number in [0, 1). So a schedule can be replayed, simulated and plotted. Nothing here
// sleeps. All formulas use integers: no number of retries, base or cap makes a wait
// negative, infinite or longer than its cap.
package backoff

import (
	"math"
	"math/bits"
	"time"
)

// Backoff says how waits grow. It is plain data and safe to copy and share.
//
// The values are taken as they stand; defaults are the policy's business. A
// negative Base counts as 0. A Cap of 0 or less is no cap: waits then grow until
// they reach the longest [time.Duration] and stay there. The zero Backoff never
// waits.
type Backoff struct {
	Kind Kind
	Base time.Duration
	Cap  time.Duration
}

// Full returns full jitter: U(0, min(cap, base·2^n)). It spreads a fleet best.
// Source: Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog 2015.
func Full(base, cap time.Duration) Backoff { return Backoff{FullJitter, base, cap} }

// Equal returns equal jitter: with w = min(cap, base·2^n), half of w and
// U(0, the other half). It never waits almost nothing, as [Full] may. Source:
// Brooker 2015.
func Equal(base, cap time.Duration) Backoff { return Backoff{EqualJitter, base, cap} }

// Exp returns min(cap, base·2^n) without jitter: clients that failed together
// return together.
func Exp(base, cap time.Duration) Backoff { return Backoff{Exponential, base, cap} }

// Const returns the same wait before every retry, without jitter. Const(0) is no wait
// at all: its Base is -1, since in a policy a Base of zero means the default.
func Const(wait time.Duration) Backoff {
	if wait == 0 {
		wait = -1
	}
	return Backoff{Constant, wait, max(wait, 0)}
}

// Jittered reports whether the waits are drawn, so that the clients of a fleet
// which failed together do not return together.
func (b Backoff) Jittered() bool { return b.Kind < Exponential || b.Kind >= numKinds }

// Delay returns the wait before retry n, counted from 0, which is the second
// attempt. prev is the wait before the last retry, 0 when this is the first;
// only decorrelated jitter looks at it. u is a draw in [0, 1).
//
// The wait lies in [0, Cap] whatever the arguments. A negative n counts as 0. A
// u below 0 counts as 0; one of 1 or more, or NaN, counts as the largest draw,
// because a source of chance that broke must not take the waits away.
func (b Backoff) Delay(n int, prev time.Duration, u float64) time.Duration {
	base, limit := max(b.Base, 0), b.limit()
	switch b.Kind {
	case Constant:
		return min(limit, base)
	case Linear:
		return min(limit, linear(base, n))
	case Exponential:
		return min(limit, doubled(base, n))
	case DecorrelatedJitter:
		prev = max(prev, base)
		return min(limit, base+part(tripled(prev)-base, u))
	case EqualJitter:
		most := min(limit, doubled(base, n))
		return most/2 + part(most-most/2, u)
	}
	return part(min(limit, doubled(base, n)), u)
}

// limit returns the longest wait.
func (b Backoff) limit() time.Duration {
	if b.Cap <= 0 {
		return math.MaxInt64
	}
	return b.Cap
}

// doubled returns d·2^n, saturating.
func doubled(d time.Duration, n int) time.Duration {
	n = max(n, 0)
	if d == 0 {
		return 0
	}
	// A shift by as many places as there are leading zeros reaches the sign bit.
	if n >= bits.LeadingZeros64(uint64(d)) {
		return math.MaxInt64
	}
	return d << n
}

// linear returns d·(n+1), saturating.
func linear(d time.Duration, n int) time.Duration {
	return saturated(bits.Mul64(uint64(d), uint64(max(n, 0))+1))
}

// tripled returns 3·d, saturating.
func tripled(d time.Duration) time.Duration {
	return saturated(bits.Mul64(uint64(d), 3))
}

// saturated turns a product of 128 bits into a duration.
func saturated(high, low uint64) time.Duration {
	if high != 0 || low > math.MaxInt64 {
		return math.MaxInt64
	}
	return time.Duration(low)
}

// part returns floor(d·u), which is below d unless d is 0. A draw has 53 bits,
// so that a product of integers loses nothing; floats would round the longest
// waits up, past the end of an int64.
func part(d time.Duration, u float64) time.Duration {
	if d == 0 {
		return 0
	}
	const largest = 1<<53 - 1
	draw := uint64(largest) // also for NaN, which is neither below 1 nor above
	if u < 1 {
		draw = uint64(float64(max(u, 0) * (1 << 53)))
	}
	high, _ := bits.Mul64(uint64(d), draw<<11)
	return time.Duration(high)
}
