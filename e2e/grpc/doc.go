// Package grpc has no code: its tests call real servers of grpc-go and connect-go, with and
// without gabion.
package grpc
