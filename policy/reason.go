package policy

// Reason says why a call ended, or an attempt was not made. The set is small and
// closed, and its texts are the same everywhere: in logs, in recordings, as anchors in
// docs/reasons.md. A Reason is an error, as syscall.Errno is, so that the
// constants are the sentinels: errors.Is(err, policy.BreakerOpen).
type Reason uint8

// Why a call ends.
const (
	None              Reason = iota
	NotRetryable             // the failure is permanent
	UnclassifiedError        // no classifier says whether the failure is transient
	NotSafe                  // transient, but repeating it may do it twice
	AttemptsExhausted        // every attempt that the policy allows failed
	BudgetExhausted          // the retry budget is spent
	AllFailing               // nothing has succeeded yet, and other calls fail too
	DeadlineShort            // what is left of the deadline is too short for another attempt
	RetryAfterTooLong        // the dependency asked for more time than the policy or the deadline has
	DoNotRetry               // the dependency, or a layer below, said not to retry
	RetriesOff               // retries are switched off
	BodyNotRewindable        // the request body can't be sent again
	AttemptTimeout           // the attempt ran into its own timeout
	CallTimeout              // the call ran into its deadline
	IdleTimeout              // the result, such as a response body, brought nothing for too long
	BodyTimeout              // the result took longer than it may
	Canceled                 // the caller gave up
	BreakerOpen              // refused: the breaker is open
	BulkheadFull             // refused: all slots and the queue are taken
	QueueTimeout             // refused: no slot came free in time
	ThrottledLocally         // refused: adaptive throttling
	RateLimited              // refused: the client-side rate limit
	Paced                    // refused: the dependency asked for time
	PoolExhausted            // refused: no connection of the client's own pool came free in time
	WorkCrashed              // the work panicked or called runtime.Goexit
	KeyMissing               // refused: the policy requires an idempotency key
	OutcomeUnknown           // refused: the key may be forgotten, and what an earlier run did is not known
	UnknownDependency        // no dependency has that name
	Invalid                  // the call itself is malformed, such as a nil function
	numReasons
)

var reasonText = [numReasons]string{
	None:              "ok",
	NotRetryable:      "not_retryable",
	UnclassifiedError: "unclassified",
	NotSafe:           "not_safe",
	AttemptsExhausted: "attempts_exhausted",
	BudgetExhausted:   "budget_exhausted",
	AllFailing:        "all_failing",
	DeadlineShort:     "deadline_short",
	RetryAfterTooLong: "retry_after_too_long",
	DoNotRetry:        "do_not_retry",
	RetriesOff:        "retries_off",
	BodyNotRewindable: "body_not_rewindable",
	AttemptTimeout:    "attempt_timeout",
	CallTimeout:       "call_timeout",
	IdleTimeout:       "idle_timeout",
	BodyTimeout:       "body_timeout",
	Canceled:          "canceled",
	BreakerOpen:       "breaker_open",
	BulkheadFull:      "bulkhead_full",
	QueueTimeout:      "queue_timeout",
	ThrottledLocally:  "throttled_locally",
	RateLimited:       "rate_limited",
	Paced:             "paced",
	PoolExhausted:     "pool_exhausted",
	WorkCrashed:       "work_crashed",
	KeyMissing:        "key_missing",
	OutcomeUnknown:    "outcome_unknown",
	UnknownDependency: "unknown_dependency",
	Invalid:           "invalid",
}

// String returns the text that logs and docs use.
func (r Reason) String() string {
	if r < numReasons {
		return reasonText[r]
	}
	return "reason(unknown)"
}

// Error makes each Reason its own sentinel.
func (r Reason) Error() string { return r.String() }

// Local reports whether gabion refused without asking the dependency.
func (r Reason) Local() bool {
	switch r {
	case BreakerOpen, BulkheadFull, QueueTimeout, ThrottledLocally, RateLimited, Paced, PoolExhausted, KeyMissing, OutcomeUnknown, UnknownDependency, Invalid:
		return true
	}
	return false
}

// Unavailable reports whether the call ended because the dependency could not be had:
// its attempts failed in a way that may pass, and gabion gave up, for whichever reason,
// or none was made because it was known to fail, or had no room. It is false of an
// answer, such as a permanent failure, of a mistake in the call or in the program, and
// of a caller who left.
func (r Reason) Unavailable() bool {
	switch r {
	case NotSafe, AttemptsExhausted, BudgetExhausted, AllFailing, DeadlineShort, RetryAfterTooLong, DoNotRetry,
		RetriesOff, BodyNotRewindable, AttemptTimeout, CallTimeout, IdleTimeout, BodyTimeout,
		BreakerOpen, BulkheadFull, QueueTimeout, ThrottledLocally, RateLimited, Paced, PoolExhausted:
		return true
	}
	return false
}

// Reasons returns every Reason, for those who must know them all.
func Reasons() []Reason {
	all := make([]Reason, numReasons)
	for i := range all {
		all[i] = Reason(i)
	}
	return all
}
