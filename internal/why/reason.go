package why

import "github.com/gabion-go/gabion/policy"

// reasons are the reasons in a few words.
var reasons = map[policy.Reason]string{
	policy.None:              "the call succeeded",
	policy.NotRetryable:      "the failure is permanent",
	policy.UnclassifiedError: "the error is not classified, so it may be permanent",
	policy.NotSafe:           "a repetition might do the work twice",
	policy.AttemptsExhausted: "every attempt that the policy allows failed",
	policy.BudgetExhausted:   "the retry budget is spent",
	policy.AllFailing:        "nothing has succeeded yet, and other calls fail too",
	policy.DeadlineShort:     "too little time is left for another attempt",
	policy.RetryAfterTooLong: "the dependency asked for more time than there is",
	policy.DoNotRetry:        "the dependency, or a layer below, said not to retry",
	policy.RetriesOff:        "retries are switched off",
	policy.BodyNotRewindable: "the request's body can't be sent again",
	policy.AttemptTimeout:    "the attempt ran into its timeout",
	policy.CallTimeout:       "the call ran into its deadline",
	policy.IdleTimeout:       "the result, such as a body, brought nothing for too long",
	policy.BodyTimeout:       "the result, such as a body, took longer than it may",
	policy.Canceled:          "the caller gave up",
	policy.BreakerOpen:       "refused: the breaker is open",
	policy.BulkheadFull:      "refused: all slots and the queue are taken",
	policy.QueueTimeout:      "refused: no slot became free in time",
	policy.ThrottledLocally:  "refused: more is sent than the dependency accepts",
	policy.RateLimited:       "refused: the rate limit of this client",
	policy.Paced:             "refused: the dependency asked for time",
	policy.PoolExhausted:     "refused: the client's pool had no free connection in time",
	policy.WorkCrashed:       "the work panicked or ended its goroutine",
	policy.KeyMissing:        "refused: the policy wants an idempotency key",
	policy.OutcomeUnknown:    "refused: the key may be forgotten, and what an earlier run did is not known",
	policy.UnknownDependency: "no dependency of that name",
	policy.Invalid:           "the call itself is wrong",
}

// Reason says in a few words what a reason means, or "" of one that does not exist.
func Reason(r policy.Reason) string { return reasons[r] }
