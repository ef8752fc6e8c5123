package gabiongrpc

import (
	"context"

	"google.golang.org/grpc"
)

// Server puts what a gRPC server does around its methods in the right order. The zero value
// tells callers not to repeat what was repeated here, as [UnaryErrors] does, and nothing
// else.
//
// The order is, from the outside in:
//
//  1. [UnaryErrors], so that it sees all errors
//  2. Deadline: a call that can't be done in time costs nothing, not even authentication
//  3. Authenticate, which knows the tenant
//  4. Admission, by tenant and priority
//  5. Idempotency: what is refused before leaves no record, and its store is asked by as
//     many calls at once as are let in
//  6. UnaryErrors again, if there is Idempotency, so that the stored answer is the one
//     that callers get
//
// Streams have the same order without idempotency.
type Server struct {
	// Deadline refuses calls that have no time left. Nil means that only grpc-go refuses, where a
	// deadline had passed when the call arrived.
	Deadline *Deadline

	// Admission lets as many calls in as the server can work on. Nil means all.
	Admission *Admission

	// Authenticate and AuthenticateStream say who calls. Nil means no check, or that an interceptor of
	// yours before these makes it.
	Authenticate       grpc.UnaryServerInterceptor
	AuthenticateStream grpc.StreamServerInterceptor

	// Idempotency is that of package grpcidem. Nil means none.
	Idempotency grpc.UnaryServerInterceptor
}

// Options are for [grpc.NewServer]. They chain interceptors: those of options that stand
// before them are further out, those after them are nearer to the method.
func (s Server) Options() []grpc.ServerOption {
	unary := []grpc.UnaryServerInterceptor{UnaryErrors}
	stream := []grpc.StreamServerInterceptor{StreamErrors}
	if s.Deadline != nil {
		unary, stream = append(unary, s.Deadline.Unary), append(stream, s.Deadline.Stream)
	}
	if s.Authenticate != nil {
		unary = append(unary, s.Authenticate)
	}
	if s.AuthenticateStream != nil {
		stream = append(stream, s.AuthenticateStream)
	}
	if s.Admission != nil {
		unary, stream = append(unary, s.Admission.Unary), append(stream, s.Admission.Stream)
	}
	if s.Idempotency != nil {
		unary = append(unary, s.Idempotency, UnaryErrors)
	}
	return []grpc.ServerOption{grpc.ChainUnaryInterceptor(unary...), grpc.ChainStreamInterceptor(stream...)}
}

// serverStream is a stream whose handler sees another context.
type serverStream struct {
	grpc.ServerStream
	ctx context.Context
}

// Context returns the one that the handler is to see.
func (s *serverStream) Context() context.Context { return s.ctx }
