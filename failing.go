package gabion

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gabion-go/gabion/internal/machine"
	"github.com/gabion-go/gabion/policy"
)

// This file is about how a call's failure becomes the error that its caller gets.

// failure makes the error that the caller gets, or nil.
func (r *runner) failure(last error) error {
	if r.call.Succeeded() {
		return last // nil, unless a classifier called an error a success
	}
	return r.failed(r.call.End(), last)
}

func (r *runner) failed(v machine.End, last error) error {
	if v.Reason == policy.None {
		return last
	}
	if r.ended(v.Reason) {
		last = withCause(last, context.Cause(r.ctx))
	}
	if v.Reason == policy.Invalid { // a reload came after read had looked
		last = noEndpoint(r.d, *r.o.Endpoint)
	}
	if v.Reason == policy.NotSafe && r.call.Keyed() {
		last = because(last, errKeyUnread)
	}
	e := &Error{
		Dependency: r.d.name, Reason: v.Reason, Effect: v.Effect, Endpoint: v.Endpoint,
		Attempts: v.Attempts, RetryAfter: v.RetryAfter, Cause: v.Cause, Numbers: v.Numbers, Err: last,
	}
	if r.part != nil {
		r.part.explain(r, e)
	}
	return e
}

// because adds what else is to be known to the last real error, if there is one.
func because(last, why error) error {
	if last == nil {
		return why
	}
	return fmt.Errorf("%w (%w)", last, why)
}

var errKeyUnread = errors.New("the work did not read its idempotency key, so the key does not make it safe to repeat: pass gabion.Key(ctx) on to the dependency, or say gabion.WithIdempotent")

// patience is how long the end of a call waits for the caller's context to end, once
// its deadline has passed.
const patience = 10 * time.Millisecond

// ended reports whether the caller's context has ended. If its deadline ended the call,
// its own timer may fire a moment after ours, and only then is its cause known.
func (r *runner) ended(why Reason) bool {
	if r.ctx.Err() != nil {
		return true
	}
	if why != policy.CallTimeout || r.o.Deadline == 0 || r.call.Deadline() != r.o.Deadline {
		return false
	}
	timer := r.d.timers.start(patience)
	select {
	case <-timer.C:
	case <-r.ctx.Done():
	}
	r.d.timers.stop(timer)
	return r.ctx.Err() != nil
}

// withCause adds the cause of the end of the caller's context to the last real error,
// unless that contains it.
func withCause(last, cause error) error {
	switch {
	case last == nil:
		return cause
	case errors.Is(last, cause) || cause == context.Canceled || cause == context.DeadlineExceeded:
		return last
	}
	return because(last, cause)
}
