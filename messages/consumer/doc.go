// Package consumer handles messages under the policy of a [gabion.Dependency]. It stands
// between an adapter for a broker and the work:
//
//	billing := gabion.New("billing", policy.Policy{…})
//	c, err := consumer.New(billing, store, consumer.Options{Guarantee: consumer.Reexecute, Letters: letters})
//	…
//	d := c.Handle(ctx, m, work) // ack, later, or dead: tell the broker
//
// A delivery is one attempt of the dependency. Its breaker, bulkhead, rate limit, budget
// and attempt timeout decide whether and how long the work runs; what its breaker would
// refuse is not fetched at all ([Consumer.Room]), so that an outage burns no deliveries.
// A message that is delivered again is a retry, which the budget pays for. How long
// it waits before that is decided by the policy's retry section, and the broker does the
// waiting.
//
// The work runs in an [inbox.Inbox]: what was done is not done again. Its guarantee decides whether
// work that failed may run again: under [Hold] it may not, since it may have had its effect. A message
// that is given up is put into a [deadletter.Store], with what happened at each attempt, before the
// broker may forget it. [Consumer.Redrive] takes it up again when an operator orders it.
package consumer
