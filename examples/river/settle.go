package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/policy"
)

// What settle does with a job whose dependency can't be had for now.
const (
	shortSnooze = time.Second    // when the error has no RetryAfter
	patience    = 12 * time.Hour // then such jobs use up River's attempts and come to an end
)

// settle says to River what the end of a call through gabion means for the job. Copy it: it
// is all that stands between the two.
//
//	nil             the job is done
//	JobSnooze       nothing is wrong with the job: later, and no attempt of River's is used
//	JobCancel       it would end in the same way each time: an operator has to look at it
//	any other error River runs it again, when its retry policy says, and counts
func settle(job *rivertype.JobRow, err error) error {
	var e *gabion.Error
	if err == nil || !errors.As(err, &e) || errors.Is(err, context.Canceled) {
		return err // a worker that stops gives its jobs back, and River counts no attempt
	}
	switch {
	case e.Reason == policy.NotRetryable, e.Reason == policy.OutcomeUnknown:
		return river.JobCancel(err)
	case !e.Reason.Unavailable(), time.Since(job.CreatedAt) > patience:
		return err
	case e.RetryAfter > 0, e.Reason.Local(): // it was not asked, or said when to come back
		wait := max(e.RetryAfter, shortSnooze)
		return river.JobSnooze(wait + rand.N(wait/2)) // jobs that were refused together come back apart
	}
	return err
}

// waits are River's waits, made by a backoff of gabion's.
type waits struct{ backoff.Backoff }

// NextRetry counts failures, as River's own policy does: snoozes are none.
func (w waits) NextRetry(job *rivertype.JobRow) time.Time {
	return time.Now().Add(w.Delay(len(job.Errors), 0, rand.Float64()))
}
