package foreign

import "time"

// The least and the most that a policy takes of a time.
const (
	leastSpan = 100 * time.Microsecond
	mostSpan  = 365 * 24 * time.Hour
)

// Bounded brings a time that is meant to be one within what a policy takes.
func Bounded(d time.Duration) time.Duration { return min(max(d, leastSpan), mostSpan) }
