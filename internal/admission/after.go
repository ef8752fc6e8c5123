package admission

import "time"

// RetryAfter is how many seconds a refused request is asked to wait: from the least time,
// rounded up to whole seconds, to twice that. u is a random number from 0 to less than 1:
// those who were refused together must not come back together. It is at least 1.
func RetryAfter(least time.Duration, u float64) int64 {
	n := int64(max(least-1, 0)/time.Second) + 1
	return n + int64(u*float64(n+1))
}
