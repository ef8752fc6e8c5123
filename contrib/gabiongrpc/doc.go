// Package gabiongrpc makes gRPC calls through a gabion.Dependency, and admits the calls of a
// gRPC server.
//
// A connection of [NewClient] repeats and hedges calls as its dependency's policy says. A
// [Client] has what a policy does not, and the interceptors for a chain of one's own.
// [Server] is the other side. docs/grpc.md has all of it.
package gabiongrpc
