// Package clock holds the one representation of time that every decision in
// gabion is made with.
//
// Below the front door no code reads a clock: time is an argument. An [Instant] counts nanoseconds
// from an origin that its maker chose, so instants of two makers must not be compared. Negative
// instants are ordinary: under testing/synctest the clock starts in the year 2000, and a simulator
// may start wherever it likes. The zero Instant is the origin; where a field has an optional
// Instant, zero means none.
package clock

import "github.com/gabion-go/gabion/policy"

// Instant is a moment in nanoseconds since an arbitrary origin.
type Instant = policy.Instant

// Never is later than every other Instant.
const Never = policy.Never
