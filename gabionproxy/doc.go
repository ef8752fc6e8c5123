// Package gabionproxy gives programs in any language what gabion does for Go programs: it stands beside them as a
// proxy. It is what the command gabion proxy runs, and a Go gateway can mount its handlers.
//
// Towards servers (egress) each request is a call of a [gabion.Dependency], through gabionhttp.Transport: that one
// decides about attempts, budgets, breakers, limits and endpoints, and here nothing is decided twice. All listeners
// share the dependencies of one registry. Before a program (ingress) a listener adds deadlines, admission and idempotency.
//
// Every answer has [HeaderAttempts], and [HeaderReason] where it is not a plain success. A refusal of the proxy's own
// is a problem of RFC 9457, or a status of gRPC for clients that speak it. What was begun towards a client is never
// repeated and never ends in an error's text: the connection, or the stream of HTTP/2, is cut.
package gabionproxy
