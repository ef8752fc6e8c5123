package quota

import (
	"slices"
	"time"

	"github.com/gabion-go/gabion/policy"
)

// refill is the part of a bucket that is waited for where a request takes an unknown number of units.
const refill = 20

// Back is when some of a quota that is used up will be there again, as far as its server says.
func Back(q *policy.Remaining) (after time.Duration, said bool) {
	switch {
	case q.Left > 0 || q.Reset <= 0:
		return 0, false
	case !q.Full:
		return q.Reset, true
	case q.Unit == policy.Requests && q.Limit >= 1:
		return time.Duration(float64(q.Reset) / q.Limit), true
	}
	return q.Reset / refill, true
}

// Emptied is how long, from now on, an answer says that one of the server's quotas but those has nothing left.
func Emptied(told []policy.Remaining, but []policy.Quota) (longest time.Duration, empty bool) {
	for i := range told {
		q := &told[i]
		ours := slices.ContainsFunc(but, func(one policy.Quota) bool { return one.Unit == q.Unit })
		if d, ok := Back(q); ok && d > 0 && !ours {
			longest, empty = max(longest, d), true
		}
	}
	return longest, empty
}
