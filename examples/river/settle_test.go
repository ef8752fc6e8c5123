package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/policy"
)

func TestSettle(t *testing.T) {
	const (
		done   = "done"
		snooze = "snooze"
		cancel = "cancel"
		again  = "again"
	)
	minute := time.Minute
	for _, c := range []struct {
		name string
		age  time.Duration
		err  error
		want string
		wait time.Duration
	}{
		{"a charge", 0, nil, done, 0},
		{"an error of the worker's own", 0, errors.New("no such column"), again, 0},
		{"attempts are used up", 0, &gabion.Error{Reason: policy.AttemptsExhausted}, again, 0},
		{"attempts are used up, and the answer names a time", 0, &gabion.Error{Reason: policy.AttemptsExhausted, RetryAfter: minute}, snooze, minute},
		{"the answer names a long time", 0, &gabion.Error{Reason: policy.RetryAfterTooLong, RetryAfter: minute}, snooze, minute},
		{"the breaker is open", 0, &gabion.Error{Reason: policy.BreakerOpen, RetryAfter: minute}, snooze, minute},
		{"the breaker is open, without a RetryAfter", 0, &gabion.Error{Reason: policy.BreakerOpen}, snooze, time.Second},
		{"all slots are taken", 0, &gabion.Error{Reason: policy.BulkheadFull}, snooze, time.Second},
		{"held back", 0, &gabion.Error{Reason: policy.Paced, RetryAfter: 3 * time.Second}, snooze, 3 * time.Second},
		{"held back for too long", 13 * time.Hour, &gabion.Error{Reason: policy.Paced, RetryAfter: minute}, again, 0},
		{"no answer in time", 0, &gabion.Error{Reason: policy.CallTimeout}, again, 0},
		{"a permanent answer", 0, &gabion.Error{Reason: policy.NotRetryable}, cancel, 0},
		{"its outcome is unknown", 0, &gabion.Error{Reason: policy.OutcomeUnknown}, cancel, 0},
		{"it is unclassified", 0, &gabion.Error{Reason: policy.UnclassifiedError}, again, 0},
		{"a mistake in the program, which the next release mends", 0, &gabion.Error{Reason: policy.KeyMissing}, again, 0},
		{"the worker stops", 0, &gabion.Error{Reason: policy.Canceled}, again, 0},
		{"the worker stops while a call is refused", 0, &gabion.Error{Reason: policy.BreakerOpen, Err: context.Canceled}, again, 0},
		{"in another error", 0, fmt.Errorf("charge: %w", &gabion.Error{Reason: policy.NotRetryable}), cancel, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := settle(&rivertype.JobRow{CreatedAt: time.Now().Add(-c.age)}, c.err)
			var snoozed *river.JobSnoozeError
			var cancelled *river.JobCancelError
			is := again
			switch {
			case got == nil:
				is = done
			case errors.As(got, &snoozed):
				is = snooze
			case errors.As(got, &cancelled):
				is = cancel
			}
			if is != c.want {
				t.Fatalf("%v: %s, want %s", got, is, c.want)
			}
			if is == snooze && (snoozed.Duration < c.wait || snoozed.Duration >= c.wait+c.wait/2) {
				t.Errorf("snoozed for %v, want %v and up to half of that more", snoozed.Duration, c.wait)
			}
			if is != snooze && !errors.Is(got, c.err) {
				t.Errorf("%v lost its cause %v", got, c.err)
			}
		})
	}
}

func TestWaitsCountFailures(t *testing.T) {
	w := waits{backoff.Exp(time.Minute, time.Hour)}
	for failed, want := range []time.Duration{time.Minute, 2 * time.Minute, 4 * time.Minute} {
		job := &rivertype.JobRow{Attempt: 7, Errors: make([]rivertype.AttemptError, failed)}
		if got := time.Until(w.NextRetry(job)).Round(time.Second); got != want {
			t.Errorf("after %d failures before this one: %v, want %v", failed, got, want)
		}
	}
}

// Each time fits into the next, so that no layer ends what a layer below still does.
func TestTheTimesFit(t *testing.T) {
	p := throughBank()
	if err := p.Validate(); err != nil {
		t.Error(err)
	}
	if p.Timeout.Call >= jobTimeout || jobTimeout >= rescueAfter {
		t.Errorf("call %v, job %v, rescue %v", p.Timeout.Call, jobTimeout, rescueAfter)
	}
	life := patience
	for n := range maxAttempts - 1 {
		life += longWaits.Delay(n, 0, 1) + rescueAfter
	}
	if life >= keyRetention*9/10 {
		t.Errorf("a job may be sent for %v, and the bank remembers its key for %v", life, keyRetention)
	}
}

func TestThePageShowsThisProgram(t *testing.T) {
	page, err := os.ReadFile("../../docs/jobs.md")
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile("settle.go")
	if err != nil {
		t.Fatal(err)
	}
	_, shown, found := strings.Cut(string(page), "```go\nfunc settle")
	shown, _, _ = strings.Cut(shown, "```")
	if !found || !strings.Contains(string(program), "func settle"+shown) {
		t.Errorf("settle.go does not have this:\nfunc settle%s", shown)
	}
}
