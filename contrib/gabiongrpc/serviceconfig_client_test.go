package gabiongrpc_test

import (
	"io"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
	"google.golang.org/grpc/status"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/contrib/gabiongrpc"
	"github.com/gabion-go/gabion/policy"
)

const twoMethods = `{
	"loadBalancingConfig": [{"round_robin": {}}],
	"methodConfig": [
		{"name": [{"service": "grpc.testing.TestService", "method": "UnaryCall"}], "retryPolicy": {
			"maxAttempts": 3, "initialBackoff": "0.1s", "maxBackoff": "1s", "backoffMultiplier": 2, "retryableStatusCodes": ["UNAVAILABLE"]}},
		{"name": [{"service": "grpc.testing.TestService", "method": "EmptyCall"}, {"service": "grpc.testing.TestService", "method": "StreamingOutputCall"}],
			"retryPolicy": {"maxAttempts": 2, "initialBackoff": "0.1s", "maxBackoff": "1s", "backoffMultiplier": 2, "retryableStatusCodes": ["UNAVAILABLE"]}}]}`

func through(t *testing.T, js string) (*gabion.Registry, []grpc.DialOption) {
	t.Helper()
	s, err := gabiongrpc.FromServiceConfig([]byte(js))
	if err != nil {
		t.Fatal(err)
	}
	deps, err := gabion.NewRegistry(s.Policies())
	if err != nil {
		t.Fatal(err)
	}
	opts, err := s.DialOptions(deps)
	if err != nil {
		t.Fatal(err)
	}
	return deps, opts
}

func TestEachMethodGoesThroughTheDependencyOfItsConfig(t *testing.T) {
	var deps *gabion.Registry
	options := func(t *testing.T) (opts []grpc.DialOption) {
		deps, opts = through(t, twoMethods)
		return opts
	}
	inRoomWith(t, options, func(r *room) {
		r.answers(fails(codes.Unavailable), ok("fine"))
		if answer, err := r.call(); answer.GetUsername() != "fine" || len(r.seen()) != 2 {
			t.Errorf("%v, %v, %d attempts", answer, err, len(r.seen()))
		}
		if _, err := r.stub.EmptyCall(r.Context(), &pb.Empty{}); status.Code(err) != codes.Unimplemented { // the server has none
			t.Error(err)
		}
		if _, err := r.stub.UnimplementedCall(r.Context(), &pb.Empty{}); status.Code(err) != codes.Unimplemented {
			t.Error(err)
		}
		for _, name := range []string{"grpc.testing.TestService.UnaryCall", "grpc.testing.TestService.EmptyCall"} {
			if d, err := deps.Get(name); err != nil || d.Stats().Totals.Calls != 1 {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

func TestStreamsGoThroughTheDependencyOfTheirConfig(t *testing.T) {
	options := func(t *testing.T) []grpc.DialOption {
		_, opts := through(t, twoMethods)
		return opts
	}
	inRoomWith(t, options, func(r *room) {
		r.server.down = func(n int, _ *pb.StreamingOutputCallRequest, s grpc.ServerStreamingServer[pb.StreamingOutputCallResponse]) error {
			if n == 1 {
				return status.Error(codes.Unavailable, "not yet")
			}
			return s.Send(&pb.StreamingOutputCallResponse{})
		}
		s, err := r.stub.StreamingOutputCall(r.Context(), &pb.StreamingOutputCallRequest{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Recv(); err != nil || len(r.seen()) != 2 {
			t.Errorf("%v, %d attempts", err, len(r.seen()))
		}
		if _, err := s.Recv(); err != io.EOF {
			t.Error(err)
		}
		r.server.up = func(int, grpc.ClientStreamingServer[pb.StreamingInputCallRequest, pb.StreamingInputCallResponse]) error {
			return status.Error(codes.Unavailable, "never")
		}
		up, err := r.stub.StreamingInputCall(r.Context()) // nothing is said of it
		if err != nil {
			t.Fatal(err)
		}
		if _, err := up.CloseAndRecv(); status.Code(err) != codes.Unavailable || len(r.seen()) != 3 {
			t.Errorf("%v, %d attempts", err, len(r.seen()))
		}
	})
}

// What a name resolver brings would be a second layer of timeouts and retries.
func TestAServiceConfigOfANameResolverIsIgnored(t *testing.T) {
	options := func(t *testing.T) []grpc.DialOption {
		_, opts := through(t, twoMethods)
		names := manual.NewBuilderWithScheme("memory")
		opts = append(opts, grpc.WithResolvers(names))
		names.BuildCallback = func(_ resolver.Target, cc resolver.ClientConn, _ resolver.BuildOptions) {
			_ = cc.UpdateState(resolver.State{
				Addresses:     []resolver.Address{{Addr: "x"}},
				ServiceConfig: cc.ParseServiceConfig(`{"methodConfig": [{"name": [{}], "timeout": "0.1s"}]}`),
			})
		}
		return opts
	}
	inRoomOn(t, "memory:///x", options, func(r *room) {
		r.answers(ok("late").after(2 * time.Second))
		if answer, err := r.call(); answer.GetUsername() != "late" {
			t.Error(err)
		}
	})
}

func TestDependenciesThatAreNotThoseOfTheConfig(t *testing.T) {
	s, err := gabiongrpc.FromServiceConfig([]byte(twoMethods))
	if err != nil {
		t.Fatal(err)
	}
	policies := s.Policies()
	delete(policies, "grpc.testing.TestService.EmptyCall")
	deps, err := gabion.NewRegistry(policies)
	if err != nil {
		t.Fatal(err)
	}
	if opts, err := s.DialOptions(deps); err == nil || opts != nil || !strings.Contains(err.Error(), "grpc.testing.TestService.EmptyCall") || gabion.ReasonOf(err) != policy.UnknownDependency {
		t.Errorf("%v, %v", opts, err)
	}
	var none gabiongrpc.ServiceConfig
	if opts, err := none.DialOptions(nil); err != nil || len(opts) == 0 {
		t.Error(opts, err)
	}
}

// grpc-go and gabion find the same method config for a method.
func TestTheSameMethodConfigAsGRPC(t *testing.T) {
	const js = `{"methodConfig": [
		{"name": [{"service": "a.B", "method": "Get"}, {"service": "a.C"}], "timeout": "1s"},
		{"name": [{"service": "a.B"}], "timeout": "2s"},
		{"name": [{}], "timeout": "3s"}, {"name": [{"service": "a/x"}], "timeout": "4s"}, {"timeout": "5s"}]}`
	s, err := gabiongrpc.FromServiceConfig([]byte(js))
	if err != nil {
		t.Fatal(err)
	}
	inRoomOfGRPC(t, js, func(r *room) {
		r.answers(ok("fine"))
		if _, err := r.call(); err != nil { // the config is in force once the name is resolved
			t.Fatal(err)
		}
		for _, method := range []string{"/a.B/Get", "/a.B/Put", "/a.C/Get", "/a.D/Get", "/a/x/y", "/a/y", "a.B/Get", "/", "odd", ""} {
			theirs := r.conn.GetMethodConfig(method)
			if ours, ok := s.Policy(method); !ok || theirs.Timeout == nil || ours.Timeout.Call != *theirs.Timeout {
				t.Errorf("%q: %v, grpc-go has %v", method, ours.Timeout.Call, theirs.Timeout)
			}
		}
	})
}
