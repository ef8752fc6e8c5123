// Package outbox sends messages about what a transaction did, if it commits and only then.
//
// [Outbox.Enqueue] writes a message into a table, in the transaction that it is about. A
// [Relay] reads what was committed and publishes it. Without an outbox a program that dies
// between COMMIT and the broker's answer has done something without publishing it, or
// published something that it has not done.
//
//	err := gabionsql.RunTx(ctx, dep, db, func(ctx context.Context, tx *sql.Tx) error {
//		… // the order
//		return box.Enqueue(ctx, tx, outbox.Message{Topic: "orders", Aggregate: "order-7", Payload: order})
//	})
//
// What holds:
//
//   - Nothing that was committed is lost: a row stays until the broker has confirmed its
//     message, or an operator discards it.
//   - A message may be published more than once: a relay that dies after the broker's answer
//     has not removed the row. Each time it has the same id, in the header message.Key too.
//     Consumers deduplicate by it: see package messages/inbox.
//   - Of the messages of one aggregate each comes to the broker for the first time before any
//     later one does, whichever relay leads. "Later" is the order of the calls of Enqueue: on PostgreSQL
//     a transaction waits with its call until earlier transactions that enqueued for the same
//     aggregate have ended; SQLite has one writer anyway. Duplicates may come late, between
//     or after later messages. Messages without an aggregate have no order.
//   - A message that the broker refuses is parked, and with it those of its aggregate
//     that come after it. Others go on. See [Outbox.Parked], [Outbox.Retry] and [Outbox.Discard].
//
// One relay publishes at a time: it has a lease on a row of the database, by the database's
// clock. Run one in each process; the others take over when it is gone.
//
// The calls of the broker are those of a gabion.Dependency: its policy says how often a call
// is repeated and when none is made.
//
// PostgreSQL and SQLite, through database/sql and any driver. contrib/gabionpgx has Enqueue
// for transactions of pgx.
package outbox
