package gabiongrpc_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	"github.com/gabion-go/gabion/contrib/gabiongrpc"
)

func TestWhichCallsHaveTheTime(t *testing.T) {
	for _, c := range []struct {
		fact   string
		is     *gabiongrpc.Deadline
		within time.Duration // 0 means no deadline
		code   codes.Code
		left   time.Duration // what the method has; 0 means no bound
	}{
		{"without a deadline there is time", &gabiongrpc.Deadline{Margin: time.Second}, 0, codes.OK, 0},
		{"more than the margin is enough", &gabiongrpc.Deadline{Margin: 50 * time.Millisecond}, 60 * time.Millisecond, codes.OK, 60 * time.Millisecond},
		{"less than the margin is too little", &gabiongrpc.Deadline{Margin: 50 * time.Millisecond}, 40 * time.Millisecond, codes.DeadlineExceeded, 0},
		{"any time will do without a margin", &gabiongrpc.Deadline{}, time.Millisecond, codes.OK, time.Millisecond},
		{"a bound of the server's own", &gabiongrpc.Deadline{Max: time.Second}, 0, codes.OK, time.Second},
		{"the nearer of both bounds", &gabiongrpc.Deadline{Max: time.Second}, time.Minute, codes.OK, time.Second},
		{"a bound that is further away changes nothing", &gabiongrpc.Deadline{Max: time.Minute}, time.Second, codes.OK, time.Second},
		{"a negative margin can't be meant", &gabiongrpc.Deadline{Margin: -1}, 0, codes.Internal, 0},
		{"a bound without its unit can't be meant", &gabiongrpc.Deadline{Max: 5}, 0, codes.Internal, 0},
	} {
		t.Run(c.fact, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := serve(t, gabiongrpc.Server{Deadline: c.is})
				left := time.Duration(0)
				h.work = func(ctx context.Context) error {
					if at, ok := ctx.Deadline(); ok {
						left = time.Until(at)
					}
					return nil
				}
				h.stream = func(pb.TestService_FullDuplexCallServer) error { return nil }
				ctx := t.Context()
				if c.within > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, c.within)
					defer cancel()
				}
				a := h.askIn(ctx, "a")
				<-a.over
				refused := c.code == codes.DeadlineExceeded
				if a.status.Code() != c.code || left != c.left || (len(h.begun) == 0) != (c.code != codes.OK) {
					t.Errorf("%v, the method had %v", a.status, left)
				}
				s, err := pb.NewTestServiceClient(h.conn).FullDuplexCall(ctx)
				if err != nil {
					t.Fatal(err)
				}
				if _, err = s.Recv(); c.code != codes.OK && status.Code(err) != c.code {
					t.Errorf("the stream: %v", err)
				}
				if !refused {
					return
				}
				reason, _ := details(a.status)
				if reason != "admission.gabion/EXPIRED" || a.first(t, gabiongrpc.MetadataRefused) != "expired" || a.first(t, "grpc-retry-pushback-ms") != "-1" || c.is.Saved() != 2 {
					t.Errorf("%q %v, saved %d", reason, a.trailer, c.is.Saved())
				}
				if s.Trailer().Get(gabiongrpc.MetadataRefused) == nil {
					t.Errorf("the stream: %v", s.Trailer())
				}
			})
		})
	}
}

// Who can't get an answer in time is refused also where grpc-go did not notice, as behind an
// interceptor that sets a deadline of its own. The context of what Max bounds says why it ended.
func TestTheEndOfACallsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &gabiongrpc.Deadline{Max: time.Second}
		over, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
		defer cancel()
		_, err := d.Unary(over, nil, &grpc.UnaryServerInfo{}, nil)
		if status.Code(err) != codes.DeadlineExceeded || d.Saved() != 1 {
			t.Errorf("%v, saved %d", err, d.Saved())
		}
		_, _ = d.Unary(t.Context(), nil, &grpc.UnaryServerInfo{}, func(ctx context.Context, _ any) (any, error) {
			<-ctx.Done()
			if cause := context.Cause(ctx); !errors.Is(cause, context.DeadlineExceeded) || cause.Error() == context.DeadlineExceeded.Error() {
				t.Errorf("it ended because of %v", cause)
			}
			return nil, nil
		})
	})
}
