// Package gabion calls dependencies that fail: payment APIs, other services,
// databases, brokers. It keeps a program from falling over with them, from making
// their outage worse, and from doing anything twice.
//
// Make one [Dependency] per thing that is called and hand every call to [Do]:
//
//	payments := gabion.New("payments", policy.Policy{})
//	charge, err := gabion.Do(ctx, payments, func(ctx context.Context) (Charge, error) {
//		return bank.Charge(ctx, order, gabion.Key(ctx))
//	}, gabion.WithKey(order.ID))
//
// The zero [policy.Policy] is sound: two layers of timeouts, three attempts with
// full jitter, a retry budget that each success fills by 0.3 of a re-send, a circuit
// breaker that also sees slowness, a bulkhead of 100. What may be retried is not
// configured: a failure must be transient, and repeating the work must be safe.
//
// A call that does not succeed ends with an [*Error]: who, why, and may it have
// happened. docs/life-of-a-call.md walks through the code.
package gabion
