// Package inbox makes a message that is delivered again harmless. Brokers deliver at
// least once. Their deduplication ends at the consumer, which must know which messages
// are done.
//
// [Inbox.Handle] claims the message's id in an idempotency.Store, runs the work and
// returns a [Disposition]: the answer for the broker. Nothing is acknowledged before
// the record says that the work is done, and no message is marked before its work
// has succeeded. The guarantees are those of package idempotency:
//
//	Tx         effects and record commit together, then the message is
//	           acknowledged: exactly once, for effects in that database
//	Hold       work that may have had an effect is not repeated: it goes to the
//	           dead letters
//	Reexecute  work that failed or was lost is repeated
//
// [KeepVisible] extends a slow message's time at the broker, so that it is not delivered
// to other consumers. Handle does this by itself for a message with an Extend function.
package inbox
