package gabiongrpc_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/policy"
)

func TestWhatACodeMeans(t *testing.T) {
	again, never := []time.Duration{0, 100 * ms, 200 * ms}, []time.Duration{0}
	for _, c := range []struct {
		code codes.Code
		came []time.Duration
		why  gabion.Reason
	}{
		{codes.Canceled, never, policy.UnclassifiedError}, // by the server
		{codes.Unknown, never, policy.UnclassifiedError},
		{codes.InvalidArgument, never, policy.NotRetryable},
		{codes.DeadlineExceeded, never, policy.UnclassifiedError}, // not the caller's deadline
		{codes.NotFound, never, policy.NotRetryable},
		{codes.AlreadyExists, never, policy.NotRetryable},
		{codes.PermissionDenied, never, policy.NotRetryable},
		{codes.ResourceExhausted, never, policy.NotRetryable},
		{codes.FailedPrecondition, never, policy.NotRetryable},
		{codes.OutOfRange, never, policy.NotRetryable},
		{codes.Unimplemented, never, policy.NotRetryable},
		{codes.Internal, never, policy.UnclassifiedError},
		{codes.Unavailable, again, policy.AttemptsExhausted},
		{codes.DataLoss, never, policy.UnclassifiedError},
		{codes.Unauthenticated, never, policy.NotRetryable},
	} {
		t.Run(c.code.String(), func(t *testing.T) {
			inRoom(t, plain(), func(r *room) {
				r.answers(fails(c.code))
				_, err := r.call(safely())
				r.wantAt(c.came...)
				if gabion.ReasonOf(err) != c.why || status.Code(err) != c.code {
					t.Errorf("%v, code %v", err, status.Code(err))
				}
				if _, ok := errors.AsType[*gabion.Error](err); !ok {
					t.Errorf("%T is no *gabion.Error", err)
				}
			})
		})
	}
}

func TestTheBreakerLearnsFromCodes(t *testing.T) {
	for _, c := range []struct {
		fact string
		code codes.Code
		open bool
	}{
		{"30 UNAVAILABLE are 30 failures", codes.Unavailable, true},
		{"what the server cancels by itself is a failure", codes.Canceled, true},
		{"an answer is no failure", codes.NotFound, false},
		{"a conflict is no failure", codes.Aborted, false},
	} {
		t.Run(c.fact, func(t *testing.T) {
			inRoom(t, plain(), func(r *room) {
				r.answers(fails(c.code))
				for range 30 {
					_, _ = r.call()
				}
				if open := slices.ContainsFunc(r.rec.Events(), func(e gabion.Event) bool { return e.Kind == policy.KindBreakerMoved }); open != c.open {
					t.Errorf("the breaker opened: %v", open)
				}
			})
		})
	}
}

func TestUnsafeCallsAreNotRepeated(t *testing.T) {
	inRoom(t, plain(), func(r *room) {
		r.answers(fails(codes.Unavailable))
		_, err := r.call()
		r.wantAt(0)
		if gabion.ReasonOf(err) != policy.NotSafe || gabion.EffectOf(err) != policy.UnknownEffect {
			t.Error(err)
		}
	})
}
