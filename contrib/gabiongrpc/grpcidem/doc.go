// Package grpcidem gives a gRPC server idempotency keys: what idempotency.Handler is
// for HTTP, with the same stores, records and guarantees.
//
// A client sends its key as metadata "idempotency-key". A call that is repeated with
// it gets the stored answer, marked by the header "idempotent-replayed: true", and
// the method does not run again. Code, message, details and response are stored;
// headers and trailers are not.
//
// [UnaryServerInterceptor] belongs inside authentication, so that a caller whose
// access was taken away gets no stored answers, and outside the limits of a method,
// whose refusals call idempotency.NoEffect:
//
//	grpc.ChainUnaryInterceptor(metrics, authenticate, idempotent, limit)
//
// What bounds the whole server stands outside: gabiongrpc.Server has the order.
//
// Streaming calls have no one answer that could be stored: they pass by, as unary
// interceptors don't see them, and their keys mean nothing.
//
// The interceptor refuses with these codes, each with an ErrorInfo whose domain is
// [Domain] and whose reason is a [Refusal]:
//
//	INVALID_ARGUMENT     the key is missing or malformed
//	ABORTED              a call with the key is in progress; RetryInfo says when to ask again
//	FAILED_PRECONDITION  the key belongs to another call, or the response was not kept
//	UNKNOWN              it is unknown whether the call was carried out: don't repeat it
//	UNAVAILABLE          the store did not answer; RetryInfo says when to ask again
//	INTERNAL             the key's owner is not known, or the request can't be read
package grpcidem
