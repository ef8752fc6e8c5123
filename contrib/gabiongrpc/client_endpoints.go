package gabiongrpc

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/classify"
	"github.com/gabion-go/gabion/policy"
)

// Endpoints returns what a stub needs whose calls go to the endpoints of the dependency's policy, each at a connection of
// its own: to two providers, or a primary and its backup.
//
//	payments := pb.NewPaymentsClient(client.Endpoints(func(e policy.Endpoint) grpc.ClientConnInterface { return conns[e.Name] }))
//
// It asks conn for the connection of each attempt; conn must be quick, and safe for concurrent use. An endpoint for which it returns nil
// gets nothing: the attempt fails there as one that was not sent. Without endpoints in the policy conn gets the zero
// [policy.Endpoint]. The connections have none of [Client.DialOptions] but grpc.WithDisableRetry, and stay their owner's, who closes
// them. What is returned is safe for concurrent use.
func (c *Client) Endpoints(conn func(policy.Endpoint) grpc.ClientConnInterface) grpc.ClientConnInterface {
	return &spread{c, conn}
}

// spread makes the calls of a Client at connections that it chooses for each attempt.
type spread struct {
	client *Client
	conn   func(policy.Endpoint) grpc.ClientConnInterface
}

// Invoke implements grpc.ClientConnInterface.
func (s *spread) Invoke(ctx context.Context, method string, req, reply any, opts ...grpc.CallOption) error {
	return s.client.unary(ctx, method, req, reply, nil, func(ctx context.Context, method string, req, reply any, _ *grpc.ClientConn, opts ...grpc.CallOption) error {
		at, err := s.at(ctx)
		if err != nil {
			return err
		}
		return at.Invoke(ctx, method, req, reply, opts...)
	}, opts...)
}

// NewStream implements grpc.ClientConnInterface.
func (s *spread) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	return s.client.stream(ctx, desc, nil, method, func(ctx context.Context, desc *grpc.StreamDesc, _ *grpc.ClientConn, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		at, err := s.at(ctx)
		if err != nil {
			return nil, err
		}
		return at.NewStream(ctx, desc, method, opts...)
	}, opts...)
}

// at is the connection of an attempt, whose context ctx is.
func (s *spread) at(ctx context.Context) (grpc.ClientConnInterface, error) {
	e := gabion.EndpointOf(ctx)
	at := s.conn(e)
	conn, real := at.(*grpc.ClientConn)
	if at == nil || real && conn == nil { // the latter is what a map of ClientConns has of a name that it lacks
		return nil, classify.NotSent(status.Errorf(codes.Unavailable, "gabiongrpc: the endpoint %q has no connection", e.Name))
	}
	if a, ok := ctx.(*attempt); ok {
		a.conn = conn
	}
	return at, nil
}
