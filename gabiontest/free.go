package gabiontest

import "github.com/gabion-go/gabion/policy"

// FreeRetries returns p with retries that depend on nothing but the call: none is
// refused by a budget, and none waits, or is given up, because other calls fail. It is
// for tests that say what one call does, such as "fails twice, then succeeds": under the
// default budget a dependency has one re-send at first, and what successes earn decides
// about the rest. Attempts, waits and breaker stay as they are in p; copies share
// nothing.
func FreeRetries(p policy.Policy) policy.Policy {
	p = p.Clone()
	p.Retry.Budget = policy.Budget{Off: true}
	p.Retry.Contention.Repeats = policy.Off
	p.Retry.Hold = policy.Off
	return p
}
