package grpcidem

import (
	"context"
	"net"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/gabion-go/gabion/idempotency"
)

// foreignType is a message type that no registry of this program has.
func foreignType(t *testing.T) protoreflect.MessageDescriptor {
	t.Helper()
	field := func(name string, n int32, kind descriptorpb.FieldDescriptorProto_Type) *descriptorpb.FieldDescriptorProto {
		return &descriptorpb.FieldDescriptorProto{Name: &name, Number: &n, Type: &kind,
			Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(), JsonName: &name}
	}
	file, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
		Name: proto.String("foreign.proto"), Package: proto.String("foreign"), Syntax: proto.String("proto3"),
		MessageType: []*descriptorpb.DescriptorProto{{Name: proto.String("Receipt"), Field: []*descriptorpb.FieldDescriptorProto{
			field("id", 1, descriptorpb.FieldDescriptorProto_TYPE_STRING), field("cents", 2, descriptorpb.FieldDescriptorProto_TYPE_INT64),
		}}},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return file.Messages().Get(0)
}

// serveForeign serves a method whose messages are of a foreign type, as a proxy does that
// learns its types at run time. A restart in between is another interceptor on the same
// store.
func serveForeign(t *testing.T, d protoreflect.MessageDescriptor, o Options, store idempotency.Store, runs *int) *grpc.ClientConn {
	t.Helper()
	idem, err := UnaryServerInterceptor(Global, store, o)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(grpc.UnaryInterceptor(idem))
	server.RegisterService(&grpc.ServiceDesc{ServiceName: "foreign.Shop", HandlerType: (*any)(nil), Methods: []grpc.MethodDesc{{
		MethodName: "Pay",
		Handler: func(_ any, ctx context.Context, decode func(any) error, in grpc.UnaryServerInterceptor) (any, error) {
			m := dynamicpb.NewMessage(d)
			if err := decode(m); err != nil {
				return nil, err
			}
			return in(ctx, m, &grpc.UnaryServerInfo{FullMethod: "/foreign.Shop/Pay"}, func(_ context.Context, request any) (any, error) {
				*runs++
				return receipt(d, "r1"), nil
			})
		},
	}}}, struct{}{})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go server.Serve(l)
	t.Cleanup(server.Stop)
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

func receipt(d protoreflect.MessageDescriptor, id string) *dynamicpb.Message {
	m := dynamicpb.NewMessage(d)
	m.Set(d.Fields().ByName("id"), protoreflect.ValueOfString(id))
	m.Set(d.Fields().ByName("cents"), protoreflect.ValueOfInt64(7))
	return m
}

// A response of a type that is no longer known is replayed in the bytes that it had.
func TestResponsesOfUnknownTypesAreReplayed(t *testing.T) {
	encoding.RegisterCodec(jsonCodec{})
	d := foreignType(t)
	known := &types{d}
	for _, c := range []struct {
		name  string
		o     Options
		codec grpc.CallOption
		code  codes.Code // of the retry
	}{
		{"an unknown type", Options{}, grpc.CallContentSubtype("proto"), codes.OK},
		{"the options know it", Options{Types: known}, grpc.CallContentSubtype("proto"), codes.OK},
		{"the options know it, in JSON", Options{Types: known}, grpc.CallContentSubtype("json"), codes.OK},
		{"an unknown type, and it would have to be written as JSON", Options{}, grpc.CallContentSubtype("json"), codes.FailedPrecondition},
	} {
		t.Run(c.name, func(t *testing.T) {
			store, runs := idempotency.NewMemoryStore(0, 0), 0
			for n := range 2 {
				conn := serveForeign(t, d, c.o, store, &runs)
				got, header := dynamicpb.NewMessage(d), metadata.MD{}
				ctx := metadata.AppendToOutgoingContext(t.Context(), MetadataKey, "k")
				err := conn.Invoke(ctx, "/foreign.Shop/Pay", receipt(d, "ask"), got, grpc.Header(&header), c.codec)
				switch {
				case n == 1 && c.code != codes.OK:
					if status.Code(err) != c.code {
						t.Errorf("call %d: %v, want %v", n+1, err, c.code)
					}
				case err != nil || !proto.Equal(got, receipt(d, "r1")):
					t.Errorf("call %d: %v, %v", n+1, got, err)
				}
				if replayed := len(header[MetadataReplayed]) > 0; replayed != (n == 1 && c.code == codes.OK) {
					t.Errorf("call %d: %v", n+1, header)
				}
			}
			if runs != 1 {
				t.Errorf("ran %d times", runs)
			}
		})
	}
}

// types knows one type.
type types struct {
	known protoreflect.MessageDescriptor
}

func (t *types) FindMessageByName(name protoreflect.FullName) (protoreflect.MessageType, error) {
	return dynamicpb.NewMessageType(t.known), nil
}

type jsonCodec struct{}

func (jsonCodec) Name() string                  { return "json" }
func (jsonCodec) Marshal(v any) ([]byte, error) { return protojson.Marshal(v.(proto.Message)) }
func (jsonCodec) Unmarshal(data []byte, v any) error {
	return protojson.Unmarshal(data, v.(proto.Message))
}

// A method declines to keep an answer by its code, or for one call.
func TestDeclinedCodes(t *testing.T) {
	for _, g := range []idempotency.Guarantee{idempotency.GuaranteeHold, idempotency.GuaranteeReexecute, idempotency.GuaranteeTx} {
		for _, c := range []struct {
			name string
			o    Options
			runs int64
		}{
			{"kept", guaranteed(g), 1},
			{"listed", Options{Runner: idempotency.RunnerConfig{Guarantee: g}, NotKept: []codes.Code{codes.NotFound}}, 2},
		} {
			s := start(t, c.o)
			s.work = says(codes.NotFound)
			for range 2 {
				if a := s.send(order("x"), MetadataKey, "k"); a.status.Code() != codes.NotFound {
					t.Errorf("%v, %s: %v", g, c.name, a.status)
				}
			}
			if got := s.runs.Load(); got != c.runs {
				t.Errorf("%v, %s: ran %d times, want %d", g, c.name, got, c.runs)
			}
		}
	}
	if _, err := UnaryServerInterceptor(Global, idempotency.NewMemoryStore(0, 0), Options{NotKept: []codes.Code{codes.OK}}); err == nil {
		t.Error("OK can't be declined")
	}
}
