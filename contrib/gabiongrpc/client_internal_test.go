package gabiongrpc

import (
	"context"
	"testing"

	"google.golang.org/grpc"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

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
	a, err := u.send(t.Context())
	if o := judge(a, err); err != errOver || !o.NeverSent {
		t.Errorf("%v, %+v", err, o)
	}
}

// The test service declares nothing; the one registered here does.
func TestWhatADescriptorDeclares(t *testing.T) {
	level := func(l descriptorpb.MethodOptions_IdempotencyLevel) *descriptorpb.MethodOptions {
		return &descriptorpb.MethodOptions{IdempotencyLevel: &l}
	}
	method := func(name string, o *descriptorpb.MethodOptions) *descriptorpb.MethodDescriptorProto {
		return &descriptorpb.MethodDescriptorProto{Name: &name, InputType: proto.String(".grpc.testing.Empty"), OutputType: proto.String(".grpc.testing.Empty"), Options: o}
	}
	file, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
		Name: proto.String("declared_test.proto"), Package: proto.String("gabion.declared"), Dependency: []string{"grpc/testing/empty.proto"},
		Service: []*descriptorpb.ServiceDescriptorProto{{Name: proto.String("Bank"), Method: []*descriptorpb.MethodDescriptorProto{
			method("Balance", level(descriptorpb.MethodOptions_NO_SIDE_EFFECTS)),
			method("SetName", level(descriptorpb.MethodOptions_IDEMPOTENT)),
			method("Pay", nil),
		}}},
	}, protoregistry.GlobalFiles)
	if err != nil {
		t.Fatal(err)
	}
	if err := protoregistry.GlobalFiles.RegisterFile(file); err != nil {
		t.Fatal(err)
	}
	for method, want := range map[string]bool{
		"/gabion.declared.Bank/Balance": true, "/gabion.declared.Bank/SetName": true, "/gabion.declared.Bank/Pay": false,
		"/gabion.declared.Bank/None": false, "/gabion.declared.None/Pay": false, "/grpc.testing.Empty/Pay": false, "": false, "/": false,
		pb.TestService_UnaryCall_FullMethodName: false,
	} {
		for range 2 { // the second is remembered
			if got := new(Client).idempotent(method); got != want {
				t.Errorf("%s is idempotent: %v", method, got)
			}
		}
	}
}

// Codecs other than that of protocol buffers add to what is there.
func TestAReplyIsEmptiedWhateverItIs(t *testing.T) {
	type plain struct{ Names []string }
	filled, message := &plain{[]string{"a"}}, &pb.SimpleResponse{Username: "a"}
	for _, reply := range []any{filled, message, (*plain)(nil), plain{}, nil, map[string]int{}} {
		empty(reply)
	}
	if filled.Names != nil || message.GetUsername() != "" {
		t.Errorf("%v, %v", filled, message)
	}
}
