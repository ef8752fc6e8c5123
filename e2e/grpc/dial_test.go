package grpc

import (
	"time"

	"google.golang.org/grpc"
	grpcbackoff "google.golang.org/grpc/backoff"
)

// soon dials again soon after a connection could not be made.
var soon = grpc.WithConnectParams(grpc.ConnectParams{
	Backoff: grpcbackoff.Config{BaseDelay: 20 * time.Millisecond, Multiplier: 1.5, MaxDelay: 100 * time.Millisecond}, MinConnectTimeout: 300 * time.Millisecond,
})
