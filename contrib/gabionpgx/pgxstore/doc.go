// Package pgxstore keeps idempotency records in PostgreSQL 13 or later, through a
// pool of github.com/jackc/pgx/v5.
//
// It is an idempotency.TxStore: work whose effects are in the same database commits
// together with its record, and then happens exactly once. Use [Store.Do] around a
// function, guarantee tx of idempotency.Handler around an http.Handler (which gets
// the transaction from [TxFrom]), or [Store.BeginTx] and [Store.CompleteTx] in a
// transaction of one's own.
//
// # Round trips
//
// A new key is claimed in one, and an earlier result found in the same one. The end of
// a run is one more, as long as this store granted it. Exactly-once work costs two
// besides its own: one before it (BEGIN, the key's advisory lock, the record), one
// after it (the finished record, COMMIT).
//
// # The table
//
// It is the table of package sqlstore: programs may change from one to the other, and
// use both at a time. Moments are those of the database's clock.
//
// # Isolation levels
//
// Every level does. Above READ COMMITTED the database refuses some of what concurrent
// claims do, and the store repeats it; work in a transaction is then repeated too, at
// most three times together.
//
// # Poolers
//
// The locks end with their transaction, so PgBouncer's transaction pooling is safe.
// Prepared statements are its business too: let it track them (max_prepared_statements,
// since PgBouncer 1.21) or set ConnConfig.DefaultQueryExecMode to
// pgx.QueryExecModeExec or pgx.QueryExecModeSimpleProtocol. Statement pooling breaks
// transactions, these and all others.
package pgxstore
