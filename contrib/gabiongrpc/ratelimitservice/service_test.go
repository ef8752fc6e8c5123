package ratelimitservice

import (
	"context"
	"net"
	"strconv"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
	_ "google.golang.org/protobuf/types/known/durationpb" // the file is registered
)

// schema is the part of Envoy's rls.proto that is used, with its names and numbers and some fields that are not used.
var schema = sync.OnceValue(func() protoreflect.FileDescriptor {
	field := func(name string, number int32, kind descriptorpb.FieldDescriptorProto_Type, of string, many bool) *descriptorpb.FieldDescriptorProto {
		f := &descriptorpb.FieldDescriptorProto{Name: &name, Number: &number, Type: &kind, Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum()}
		if many {
			f.Label = descriptorpb.FieldDescriptorProto_LABEL_REPEATED.Enum()
		}
		if of != "" {
			f.TypeName = &of
		}
		return f
	}
	const (
		text    = descriptorpb.FieldDescriptorProto_TYPE_STRING
		number  = descriptorpb.FieldDescriptorProto_TYPE_UINT32
		message = descriptorpb.FieldDescriptorProto_TYPE_MESSAGE
		fixed   = descriptorpb.FieldDescriptorProto_TYPE_FIXED64
	)
	of := func(name string, fields ...*descriptorpb.FieldDescriptorProto) *descriptorpb.DescriptorProto {
		return &descriptorpb.DescriptorProto{Name: &name, Field: fields}
	}
	f, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
		Name: proto.String("rls.proto"), Package: proto.String("rls"), Syntax: proto.String("proto3"), Dependency: []string{"google/protobuf/duration.proto"},
		MessageType: []*descriptorpb.DescriptorProto{
			of("Entry", field("key", 1, text, "", false), field("value", 2, text, "", false)),
			of("Descriptor", field("entries", 1, message, ".rls.Entry", true)),
			of("Request", field("domain", 1, text, "", false), field("descriptors", 2, message, ".rls.Descriptor", true), field("hits_addend", 3, number, "", false)),
			of("Limit", field("requests_per_unit", 1, number, "", false), field("name", 3, text, "", false)),
			of("Status", field("code", 1, number, "", false), field("current_limit", 2, message, ".rls.Limit", false), field("limit_remaining", 3, number, "", false),
				field("duration_until_reset", 4, message, ".google.protobuf.Duration", false), field("other", 9, fixed, "", false)),
			of("Response", field("overall_code", 1, number, "", false), field("statuses", 2, message, ".rls.Status", true), field("raw_body", 5, text, "", false)),
		},
	}, protoregistry.GlobalFiles)
	if err != nil {
		panic(err)
	}
	return f
})

// service is a fake of a rate limit service, behind real gRPC. It speaks by protobuf's own code.
type service struct {
	mu     sync.Mutex
	server *grpc.Server
	addr   string
	code   uint32
	left   int // of one limit for all; negative means that there is no limit
	reset  time.Duration
	hold   chan struct{} // closed when it may answer; nil means at once
	hits   uint64
	asked  []*dynamicpb.Message

	metadata metadata.MD // of the last question
}

// serve starts it; addr is empty, or where it was before.
func (f *service) serve(t *testing.T) {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:"+port(f.addr))
	if err != nil {
		t.Fatal(err)
	}
	f.addr, f.server = lis.Addr().String(), grpc.NewServer()
	f.server.RegisterService(&grpc.ServiceDesc{
		ServiceName: "envoy.service.ratelimit.v3.RateLimitService", HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{MethodName: "ShouldRateLimit", Handler: f.shouldRateLimit}},
	}, f)
	go f.server.Serve(lis)
	t.Cleanup(f.server.Stop)
}

func port(addr string) string {
	if _, p, err := net.SplitHostPort(addr); err == nil {
		return p
	}
	return strconv.Itoa(0)
}

func (f *service) shouldRateLimit(_ any, ctx context.Context, read func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
	in := dynamicpb.NewMessage(schema().Messages().ByName("Request"))
	if err := read(in); err != nil {
		return nil, err
	}
	f.mu.Lock()
	hold := f.hold
	f.mu.Unlock()
	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = append(f.asked, in)
	f.metadata, _ = metadata.FromIncomingContext(ctx)
	hits := in.Get(in.Descriptor().Fields().ByName("hits_addend")).Uint()
	f.hits += hits
	out := dynamicpb.NewMessage(schema().Messages().ByName("Response"))
	set := func(m protoreflect.Message, name string, v any) {
		m.Set(m.Descriptor().Fields().ByName(protoreflect.Name(name)), protoreflect.ValueOf(v))
	}
	statuses := out.Mutable(out.Descriptor().Fields().ByName("statuses")).List()
	st := statuses.NewElement().Message()
	code := f.code
	if f.left >= 0 {
		limit := st.Mutable(st.Descriptor().Fields().ByName("current_limit")).Message()
		set(limit, "name", "a limit")
		if code == codeOK && int(hits) > f.left {
			code = codeOver
		}
		f.left -= min(int(hits), f.left)
		set(st, "limit_remaining", uint32(f.left))
	}
	set(st, "code", code)
	set(st, "other", uint64(7))
	reset := st.Mutable(st.Descriptor().Fields().ByName("duration_until_reset")).Message()
	set(reset, "seconds", int64(f.reset/time.Second))
	set(reset, "nanos", int32(f.reset%time.Second))
	statuses.Append(protoreflect.ValueOfMessage(st))
	set(out, "overall_code", code)
	set(out, "raw_body", "no")
	return out, nil
}
