// Package clock holds the one representation of time that every decision in
// gabion is made with.
//
// Below the front door nobody reads a clock: time is an argument. An [Instant]
// counts nanoseconds from an origin that its maker chose, so instants of two
// makers must not be compared. Negative instants are ordinary: under
// testing/synctest the clock starts in the year 2000, and a simulator may start
// wherever it likes. The zero Instant is the origin and means nothing special.
package clock

import (
	"math"
	"time"
)

// Instant is a moment in nanoseconds since an arbitrary origin.
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

// Before reports whether t is earlier than u.
func (t Instant) Before(u Instant) bool { return t < u }
