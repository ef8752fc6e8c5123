// Package grpc stands in for the real one.
package grpc

type CallOption interface{ option() }
