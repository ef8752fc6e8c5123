package policy

import (
	"math"
	"time"
)

// Instant is a moment in nanoseconds since an origin that its maker chose, so
// instants of two makers must not be compared. Negative ones are ordinary. The zero
// Instant is the origin and means nothing special.
type Instant int64

// Never is later than every other Instant. Adding to it or subtracting from it
// leaves it Never.
const Never Instant = math.MaxInt64

// Add returns the moment d later. The result saturates instead of wrapping, so a
// huge open time means "practically for ever" and not "long ago".
func (t Instant) Add(d time.Duration) Instant {
	if t == Never {
		return Never
	}
	sum := t + Instant(d)
	switch {
	case d > 0 && sum < t:
		return Never
	case d < 0 && sum > t:
		return math.MinInt64
	}
	return sum
}

// Sub returns how much later t is than u, saturating at the ends of
// [time.Duration].
func (t Instant) Sub(u Instant) time.Duration {
	d := t - u
	switch {
	case t >= u && d < 0:
		return math.MaxInt64
	case t < u && d > 0:
		return math.MinInt64
	}
	return time.Duration(d)
}
