package gabion

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gabion-go/gabion/classify"
	"github.com/gabion-go/gabion/policy"
)

// Reason says why a call ended without success. Each is an error, so that
// errors.Is(err, gabion.BreakerOpen) asks for one. docs/reasons.md explains them.
type Reason = policy.Reason

// The reasons that callers ask for most; package policy has all of them.
const (
	NotRetryable      = policy.NotRetryable
	UnclassifiedError = policy.UnclassifiedError
	NotSafe           = policy.NotSafe
	AttemptsExhausted = policy.AttemptsExhausted
	BudgetExhausted   = policy.BudgetExhausted
	DeadlineShort     = policy.DeadlineShort
	RetryAfterTooLong = policy.RetryAfterTooLong
	DoNotRetry        = policy.DoNotRetry
	RetriesOff        = policy.RetriesOff
	BodyNotRewindable = policy.BodyNotRewindable
	AttemptTimeout    = policy.AttemptTimeout
	CallTimeout       = policy.CallTimeout
	Canceled          = policy.Canceled
	BreakerOpen       = policy.BreakerOpen
	BulkheadFull      = policy.BulkheadFull
	QueueTimeout      = policy.QueueTimeout
	ThrottledLocally  = policy.ThrottledLocally
	RateLimited       = policy.RateLimited
	Paced             = policy.Paced
	WorkCrashed       = policy.WorkCrashed
	KeyMissing        = policy.KeyMissing
	OutcomeUnknown    = policy.OutcomeUnknown
	UnknownDependency = policy.UnknownDependency
	Invalid           = policy.Invalid
)

// Effect answers: may it have happened?
type Effect = policy.Effect

// What may have happened.
const (
	NoEffect      = policy.NoEffect
	UnknownEffect = policy.UnknownEffect
)

// Error is how every call that did not succeed ends: who, why, and may it have
// happened. It unwraps to the last real error of the work, if there was one.
type Error struct {
	Dependency string        // who was called
	Reason     Reason        // why the call ended
	Effect     Effect        // may it have happened?
	Attempts   int           // how many attempts were sent
	RetryAfter time.Duration // when to come back, from now; zero means not known
	Cause      string        // BreakerOpen: the cause of it, as breaker.Cause says it; empty where it is not known
	Numbers    *Numbers      // what the reason is about; nil where it has no numbers
	Err        error         // the last real error, or what is wrong with the call itself; nil if the result was the failure, and for most refusals
}

// Numbers are what a reason is about, as they were when the call ended.
type Numbers = policy.Numbers

// Error reads "payments: attempts_exhausted after 3 attempts, may have happened: connection refused".
// The numbers of a reason stand behind it, "db: queue_timeout (limit 10, 4 queued, waited 1s), nothing sent".
// Printed with %+v, an error also says what to do and where to read more.
func (e *Error) Error() string {
	b := e.head()
	if e.Err != nil {
		b.WriteString(": " + e.Err.Error())
	}
	return b.String()
}

// head is the error's text without the last real error's.
func (e *Error) head() *strings.Builder {
	b := new(strings.Builder)
	fmt.Fprintf(b, "%s: %s", e.Dependency, e.Reason)
	if about := e.about(); about != "" {
		b.WriteString(" (" + about + ")")
	}
	switch {
	case e.Attempts == 1:
		b.WriteString(" after 1 attempt")
	case e.Attempts > 1:
		fmt.Fprintf(b, " after %d attempts", e.Attempts)
	case e.Reason != UnknownDependency && e.Reason != Invalid:
		b.WriteString(", nothing sent")
	}
	if e.Effect == UnknownEffect {
		b.WriteString(", may have happened")
	}
	if e.RetryAfter > 0 {
		fmt.Fprintf(b, ", retry after %s", e.RetryAfter.Round(time.Millisecond))
	}
	return b
}

// Unwrap returns the last real error.
func (e *Error) Unwrap() error { return e.Err }

// Is makes the reason, and the context error that it stands for, visible to
// errors.Is.
func (e *Error) Is(target error) bool {
	switch target {
	case error(e.Reason):
		return true
	case context.DeadlineExceeded:
		return e.Timeout() || errors.Is(e.Err, AttemptTimeout) || errors.Is(e.Err, CallTimeout) // net/http tells the cause only
	case context.Canceled:
		return e.Reason == Canceled
	}
	return false
}

// Timeout reports whether a deadline ended the call, as net.Error does.
func (e *Error) Timeout() bool { return e.Reason == CallTimeout || e.Reason == AttemptTimeout }

// Outcome is what this error means to a call around the one that it ended.
// Retrying is done in one layer, so it carries the mark that stops retries in
// every layer above.
func (e *Error) Outcome() policy.Outcome {
	o := policy.Outcome{Class: policy.ServerError}
	switch {
	case e.Reason == Canceled:
		o.Class = policy.Ignored
	case e.Reason == KeyMissing || e.Reason == UnknownDependency || e.Reason == Invalid:
		o.Class = policy.ClientError
	case e.Attempts == 0 && (e.Reason.Local() || e.Reason == DeadlineShort):
		o.Class = policy.Rejected
	case e.Timeout():
		o.Class = policy.TimedOut
	case e.Err != nil:
		o = classify.Error(e.Err)
	}
	o.Effect, o.Stop, o.NeverSent, o.Undone = e.Effect, true, false, false
	if e.RetryAfter > 0 {
		o.HasAfter, o.After = true, e.RetryAfter
	}
	return o
}

// ReasonOf returns why err ended a call, or policy.None if no call of gabion's
// ended with it.
func ReasonOf(err error) Reason {
	if e, ok := asError(err); ok {
		return e.Reason
	}
	return policy.None
}

// EffectOf answers whether what err reports may have happened all the same. An
// error that is not gabion's may hide anything.
func EffectOf(err error) Effect {
	if err == nil {
		return NoEffect
	}
	if e, ok := asError(err); ok {
		return e.Effect
	}
	return UnknownEffect
}

// asError finds the outermost *Error in err.
func asError(err error) (*Error, bool) {
	return errors.AsType[*Error](err)
}
