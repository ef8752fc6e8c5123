// Package inbox makes a message that is delivered again harmless. Brokers deliver
// at least once: what they call deduplication ends at the consumer, who must know
// which messages are done.
//
// [Inbox.Handle] claims the message's id in an idempotency.Store, runs the work and
// returns a [Disposition]: what to tell the broker. Nothing is acknowledged before
// the record says that the work is done, and no message is marked before its work
// has succeeded. The guarantees are those of package idempotency:
//
//	Tx         effects and record commit together, then the message is
//	           acknowledged: exactly once, for effects in that database
//	Hold       work that may have had an effect is not repeated: it goes to the
//	           dead letters
//	Reexecute  work that failed or was lost is repeated
//
// [KeepVisible] tells the broker that a slow message is still worked on, so that it
// is not redelivered to others meanwhile. Handle does so by itself for a message
// that has an Extend function.
package inbox
