package grpcidem

import (
	"context"
	"errors"
	"fmt"
	"strings"

	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/gabion-go/gabion/idempotency"
)

// typeField is where a record has the type of the response.
const typeField = "type"

// record returns what is kept of an answer: the response as a protocol buffer with
// the name of its type, or the whole status, details included.
func record(response any, err error) (idempotency.Result, idempotency.Ending, error) {
	if err != nil {
		s, ok := status.FromError(err)
		if !ok {
			s = status.FromContextError(err) // as the server does
		}
		body, failed := proto.Marshal(s.Proto())
		return idempotency.Result{Status: int(s.Code()), Body: body}, outcomeOf(s.Code()), failed
	}
	m, ok := response.(proto.Message)
	if !ok {
		return idempotency.Result{}, idempotency.EndingSucceeded, fmt.Errorf("grpcidem: %T is no protocol buffer", response)
	}
	name := string(m.ProtoReflect().Descriptor().FullName())
	body, failed := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	return idempotency.Result{Header: []idempotency.Field{{Name: typeField, Value: name}}, Body: body}, idempotency.EndingSucceeded, failed
}

// outcomeOf says what a code means: that the call would end like this again, or that it
// failed and may be repeated.
func outcomeOf(c codes.Code) idempotency.Ending {
	switch c {
	case codes.OK:
		return idempotency.EndingSucceeded
	case codes.ResourceExhausted, codes.Unavailable, codes.Aborted,
		codes.Canceled, codes.DeadlineExceeded, codes.Unknown, codes.Internal, codes.DataLoss:
		return idempotency.EndingFailed
	}
	return idempotency.EndingRejected
}

// replay returns a stored answer.
func (i *interceptor) replay(ctx context.Context, res idempotency.Result) (any, error) {
	if res.Omitted {
		return nil, refuse(NotRetained)
	}
	if res.Status != int(codes.OK) {
		var s spb.Status
		if proto.Unmarshal(res.Body, &s) != nil {
			return nil, refuse(RecordUnreadable)
		}
		mark(ctx)
		return nil, status.FromProto(&s).Err()
	}
	response, err := i.restore(ctx, res)
	switch {
	case errors.Is(err, errNoType):
		return nil, refuse(NotRetained)
	case err != nil:
		return nil, refuse(RecordUnreadable)
	}
	mark(ctx)
	return response, nil
}

var errNoType = errors.New("grpcidem: the type of the stored response is not known")

// restore makes a response of a stored one. For an unknown type, a message of nothing but unknown
// fields has the same bytes on the wire; other codecs than protocol buffers' would lose them.
func (i *interceptor) restore(ctx context.Context, res idempotency.Result) (proto.Message, error) {
	var name protoreflect.FullName
	for _, f := range res.Header {
		if f.Name == typeField {
			name = protoreflect.FullName(f.Value)
		}
	}
	t, err := i.options.Types.FindMessageByName(name)
	if err == nil {
		m := t.New().Interface()
		return m, proto.Unmarshal(res.Body, m)
	}
	if !inProtobuf(ctx) {
		return nil, errNoType
	}
	m := new(emptypb.Empty)
	return m, proto.Unmarshal(res.Body, m)
}

// inProtobuf reports whether the call's messages are protocol buffers on the wire.
func inProtobuf(ctx context.Context) bool {
	for _, kind := range metadata.ValueFromIncomingContext(ctx, "content-type") {
		kind, _, _ = strings.Cut(kind, ";")
		return kind == "application/grpc" || kind == "application/grpc+proto"
	}
	return true
}

// mark says in the header that the answer is a stored one. It fails only when the
// client has gone.
func mark(ctx context.Context) {
	_ = grpc.SetHeader(ctx, metadata.Pairs(MetadataReplayed, "true"))
}
