// Package gabionotel reports what gabion does as OpenTelemetry traces and metrics.
//
//	observer := gabionotel.New(gabionotel.Config{})
//	payments := gabion.New("payments", policy.Policy{}, gabion.WithObserver(observer))
//	client := &http.Client{Transport: &gabionhttp.Transport{
//		Dependency: payments,
//		Base:       &gabionotel.Transport{}, // writes traceparent
//	}}
//
// # Traces
//
// Each call has one internal span, "payments charge": dependency and operation. Each of
// its attempts has a client span below it, "payments charge attempt". The attempt's span
// is in the context that the work gets, so a request that is sent with this context
// carries the attempt's traceparent, and the server's span hangs below the attempt.
// docs/tracing.md lists the attributes and events.
//
// The call's span decides about sampling. A call that is not sampled has no spans of its
// attempts: their traceparent is that of the call, with the flag "not sampled". Below a span that
// is not sampled, the call has no span either: see [Config.AskSampler]. Samplers see
// the span's name and its parent, but no attributes: to make them for each call would cost more
// than the rest.
//
// # Metrics
//
// [Config.MeterProvider] gets counters and durations of calls and attempts, and with
// [Config.Stats] also the state of breakers, bulkheads and budgets. All label sets are bounded.
// What does not fit is counted under the operation or code "_other".
//
// # HTTP
//
// Something below gabion must write the headers of a trace, once for each attempt:
// either otelhttp, as gabionhttp.Transport's Base, or [Transport], which only does this and
// makes no spans. With otelhttp above gabion, one of the two is still needed below:
// otelhttp writes its headers once, before gabion, and each attempt would carry the same.
package gabionotel
