// Package gabionmsg handles the messages of a Watermill router under the policy of a
// [gabion.Dependency], and so those of every broker that Watermill has a Pub/Sub for.
//
//	c, err := consumer.New(billing, store, consumer.Options{Guarantee: consumer.Reexecute, Letters: letters})
//	…
//	mw, err := gabionmsg.Middleware(c, gabionmsg.Options{})
//	…
//	router.AddConsumerHandler("billing", "orders", gabionmsg.Subscriber(sub, c), charge).AddMiddleware(mw)
//
// [Middleware] runs the handler as the work of a [consumer.Consumer]: once for each message,
// again later if it failed, and never again when it is a dead letter. [Subscriber] takes no
// message while the policy would not admit it. [Publisher] publishes under a policy.
//
// # How a message waits
//
// Watermill's messages know Ack and Nack, and Nack means: again, whenever the Pub/Sub likes.
// Many deliver it again at once. So the middleware sees to it that a message waits as long
// as the policy says:
//
//   - by default it holds the message, for up to [Options].MaxHold, and then says Nack. What
//     is left of the wait is held when the message comes again. This keeps the order.
//   - where the Pub/Sub waits by itself after Nack, [Options].NackDelay says how long: so
//     much less is held.
//   - [Options].Later sends a copy of the message that arrives later, and the message itself
//     is acknowledged after that. Nothing is held, but the order is lost.
//
// # In place of
//
// Watermill's Retry, Deduplicator, PoisonQueue, CircuitBreaker, Throttle, DelayOnError and
// Timeout are not needed beside this, and must not be outside of it: there Retry and
// PoisonQueue would take the answer "again later" for a failure.
package gabionmsg
