package gabion

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gabion-go/gabion/classify"
	"github.com/gabion-go/gabion/internal/machine"
	"github.com/gabion-go/gabion/policy"
)

// Reason says why a call ended without success. Each is an error, so that
// errors.Is(err, policy.BreakerOpen) asks for one. docs/reasons.md explains them.
type Reason = policy.Reason

// Error is how every call that did not succeed ends: who, why, and may it have
// happened. It unwraps to the last real error of the work, if there was one.
type Error struct {
	Dependency string          // who was called
	Reason     Reason          // why the call ended
	Effect     policy.Effect   // may it have happened?
	Endpoint   string          // where the last attempt went, or the only one that the call may go to; empty where there are no endpoints
	Attempts   int             // how many attempts were sent
	RetryAfter time.Duration   // when to come back, from now; zero means not known
	Cause      string          // BreakerOpen: the cause of it, as policy.BreakerCause says it; empty where it is not known
	Numbers    *policy.Numbers // what the reason is about; nil where it has no numbers
	Err        error           // the last real error, or what is wrong with the call itself; nil if the result was the failure, and for most refusals

	part *policy.Outcome // what it means to the attempt that the call was part of; nil if it was a call of its own
}

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
	if e.Endpoint != "" {
		b.WriteString(" at " + e.Endpoint)
	}
	switch {
	case e.Reason == policy.PoolExhausted && e.Attempts <= 1:
		b.WriteString(", nothing sent") // the attempt waited for a connection
	case e.Attempts == 1:
		b.WriteString(" after 1 attempt")
	case e.Attempts > 1:
		fmt.Fprintf(b, " after %d attempts", e.Attempts)
	case e.Reason != policy.UnknownDependency && e.Reason != policy.Invalid:
		b.WriteString(", nothing sent")
	}
	if e.Effect == policy.UnknownEffect {
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
		return e.Timeout() || errors.Is(e.Err, policy.AttemptTimeout) || errors.Is(e.Err, policy.CallTimeout) // net/http tells the cause only
	case context.Canceled:
		return e.Reason == policy.Canceled
	}
	return false
}

// Timeout reports whether a deadline ended the call, as net.Error does.
func (e *Error) Timeout() bool { return machine.Late(e.Reason) }

// Outcome is what this error means to a call around the one that it ended.
// Retrying is done in one layer, so it carries the mark that stops retries in
// every layer above. A call that was part of an attempt retries nothing itself, and has
// none.
func (e *Error) Outcome() policy.Outcome {
	if e.part != nil {
		return *e.part
	}
	var inner func() policy.Outcome
	if e.Err != nil {
		inner = func() policy.Outcome { return classify.Error(e.Err) }
	}
	return machine.Around(&machine.End{Reason: e.Reason, Effect: e.Effect, Attempts: e.Attempts, RetryAfter: e.RetryAfter}, inner)
}

// ReasonOf returns why err ended a call, or policy.None if no call of gabion's
// ended with it. Where err holds the errors of several calls, as errors.Join makes
// one, it is the reason of one that may have happened all the same, if there is any;
// among several, of one that asked its dependency before one that was refused; and
// then the first in the order of the constants. The order of the branches decides
// nothing.
func ReasonOf(err error) Reason {
	var worst *Error
	eachEnd(err, maxErrors, func(e *Error) {
		if e != nil && (worst == nil || worse(e, worst)) {
			worst = e
		}
	})
	if worst == nil {
		return policy.None
	}
	return worst.Reason
}

// EffectOf answers whether what err reports may have happened all the same. An
// error that is not gabion's may hide anything, also as one of several that err
// holds: it is NoEffect only if every branch says so.
func EffectOf(err error) policy.Effect {
	effect := policy.NoEffect
	if err != nil {
		eachEnd(err, maxErrors, func(e *Error) {
			if e == nil || e.Effect != policy.NoEffect {
				effect = policy.UnknownEffect
			}
		})
	}
	return effect
}

func worse(e, than *Error) bool {
	switch {
	case e.Effect != than.Effect:
		return e.Effect == policy.UnknownEffect
	case e.Reason.Local() != than.Reason.Local():
		return than.Reason.Local()
	}
	return e.Reason < than.Reason
}

// maxErrors bounds how many errors of a tree are looked at, for one that contains
// itself.
const maxErrors = 1 << 16

// eachEnd calls f, for every way down the tree of err, with the outermost *Error on it, or nil
// without one. It looks at no more than left errors, and returns how many of them are left.
func eachEnd(err error, left int, f func(*Error)) int {
	for err != nil && left > 0 {
		left--
		if e, ok := asError(err); ok {
			f(e)
			return left
		}
		switch x := err.(type) {
		case interface{ Unwrap() error }:
			err = x.Unwrap()
		case interface{ Unwrap() []error }:
			branches := slices.DeleteFunc(slices.Clone(x.Unwrap()), func(e error) bool { return e == nil })
			for _, e := range branches {
				left = eachEnd(e, left, f)
			}
			if len(branches) > 0 {
				return left
			}
			err = nil
		default:
			err = nil
		}
	}
	f(nil)
	return left
}

// asError asks err itself, and nothing below it.
func asError(err error) (*Error, bool) {
	e, ok := err.(*Error)
	if x, asks := err.(interface{ As(any) bool }); !ok && asks {
		ok = x.As(&e)
	}
	return e, ok
}
