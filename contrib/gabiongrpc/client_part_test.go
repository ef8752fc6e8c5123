package gabiongrpc_test

import (
	"context"
	"errors"
	"io"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "google.golang.org/grpc/interop/grpc_testing"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/policy"
)

// A call within an attempt of the same dependency is part of that attempt: there is one slot,
// and both of its layers would retry.
func TestACallWithinAnAttemptIsPartOfIt(t *testing.T) {
	unary := func(ctx context.Context, r *room) error {
		_, err := r.stub.UnaryCall(ctx, &pb.SimpleRequest{})
		return err
	}
	stream := func(ctx context.Context, r *room) error {
		s, err := r.stub.StreamingOutputCall(ctx, &pb.StreamingOutputCallRequest{})
		if err != nil {
			return err
		}
		for err == nil {
			_, err = s.Recv()
		}
		if err == io.EOF {
			return nil
		}
		return err
	}
	unwrapped := func(ctx context.Context, r *room) error {
		if err := unary(ctx, r); err != nil {
			return errors.New(status.Convert(err).Message())
		}
		return nil
	}
	for _, c := range []struct {
		fact   string
		answer answer
		work   func(context.Context, *room) error
		opts   []gabion.CallOption
		sent   int
		why    policy.Reason
	}{
		{"a unary call that succeeds", ok("yes"), unary, nil, 1, policy.None},
		{"a stream that succeeds", ok("yes"), stream, nil, 1, policy.None},
		{"a unary call that fails is repeated by the attempt's call", fails(codes.Unavailable), unary, []gabion.CallOption{gabion.WithIdempotent()}, 3, policy.AttemptsExhausted},
		{"a stream that fails is repeated by the attempt's call", fails(codes.Unavailable), stream, []gabion.CallOption{gabion.WithIdempotent()}, 3, policy.AttemptsExhausted},
		{"the work makes an error of its own", fails(codes.Unavailable), unwrapped, []gabion.CallOption{gabion.WithIdempotent()}, 3, policy.AttemptsExhausted},
		{"what is not declared safe is not repeated", fails(codes.Unavailable), unary, nil, 1, policy.NotSafe},
		{"a permanent failure is not repeated", fails(codes.NotFound), unary, []gabion.CallOption{gabion.WithIdempotent()}, 1, policy.NotRetryable},
	} {
		t.Run(c.fact, func(t *testing.T) {
			p := with(plain(), func(p *policy.Policy) { p.Bulkhead = policy.Bulkhead{Limit: 1, Queue: policy.Off} })
			inRoom(t, p, func(r *room) {
				r.answers(c.answer)
				r.down = func(_ int, _ *pb.StreamingOutputCallRequest, s grpc.ServerStreamingServer[pb.StreamingOutputCallResponse]) error {
					_, err := c.answer.give(s.Context())
					return err
				}
				err := r.dep.Run(r.Context(), func(ctx context.Context) error { return c.work(ctx, r) }, c.opts...)
				if gabion.ReasonOf(err) != c.why || len(r.seen()) != c.sent {
					t.Errorf("%d were sent, %v", len(r.seen()), err)
				}
				if n := r.dep.Stats().Totals; n.Calls != 1 || n.Attempts != int64(c.sent) {
					t.Errorf("%d calls, %d attempts", n.Calls, n.Attempts)
				}
			})
		})
	}
}
