package gabiongrpc

import (
	"fmt"
	"io"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// kept is a request that grpc-go refused to send. It opens a stream first, and then looks at
// the request, so that the peer of the attempt does not show it.
type kept uint8

const (
	unkept   kept = iota // it was sent, or nothing is known
	unfit                // it could not be encoded, or is too large, which is the caller's fault
	unfitted             // the same, and it is certain that nothing of it left
)

// ofUnary says whether grpc-go kept the request of a call that is no stream. The request
// itself must show it: a server ends a call in the same words if its answer is too large.
func (a *attempt) ofUnary(request any, err error) kept {
	s := statusOf(err)
	switch {
	case s == nil:
	case s.Code() == codes.Internal && !encodes(request):
		if len(a.trailer) == 0 && strings.HasPrefix(s.Message(), "grpc: error while marshaling: ") {
			return unfitted
		}
		return unfit
	case s.Code() == codes.ResourceExhausted && len(a.trailer) == 0 && a.tooLarge(request, s):
		return unfitted
	}
	return unkept
}

// ofStream says the same of the only request of a stream. SendMsg returns a status only for
// what the client itself did, and io.EOF for all else.
func ofStream(err error) kept {
	if code := status.Code(err); err == io.EOF || code != codes.Internal && code != codes.ResourceExhausted {
		return unkept
	}
	return unfitted
}

// encodes reports whether a request can be encoded, as far as is known without its codec.
func encodes(req any) bool {
	m := messageOf(req)
	if m == nil {
		return true
	}
	_, err := proto.Marshal(m)
	return err == nil
}

// tooLarge reports whether the request is larger than the connection sends. S must name both
// sizes as grpc-go does: so an interceptor that makes the request smaller, or another codec,
// proves nothing.
func (a *attempt) tooLarge(request any, s *status.Status) bool {
	m := messageOf(request)
	if m == nil {
		return false
	}
	size, limit := proto.Size(m), a.of.mostSent()
	return size > limit && s.Message() == fmt.Sprintf("trying to send message larger than max (%d vs. %d)", size, limit)
}

// mostSent is the largest request that the connection sends, as its options and its service
// config say.
func (c *call) mostSent() int {
	limit := int(^uint32(0) >> 1)
	for _, o := range c.rest {
		if o, ok := o.(grpc.MaxSendMsgSizeCallOption); ok {
			limit = o.MaxSendMsgSize
		}
	}
	if c.conn != nil {
		if most := c.conn.GetMethodConfig(c.method).MaxReqSize; most != nil {
			limit = min(limit, *most)
		}
	}
	return limit
}
