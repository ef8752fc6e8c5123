package why

import (
	"github.com/gabion-go/gabion/internal/breaker"
	"github.com/gabion-go/gabion/internal/terms"
	"github.com/gabion-go/gabion/policy"
)

// Setting is the path of the policy's setting that ruled, as files and
// config.File.Explain spell it: "retry.budget.ratio". It is empty where no setting did,
// such as an answer that is final, and what was done by hand. An event does not tell
// everything: see [SettingAfter].
func Setting(e policy.Event) string { return SettingAfter(e, policy.ClassUndecided) }

// SettingAfter is Setting for an event of a call whose last attempt ended in that class:
// conflicts with other calls have settings of their own.
func SettingAfter(e policy.Event, last policy.Class) string {
	conflict := last == policy.ClassContention
	switch e.Kind {
	case policy.KindAttemptSent:
		if e.Hedge {
			return "hedge.max"
		}
		return ofAttempt(e)
	case policy.KindWaiting:
		if conflict && e.Wait == terms.ForBackoff {
			return "retry.contention.backoff.base"
		}
		return ofWait[e.Wait]
	case policy.KindAttemptSettled, policy.KindLoserSettled, policy.KindBodyFailed:
		if e.Slow && e.Reason == policy.None {
			return "breaker.slow_call"
		}
		if e.Reason == policy.AttemptTimeout {
			return ofAttempt(e)
		}
		return ofReason[e.Reason]
	case policy.KindAttemptRefused, policy.KindHedgeSkipped, policy.KindReturned:
		if s, ok := ofConflict[e.Reason]; ok && conflict {
			return s
		}
		return ofReason[e.Reason]
	case policy.KindBreakerMoved, policy.KindBreakerExceeded:
		return ofCause[e.Cause]
	}
	return ofKind[e.Kind]
}

// ofAttempt is the setting of an attempt's time.
func ofAttempt(e policy.Event) string {
	switch {
	case e.Stretched:
		return "timeout.strict"
	case e.Measured:
		return "timeout.percentile"
	case e.Last:
		return "timeout.last"
	}
	return "timeout.attempt"
}

var ofWait = map[string]string{
	terms.ForBackoff: "retry.backoff.base",
	terms.ForSuccess: "retry.hold",
	terms.ForSlot:    "bulkhead.queue_timeout",
	terms.ForPace:    "pace.max",
	terms.ForRate:    "rate_limit.rate",
	terms.ForQuota:   "rate_limit.quotas",
}

var ofReason = map[policy.Reason]string{
	policy.NotSafe:           "safe",
	policy.AttemptsExhausted: "retry.attempts",
	policy.BudgetExhausted:   "retry.budget.ratio",
	policy.AllFailing:        "retry.hold",
	policy.DeadlineShort:     "timeout.call",
	policy.RetryAfterTooLong: "retry.max_after",
	policy.BodyNotRewindable: "http.replay_limit",
	policy.AttemptTimeout:    "timeout.attempt",
	policy.CallTimeout:       "timeout.call",
	policy.IdleTimeout:       "timeout.idle",
	policy.BodyTimeout:       "timeout.body",
	policy.BreakerOpen:       "breaker.open",
	policy.BulkheadFull:      "bulkhead.limit",
	policy.QueueTimeout:      "bulkhead.queue_timeout",
	policy.ThrottledLocally:  "throttle.k",
	policy.RateLimited:       "rate_limit.rate",
	policy.Paced:             "pace.max",
	policy.KeyMissing:        "key",
}

var ofConflict = map[policy.Reason]string{
	policy.AttemptsExhausted: "retry.contention.attempts",
	policy.BudgetExhausted:   "retry.contention.repeats",
}

var ofCause = map[policy.BreakerCause]string{
	breaker.FailureRate:  "breaker.failure_rate",
	breaker.SlowRate:     "breaker.slow_rate",
	breaker.Failures:     "breaker.failures",
	breaker.Consecutive:  "breaker.consecutive",
	breaker.ProbeFailed:  "breaker.probe_calls",
	breaker.ProbesPassed: "breaker.probe_calls",
	breaker.ProbeExpired: "breaker.probe_timeout",
	breaker.CooldownOver: "breaker.open",
	breaker.CallsRefused: "breaker.open_calls",
}

var ofKind = map[policy.Kind]string{
	policy.KindOutlived:   "timeout.attempt",
	policy.KindPaceSet:    "pace.max",
	policy.KindLimitMoved: "bulkhead.limit",
}
