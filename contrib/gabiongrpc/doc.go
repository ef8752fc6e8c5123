// Package gabiongrpc makes gRPC calls through a gabion.Dependency, and admits the calls of a
// gRPC server.
package gabiongrpc
