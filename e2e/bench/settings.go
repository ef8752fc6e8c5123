package bench

import (
	"runtime"
	"time"

	"github.com/failsafe-go/failsafe-go"
	fsbreaker "github.com/failsafe-go/failsafe-go/circuitbreaker"
	"github.com/failsafe-go/failsafe-go/retrypolicy"
	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/policy"
	"github.com/sony/gobreaker/v2"
)

// The settings that every library gets, where it has such a setting. They are
// those under which the peers were first measured.
const (
	limit     = 5 * time.Second  // of a call
	attempts  = 4                // the first included; no wait between them
	window    = 10 * time.Second // of the breaker
	minCalls  = 100
	failRate  = 0.5
	openFor   = time.Hour // longer than any run
	slots     = 64        // of the bulkhead
	hedgeWait = time.Second
)

// Settings says the above in words.
const Settings = "Every library has the same settings, as far as it has such a setting: call timeout 5 s; 4 attempts without a wait; breaker " +
	"with a window of 10 s that opens at 50 % failures of at least 100 calls; bulkhead of 64; in the order timeout, retry, breaker, " +
	"bulkhead, work. The caller's context is `context.Background()`."

// noWait is the shortest backoff that a policy can say: full jitter below one
// nanosecond draws no nanosecond.
var noWait = backoff.Const(0)

// nothing is a policy with every part switched off, for contests of one part.
func nothing() policy.Policy {
	return policy.Policy{
		Safe:     true,
		Timeout:  policy.Timeout{Call: policy.Off, Attempt: policy.Off},
		Retry:    policy.Retry{Attempts: 1, Backoff: noWait, Budget: policy.Budget{Off: true}},
		Breaker:  policy.Breaker{Off: true},
		Bulkhead: policy.Bulkhead{Off: true},
	}
}

// whole is the policy of the full stack. The budget, the attempt timeout, the
// slow-call rate and the bulkhead's queue are on at their defaults.
func whole() policy.Policy {
	return policy.Policy{
		Safe:     true,
		Timeout:  policy.Timeout{Call: limit},
		Retry:    policy.Retry{Attempts: attempts, Backoff: noWait},
		Breaker:  guarded(),
		Bulkhead: policy.Bulkhead{Limit: slots},
	}
}

func guarded() policy.Breaker {
	return policy.Breaker{Window: window, MinCalls: minCalls, FailureRate: failRate, Open: openFor}
}

// Two failures before each success are more than a breaker at 50 % and a budget
// of 10 % put up with.
const sparedFailRate = 1

var sparedBudget = policy.Budget{Floor: 1e6}

// instant reads the clock as a Dependency does.
func instant(epoch time.Time) clock.Instant { return clock.Instant(time.Since(epoch)) }

// shards is over how many cache lines a Dependency spreads its counters.
func shards() int { return 4 * runtime.GOMAXPROCS(0) }

func gobreakerOf(rate float64, bucket time.Duration) *gobreaker.CircuitBreaker[int] {
	return gobreaker.NewCircuitBreaker[int](gobreaker.Settings{
		Interval: window, BucketPeriod: bucket, Timeout: openFor,
		ReadyToTrip: func(c gobreaker.Counts) bool {
			return c.Requests >= minCalls && float64(c.TotalFailures) >= rate*float64(c.Requests)
		},
	})
}

func failsafeBreaker(rate float64) fsbreaker.CircuitBreaker[int] {
	return fsbreaker.NewBuilder[int]().WithFailureRateThreshold(rate, minCalls, window).WithDelay(openFor).Build()
}

func failsafeRetry() failsafe.Policy[int] {
	return retrypolicy.NewBuilder[int]().WithMaxAttempts(attempts).Build()
}
