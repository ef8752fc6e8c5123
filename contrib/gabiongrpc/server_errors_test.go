package gabiongrpc_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/contrib/gabiongrpc"
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
		{&gabion.Error{Reason: policy.AttemptsExhausted, Attempts: 3, Effect: policy.UnknownEffect, Err: status.Error(codes.Unavailable, "down")}, codes.Unavailable, 0},
		{&gabion.Error{Reason: policy.NotSafe, Attempts: 1, Effect: policy.UnknownEffect, Err: status.Error(codes.Unavailable, "down")}, codes.Unavailable, 0},
		{&gabion.Error{Reason: policy.NotRetryable, Attempts: 1, Err: fmt.Errorf("no time for the next hop: %w", context.DeadlineExceeded)}, codes.DeadlineExceeded, 0},
		{&gabion.Error{Reason: policy.Invalid}, codes.Internal, 0},
		{errors.Join(&gabion.Error{Reason: policy.BreakerOpen}, &gabion.Error{Reason: policy.NotSafe, Attempts: 1, Effect: policy.UnknownEffect}), codes.Unknown, 0},
	}
	for _, tt := range tests {
		s, ok := status.FromError(gabiongrpc.Status(tt.err))
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
		if got := gabiongrpc.Status(err); got != err {
			t.Errorf("%v became %v", err, got)
		}
	}
}

// down is a call through gabion that ends as e.
func down(r policy.Reason, attempts int) error {
	return fmt.Errorf("stock: %w", &gabion.Error{Dependency: "stock", Reason: r, Attempts: attempts, Effect: policy.UnknownEffect, Err: io.ErrUnexpectedEOF})
}

// What was repeated here is not to be repeated by those above; what was sent once is left
// to them.
func TestWhatWasGivenUpIsNotRepeatedAbove(t *testing.T) {
	for _, c := range []struct {
		fact     string
		err      error
		pushback string
		gaveUp   string
	}{
		{"repeated in vain", down(policy.AttemptsExhausted, 3), "-1", "attempts_exhausted; attempts=3"},
		{"repeated until the time was over", down(policy.CallTimeout, 2), "-1", "call_timeout; attempts=2"},
		{"repeated, and then the breaker opened", down(policy.BreakerOpen, 2), "-1", "breaker_open; attempts=2"},
		{"refused unsent", down(policy.BreakerOpen, 0), "-1", ""},
		{"a failure that stays", down(policy.NotRetryable, 1), "-1", ""},
		{"sent once, since repeating was not safe", down(policy.NotSafe, 1), "", ""},
		{"sent once, since no more attempts are allowed", down(policy.AttemptsExhausted, 1), "", ""},
		{"repeated while that was surely safe", down(policy.NotSafe, 2), "", ""},
		{"an error of the method's own", status.Error(codes.NotFound, "none"), "", ""},
		{"no error", nil, "", ""},
	} {
		t.Run(c.fact, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := serve(t, gabiongrpc.Server{})
				h.work = func(context.Context) error { return c.err }
				h.stream = func(pb.TestService_FullDuplexCallServer) error { return c.err }
				a := h.ask("a")
				<-a.over
				s, err := pb.NewTestServiceClient(h.conn).FullDuplexCall(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				_, err = s.Recv()
				for kind, got := range map[string]*asked{"unary": a, "stream": {status: status.Convert(err), trailer: s.Trailer()}} {
					if p, g := got.first(t, "grpc-retry-pushback-ms"), got.first(t, gabiongrpc.MetadataGaveUp); p != c.pushback || g != c.gaveUp {
						t.Errorf("%s: pushback %q, gave up %q", kind, p, g)
					}
					reason, _ := details(got.status)
					var e *gabion.Error
					if errors.As(c.err, &e) && reason != gabiongrpc.PolicyDomain+"/"+e.Reason.String() {
						t.Errorf("%s: %v because of %q", kind, got.status, reason)
					}
				}
			})
		})
	}
}

// grpc-go's own client retries as its service config says, and heeds the pushback: it sends again when
// the pushback says so, and not at all where that is no use.
func TestClientsWithoutGabionHeedThePushback(t *testing.T) {
	const config = `{"methodConfig": [{"name": [{}], "retryPolicy": {"maxAttempts": 4, "initialBackoff": "0.001s",
		"maxBackoff": "0.001s", "backoffMultiplier": 1, "retryableStatusCodes": ["UNAVAILABLE", "UNKNOWN", "DEADLINE_EXCEEDED"]}}]}`
	retries := grpc.WithDefaultServiceConfig(config)
	for _, c := range []struct {
		fact    string
		is      gabiongrpc.Server
		prepare func(*house)
		calls   int // that arrived
		least   time.Duration
	}{
		{"a failure without a pushback is repeated at once", gabiongrpc.Server{}, func(h *house) {
			h.work = func(context.Context) error { return status.Error(codes.Unavailable, "down") }
		}, 4, 0},
		{"what gabion gave up is not", gabiongrpc.Server{}, func(h *house) {
			h.work = func(context.Context) error { return down(policy.AttemptsExhausted, 3) }
		}, 1, 0},
		{"a full queue is asked again in a second or two, and is an overload by then", gabiongrpc.Server{Admission: &gabiongrpc.Admission{Limit: 1, Queue: policy.Off}}, func(h *house) { h.ask("a") }, 2, time.Second},
		{"in an overload it is asked once", gabiongrpc.Server{Admission: &gabiongrpc.Admission{Limit: 1, Queue: 2}}, func(h *house) { h.overloaded(); h.fill(2) }, 1, 0},
		{"a call without time is not repeated", gabiongrpc.Server{Deadline: &gabiongrpc.Deadline{Margin: time.Hour}}, func(*house) {}, 1, 0},
	} {
		t.Run(c.fact, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				calls := 0
				counts := grpc.ChainUnaryInterceptor(func(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
					if one(ctx, "name") == "counted" {
						calls++
					}
					return handler(ctx, request)
				})
				h := serveWith(t, c.is.Admission, append([]grpc.ServerOption{counts}, c.is.Options()...), retries)
				c.prepare(h)
				began, ctx := time.Now(), t.Context()
				if c.is.Deadline != nil {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, time.Minute)
					defer cancel()
				}
				a := h.askIn(ctx, "counted")
				<-a.over
				if d := time.Since(began); calls != c.calls || a.status.Code() == codes.OK || d < c.least {
					t.Errorf("%d calls in %v: %v", calls, d, a.status)
				}
				h.close()
			})
		})
	}
}
