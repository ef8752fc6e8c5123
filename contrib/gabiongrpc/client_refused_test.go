package gabiongrpc_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/contrib/gabiongrpc"
	"github.com/gabion-go/gabion/internal/grpccode"
	"github.com/gabion-go/gabion/policy"
)

// A client of gabion and a server of gabion: a refusal is no failure of the server, and is
// repeated where nothing can have been done, unless the server says that it is no use.
func TestAServersRefusalIsNoFailure(t *testing.T) {
	busy := func(h *house) { h.ask("a") }
	for _, c := range []struct {
		fact     string
		is       gabiongrpc.Server
		prepare  func(*house)
		trust    policy.Trust
		codes    policy.GRPC
		calls    int
		reason   policy.Reason
		failures int64
	}{
		{"a call that is not safe to repeat, refused by a server of ours", gabiongrpc.Server{Admission: &gabiongrpc.Admission{Limit: 1, Queue: policy.Off, RetryAfter: ms}}, busy, policy.Internal, policy.GRPC{}, 3, policy.AttemptsExhausted, 0},
		{"refused by a server of others", gabiongrpc.Server{Admission: &gabiongrpc.Admission{Limit: 1, Queue: policy.Off, RetryAfter: ms}}, busy, policy.External, policy.GRPC{}, 1, policy.NotSafe, 0},
		{"one tenant's share", gabiongrpc.Server{Admission: &gabiongrpc.Admission{Limit: 4, Queue: policy.Off, RetryAfter: ms, Tenant: byName, TenantShare: 0.25}}, busy, policy.Internal, policy.GRPC{}, 3, policy.AttemptsExhausted, 0},
		{"in an overload", gabiongrpc.Server{Admission: &gabiongrpc.Admission{Limit: 1, Queue: 2}}, func(h *house) { h.overloaded(); h.fill(2) }, policy.Internal, policy.GRPC{}, 1, policy.DoNotRetry, 0},
		{"a code that the policy calls permanent", gabiongrpc.Server{Admission: &gabiongrpc.Admission{Limit: 1, Queue: policy.Off}}, busy, policy.Internal, policy.GRPC{Permanent: []policy.GRPCCode{grpccode.Unavailable}}, 1, policy.NotRetryable, 0},
		{"no time left", gabiongrpc.Server{Deadline: &gabiongrpc.Deadline{Margin: time.Hour}}, func(*house) {}, policy.Internal, policy.GRPC{}, 1, policy.DoNotRetry, 1},
	} {
		t.Run(c.fact, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := with(plain(), func(p *policy.Policy) {
					p.Trust, p.GRPC, p.Breaker, p.Pace.Off = c.trust, c.codes, policy.Breaker{Observe: true}, true
				})
				dep, calls := gabion.New("stock", p), 0
				counts := grpc.ChainUnaryInterceptor(func(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
					if one(ctx, "name") != "" {
						return handler(ctx, request)
					}
					calls++
					return handler(ctx, request)
				})
				h := serveWith(t, c.is.Admission, append([]grpc.ServerOption{counts}, c.is.Options()...))
				c.prepare(h)
				client := h.again((&gabiongrpc.Client{Dependency: dep}).DialOptions()...)
				_, err := pb.NewTestServiceClient(client).EmptyCall(t.Context(), &pb.Empty{})
				var failures int64
				for _, part := range append(dep.Stats().Partitions, dep.Stats().Main) {
					failures += part.Breaker.Counts.Failures
				}
				if calls != c.calls || gabion.ReasonOf(err) != c.reason || failures != c.failures || status.Code(err) == codes.OK {
					t.Errorf("%d calls, %d failures: %v", calls, failures, err)
				}
				h.close()
			})
		})
	}
}
