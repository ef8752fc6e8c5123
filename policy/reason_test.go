package policy

import (
	"slices"
	"testing"
)

// Every reason is judged: a new one has to be named here.
func TestWhichReasonsMeanThatADependencyCanNotBeHad(t *testing.T) {
	not := []Reason{
		None, NotRetryable, UnclassifiedError, Canceled, WorkCrashed, KeyMissing, OutcomeUnknown, UnknownDependency, Invalid,
	}
	yes := []Reason{
		NotSafe, AttemptsExhausted, BudgetExhausted, AllFailing, DeadlineShort, RetryAfterTooLong, DoNotRetry, RetriesOff,
		BodyNotRewindable, AttemptTimeout, CallTimeout, IdleTimeout, BodyTimeout,
		BreakerOpen, BulkheadFull, QueueTimeout, ThrottledLocally, RateLimited, Paced, PoolExhausted,
	}
	for _, r := range Reasons() {
		if slices.Contains(not, r) == slices.Contains(yes, r) {
			t.Errorf("%v is in both lists, or in none", r)
		}
		if r.Unavailable() != slices.Contains(yes, r) {
			t.Errorf("%v: %v", r, r.Unavailable())
		}
	}
}
