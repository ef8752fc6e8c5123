// Package grpccode names the codes of gRPC for gabion's own packages. Users have them from grpc-go, with the same numbers.
package grpccode

import "github.com/gabion-go/gabion/policy"

// The codes of gRPC.
const (
	OK policy.GRPCCode = iota
	Cancelled
	Unknown
	InvalidArgument
	DeadlineExceeded
	NotFound
	AlreadyExists
	PermissionDenied
	ResourceExhausted
	FailedPrecondition
	Aborted
	OutOfRange
	Unimplemented
	Internal
	Unavailable
	DataLoss
	Unauthenticated
)
