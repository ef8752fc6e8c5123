// Package ratelimitservice asks a rate limit service that speaks Envoy's protocol
// (envoy.service.ratelimit.v3), for the same descriptors that Envoy asks it for. Where a team has such a
// service, its limits then hold for calls that do not pass an Envoy, too.
//
// A call is not sent through the service, and by default it does not wait for it: a [Limiter] decides by the answer
// that it has, and asks in the background. All hits are told to the service, those that come while a
// question is out with the next one. So there is at most one question at a time for the same
// descriptors. A service that does not answer limits nothing.
//
// The messages are encoded here, from the fields that are used, so the package needs no other modules than
// gRPC's.
package ratelimitservice
