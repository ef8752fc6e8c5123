package gabiongrpc

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gabion-go/gabion/internal/admission"
	"github.com/gabion-go/gabion/internal/serving"
)

// Deadline refuses calls that have too little time left, before any work is done. A refusal is
// DEADLINE_EXCEEDED with the pushback -1 and the trailer [MetadataRefused]. The deadline is that of the
// call's context, as grpc-go makes it of grpc-timeout.
//
// Its methods Unary and Stream are interceptors. The fields must not change once calls are
// served. All methods are safe for concurrent use. The zero value refuses what has no time
// left.
type Deadline struct {
	// Margin is the least time that must be left for work to be worth starting.
	// Zero means any. A Margin or Max that is negative, or below 1 µs, can't be meant,
	// and every call is answered with an INTERNAL that says so.
	Margin time.Duration

	// Max bounds the time of every unary call, also of those that bring no deadline.
	// Streams may last. Zero means no bound.
	Max time.Duration

	saved atomic.Int64
}

// errDeadline is the cause with which the context of a call ends that Max bounds.
var errDeadline = fmt.Errorf("gabiongrpc: the call's deadline is over: %w", context.DeadlineExceeded)

// Saved returns how many calls were refused because their time was over: work that was not
// done in vain.
func (d *Deadline) Saved() int64 { return d.saved.Load() }

// Unary is a [grpc.UnaryServerInterceptor].
func (d *Deadline) Unary(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	left, bounded, err := d.left(ctx)
	if err != nil {
		return nil, err
	}
	if left <= 0 || left < d.Margin {
		return nil, d.refuse().unary(ctx)
	}
	if d.Max > 0 && (!bounded || left > d.Max) {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, d.Max, errDeadline)
		defer cancel()
	}
	return handler(ctx, request)
}

// Stream is a [grpc.StreamServerInterceptor].
func (d *Deadline) Stream(server any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	left, _, err := d.left(stream.Context())
	if err != nil {
		return err
	}
	if left <= 0 || left < d.Margin {
		return d.refuse().stream(stream)
	}
	return handler(server, stream)
}

// forever is more time than any margin.
const forever = time.Duration(1<<63 - 1)

// left is the time that a call has.
func (d *Deadline) left(ctx context.Context) (left time.Duration, bounded bool, err error) {
	if d.Margin != 0 || d.Max != 0 {
		if problem := serving.DeadlineProblem(d.Margin, d.Max); problem != "" {
			return 0, false, status.Error(codes.Internal, "gabiongrpc: "+problem)
		}
	}
	at, ok := ctx.Deadline()
	if !ok {
		return forever, false, nil
	}
	return time.Until(at), true, nil
}

func (d *Deadline) refuse() refusal {
	d.saved.Add(1)
	return refused(serving.Result{Answer: admission.Expired}, 0)
}
