package grpcidem_test

import (
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/contrib/grpcidem"
	"github.com/gabion-go/gabion/policy"
)

func TestIssue10_RefusalsHaveACode(t *testing.T) {
	notFound := status.Error(codes.NotFound, "none")
	tests := []struct {
		err   error
		code  codes.Code
		after time.Duration
	}{
		{&gabion.Error{Reason: policy.BreakerOpen, RetryAfter: 3 * time.Second}, codes.Unavailable, 3 * time.Second},
		{fmt.Errorf("charge: %w", &gabion.Error{Reason: policy.BulkheadFull}), codes.Unavailable, 0},
		{&gabion.Error{Reason: policy.QueueTimeout}, codes.Unavailable, 0},
		{&gabion.Error{Reason: policy.RateLimited, RetryAfter: time.Second}, codes.Unavailable, time.Second},
		{&gabion.Error{Reason: policy.Paced, RetryAfter: time.Second}, codes.Unavailable, time.Second},
		{&gabion.Error{Reason: policy.ThrottledLocally}, codes.Unavailable, 0},
		{&gabion.Error{Reason: policy.KeyMissing}, codes.InvalidArgument, 0},
		{&gabion.Error{Reason: policy.CallTimeout, Attempts: 2, Effect: policy.UnknownEffect}, codes.DeadlineExceeded, 0},
		{&gabion.Error{Reason: policy.Canceled}, codes.Canceled, 0},
		{&gabion.Error{Reason: policy.NotRetryable, Attempts: 1, Err: notFound}, codes.NotFound, 0},
		{&gabion.Error{Reason: policy.BreakerOpen, Attempts: 1, Effect: policy.UnknownEffect, Err: io.EOF}, codes.Unknown, 0}, // it was sent once
		{&gabion.Error{Reason: policy.NotSafe, Attempts: 1, Err: io.EOF}, codes.Unknown, 0},
		{&gabion.Error{Reason: policy.Invalid}, codes.Internal, 0},
		{errors.Join(&gabion.Error{Reason: policy.BreakerOpen}, &gabion.Error{Reason: policy.NotSafe, Attempts: 1, Effect: policy.UnknownEffect}), codes.Unknown, 0},
	}
	for _, tt := range tests {
		s, ok := status.FromError(grpcidem.Status(tt.err))
		if !ok || s.Code() != tt.code {
			t.Errorf("%v has code %v, want %v", tt.err, s.Code(), tt.code)
		}
		var after time.Duration
		var reason string
		for _, d := range s.Details() {
			switch d := d.(type) {
			case *errdetails.RetryInfo:
				after = d.RetryDelay.AsDuration()
			case *errdetails.ErrorInfo:
				reason = d.Reason
			}
		}
		if after != tt.after || reason != gabion.ReasonOf(tt.err).String() {
			t.Errorf("%v: retry in %v because of %q", tt.err, after, reason)
		}
	}
	for _, err := range []error{nil, io.EOF, notFound, errors.Join(io.EOF)} {
		if got := grpcidem.Status(err); got != err {
			t.Errorf("%v became %v", err, got)
		}
	}
}
