// Package sqlstore keeps idempotency records in PostgreSQL or SQLite, through
// database/sql and whatever driver the program uses.
//
// It is an idempotency.TxStore: work whose effects are in the same database commits
// together with its record, and then happens exactly once. Use [Store.Do] around a
// function, guarantee tx of idempotency.Handler around an http.Handler (which gets
// the transaction from [From]), or [Store.BeginTx] and [Store.CompleteTx] in a
// transaction of one's own.
//
// A handler tells the errors of its transaction with [Failed], so that it is run again
// where the database asks for that. (contrib/pgxstore, on the same table, sees them
// without being told.)
//
// On SQLite claims and changes that come together share a commit and its sync.
//
// [Store.Check], which [Store.Migrate] ends with, looks whether the database is set to
// keep what it acknowledges.
//
// Moments are those of the database's clock, so the clocks of processes need not
// agree. It is a wall clock: the server's, and on SQLite that of the program's own
// machine. Setting it forward ends leases and retentions early: a run that lives may be
// taken for lost, and a key whose record has expired runs again. Setting it back makes
// them last longer by as much.
package sqlstore
