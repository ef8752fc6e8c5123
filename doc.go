// Package gabion calls dependencies that fail: payment APIs, other services,
// databases, brokers. It keeps a program from failing with them, from making their
// outage worse, and from doing anything twice.
//
// Make one [Dependency] for each thing that you call, and make every call with [Do]:
//
//	payments := gabion.New("payments", policy.Policy{})
//	charge, err := gabion.Do(ctx, payments, func(ctx context.Context) (Charge, error) {
//		return bank.Charge(ctx, order, gabion.Key(ctx))
//	}, gabion.WithKey(order.ID))
//
// The zero [policy.Policy] is sound: a timeout for the call and one for each attempt,
// three attempts with full jitter, a retry budget to which each success adds 0.3 of a
// re-send, a circuit breaker that opens when hardly anything succeeds, a bulkhead of
// 100. There is no setting for what may be retried: a failure must be transient, and
// repeating the work must be safe.
//
// A call that does not succeed ends with an [*Error]. It says which dependency failed,
// why, and whether the work may have happened. docs/life-of-a-call.md walks through the
// code.
package gabion
