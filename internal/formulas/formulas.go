// Package formulas computes what a policy comes to: how long its waits are together, how
// many attempts fit into a call, how much its budget may add to the load. The linter shows
// these numbers, and tests compare them with the lab.
//
// All functions take a resolved policy, and bear any numbers: they neither overflow nor
// return what is not a number.
package formulas

import (
	"math"
	"time"

	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/policy"
)

// Draws of a wait, for those that have jitter.
const (
	Usual   = 0.5         // as long as it is on average
	Longest = 1 - 1.0/1e9 // as long as it can be
)

// maxHolds is how often a retry is held back at most (internal/machine/hold.go).
const maxHolds = 10

// many is more attempts than a policy may have: whatever is counted in a loop ends there.
const many = 1000

// forever stands for a time without an end.
const forever = time.Duration(math.MaxInt64)

// Waits is how long the first n waits are together, if each draw is the same.
func Waits(b backoff.Backoff, n int, draw float64) (sum time.Duration) {
	last := time.Duration(0)
	for i := range min(n, many) {
		last = b.Delay(i, last, draw)
		sum = plus(sum, last)
	}
	return whole(sum)
}

// whole rounds what a draw just below one lacks.
func whole(d time.Duration) time.Duration {
	if d == forever {
		return d
	}
	return d.Round(time.Microsecond)
}

func plus(a, b time.Duration) time.Duration {
	if a > forever-b {
		return forever
	}
	return a + b
}

// Times is n times d.
func Times(n int, d time.Duration) time.Duration {
	if n <= 0 || d <= 0 {
		return 0
	}
	if int64(n) > math.MaxInt64/int64(d) {
		return forever
	}
	return time.Duration(n) * d
}

// Full is how long all attempts and the longest waits between them take, if each attempt
// runs into its timeout.
func Full(p policy.Policy) time.Duration {
	n := p.Retry.Attempts
	return plus(Times(n, p.Timeout.Attempt), Waits(p.Retry.Backoff, n-1, Longest))
}

// Fit is how many attempts of a call are sure to have their time, if each runs into its
// timeout and each wait is the longest.
func Fit(p policy.Policy) (n int) {
	q := p
	for q.Retry.Attempts = 1; q.Retry.Attempts <= min(p.Retry.Attempts, many); q.Retry.Attempts++ {
		if Full(q) > p.Timeout.Call {
			break
		}
		n++
	}
	return n
}

// Begun is how many attempts of a call are begun, if each fails at once and waits are as
// drawn.
func Begun(p policy.Policy, draw float64) (n int) {
	for ; n < min(p.Retry.Attempts, many); n++ {
		if n > 0 && plus(Waits(p.Retry.Backoff, n, draw), max(p.Timeout.Margin, 0)) > p.Timeout.Call {
			break
		}
	}
	return n
}

// Worst is how long a call can take: its timeout or, without one, what its attempts and
// waits come to. It does not know of an end where attempts have none.
func Worst(p policy.Policy) time.Duration {
	switch {
	case p.Timeout.Call > 0:
		return p.Timeout.Call
	case p.Timeout.Attempt <= 0:
		return forever
	}
	return Full(p)
}

// Bounded reports whether a time has an end.
func Bounded(d time.Duration) bool { return d < forever }

// Sends is how many attempts and hedges a call can make at most, without those after
// conflicts.
func Sends(p policy.Policy) int { return max(p.Retry.Attempts, 1) + max(p.Hedge.Max, 0) }

// Bridge is how long after its first failure a call still begins an attempt: an outage
// that is longer is not survived. Attempts fail at once, and waits are as drawn. Among
// others, a retry is held back while they fail too, if the policy says so.
func Bridge(p policy.Policy, draw float64, amongOthers bool) time.Duration {
	n := p.Retry.Attempts - 1
	if n < 1 {
		return 0
	}
	if amongOthers && Holds(p) {
		n += maxHolds
	}
	longest := Waits(p.Retry.Backoff, n, draw)
	if p.Timeout.Call > 0 {
		longest = min(longest, max(p.Timeout.Call-max(p.Timeout.Margin, 0), 0))
	}
	return longest
}

// Holds reports whether retries are held back while other calls fail.
func Holds(p policy.Policy) bool {
	return p.Retry.Hold > 0 && !p.Breaker.Off && p.Retry.Backoff.Base > 0
}

// Extra is how many re-sends the budget allows for each call, at the share of failures
// where it is most, over a longer time. What each process may add at once is Burst.
func Extra(p policy.Policy) float64 {
	most := float64(Sends(p) - 1)
	b := p.Retry.Budget
	if b.Off {
		return most
	}
	ratio := float64(max(b.Ratio, 0))
	switch b.Shape {
	case policy.BudgetShare:
		ratio = ratio / max(1-ratio, 1e-9)
	case policy.BudgetTokens:
		ratio /= float64(max(b.Cost, 1))
	case policy.BudgetQuota:
		ratio = math.Sqrt(ratio / float64(max(cheapest(b), 1)))
	}
	return min(most, ratio)
}

func cheapest(b policy.Budget) int { return min(b.Cost, b.ThrottledCost, b.TimeoutCost) }

// Burst is how many re-sends one process may make at once, whatever it earned lately.
func Burst(b policy.Budget) float64 {
	if b.Off {
		return 0
	}
	switch b.Shape {
	case policy.BudgetEarned:
		return max(b.Start, b.Reserve, 0)
	case policy.BudgetWindow:
		return float64(max(b.Floor, 0)) * max(b.Window, 0).Seconds()
	case policy.BudgetTokens:
		return float64(max(b.Capacity, 0)) / float64(max(b.Cost, 1))
	case policy.BudgetQuota:
		return float64(max(b.Capacity, 0)) / float64(max(cheapest(b), 1))
	case policy.BudgetGRPC:
		return float64(max(b.Capacity, 0)) / 2
	}
	return float64(max(b.MinInFlight, 0))
}

// Slots is how many attempts are out at once on average, by Little's law: rate begin in a second,
// and each takes each.
func Slots(rate policy.PerSecond, each time.Duration) float64 {
	return float64(max(rate, 0)) * max(each, 0).Seconds()
}

// Amplification is how many attempts a call makes on average, if a share of them is cut off
// and repeated for as long as it takes.
func Amplification(cut float64) float64 {
	if cut >= 1 {
		return math.MaxInt32
	}
	return 1 / (1 - max(cut, 0))
}

// RowEvery is how often as many failures in a row come by chance, if a share of the
// attempts fails.
func RowEvery(rate policy.PerSecond, share float64, row int) time.Duration {
	perSecond := float64(rate) * (1 - share) * math.Pow(share, float64(row))
	if perSecond <= 0 || 1/perSecond > 1e9 {
		return forever
	}
	return time.Duration(float64(time.Second) / perSecond)
}

// Reach is how long it takes to get n outcomes at a rate of outcomes a second.
func Reach(n int, rate float64) time.Duration {
	if rate <= 0 || float64(n)/rate > 1e9 {
		return forever
	}
	return time.Duration(float64(n) / rate * float64(time.Second))
}
