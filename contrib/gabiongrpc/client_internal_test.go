package gabiongrpc

import (
	"context"
	"testing"

	"google.golang.org/grpc"
	pb "google.golang.org/grpc/interop/grpc_testing"

	"github.com/gabion-go/gabion/policy"
)

// Its caller may change the request by then.
func TestAHedgeThatComesAfterTheEndSendsNothing(t *testing.T) {
	u := &unaryCall{hedged: true, over: true, req: &pb.SimpleRequest{}, kind: (&pb.SimpleResponse{}).ProtoReflect().Type()}
	u.begun.Store(true)
	u.policy = &policy.Policy{}
	u.invoker = func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error {
		t.Error("it was sent")
		return nil
	}
	if _, err := u.send(t.Context()); err != errOver {
		t.Error(err)
	}
}
