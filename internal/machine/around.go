package machine

import (
	"time"

	"github.com/gabion-go/gabion/policy"
)

// Around is what the end of a call means to a call around it, as that of a message whose
// work made the call. Retrying is done in one layer, so it carries the mark that stops
// retries in every layer above. Inner is what the last error of the call means by itself;
// nil means that it had none.
func Around(v *End, inner func() policy.Outcome) policy.Outcome {
	o := policy.Outcome{Class: policy.ClassServer}
	switch {
	case v.Reason == policy.Canceled:
		o.Class = policy.ClassIgnored
	case v.Reason == policy.KeyMissing || v.Reason == policy.UnknownDependency || v.Reason == policy.Invalid:
		o.Class = policy.ClassClient
	case v.Attempts == 0 && (v.Reason.Local() || v.Reason == policy.DeadlineShort):
		o.Class = policy.ClassRejected
	case v.Reason == policy.PoolExhausted:
		o.Class = policy.ClassRejected
	case Late(v.Reason):
		o.Class = policy.ClassTimeout
	case inner != nil:
		o = inner()
	}
	o.Effect, o.Stop, o.NeverSent, o.Undone = v.Effect, true, false, false
	if v.RetryAfter > 0 {
		o.HasAfter, o.After = true, v.RetryAfter
	}
	return o
}

// Late reports whether a deadline ended a call that ended for that reason.
func Late(why policy.Reason) bool {
	switch why {
	case policy.CallTimeout, policy.AttemptTimeout, policy.IdleTimeout, policy.BodyTimeout:
		return true
	}
	return false
}

// Refused reports whether a call that ended for that reason, and never asked its dependency,
// was refused for what has nothing to do with the message whose work made it. That too
// little time was left has, and an outcome that nobody knows stays so.
func Refused(why policy.Reason) bool {
	switch why {
	case policy.BreakerOpen, policy.BulkheadFull, policy.QueueTimeout, policy.ThrottledLocally, policy.RateLimited, policy.Paced, policy.PoolExhausted:
		return true
	}
	return false
}

// AskAgain is how long a message waits that somebody else works on, by what is left of
// their lease: work is mostly done long before that, and asking costs a delivery.
func AskAgain(left time.Duration) time.Duration { return min(max(left, time.Second), 5*time.Second) }
