package foreign

import (
	"time"

	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/policy"
)

// Undivided is a policy without a timeout for one attempt: the call's bounds all.
func Undivided(p policy.Policy) policy.Policy {
	p.Timeout.Attempt, p.Timeout.Last = policy.Off, policy.Off
	return p
}

// Bare is a call with p's timeouts and nothing else. Retry-After is waited for when it
// fits the call, however long it is.
func Bare(p policy.Policy, tries int, b backoff.Backoff) policy.Policy {
	attempt := p.Timeout.Attempt // for the last attempt, too: none of them tells it from others
	return policy.Policy{
		Trust: p.Trust, Safe: p.Safe,
		Timeout:  policy.Timeout{Call: p.Timeout.Call, Attempt: attempt, Last: attempt, Strict: true, Margin: policy.Off},
		Retry:    policy.Retry{Attempts: tries, Backoff: b, MaxAfter: 24 * time.Hour, Budget: policy.Budget{Off: true}},
		Pace:     policy.Pace{Off: true},
		Breaker:  policy.Breaker{Off: true},
		Bulkhead: policy.Bulkhead{Off: true},

		Partitions: policy.Partitions{Max: policy.Off},
	}
}

// Steady is a breaker that opens for the same time every time, and by no rule but
// those that are added to it.
func Steady(open time.Duration) policy.Breaker {
	return policy.Breaker{
		Window: 10 * time.Second, FailureRate: policy.Off, SlowCall: policy.Off,
		Failures: policy.Off, Consecutive: policy.Off,
		Open: open, OpenMax: open, OpenGrowth: 1, OpenJitter: policy.Off,
		Probes: 1, ProbeCalls: 1, ReopenAfter: 1,
	}
}
