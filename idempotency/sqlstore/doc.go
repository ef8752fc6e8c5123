// Package sqlstore keeps idempotency records in PostgreSQL, SQLite, MariaDB or MySQL, with
// database/sql and any driver whose errors package classify knows.
//
// It is an idempotency.TxStore: work whose effects are in the same database commits
// together with its record, and then happens exactly once. Use [Store.Do] around a
// function, guarantee tx of idempotency.Handler around an http.Handler (which gets
// the transaction from [TxFrom]), or [Store.BeginTx] and [Store.CompleteTx] in a
// transaction of one's own.
//
// A handler reports the errors of its transaction with [Failed], so that it runs again if
// the database asks for that. (contrib/gabionpgx/pgxstore, on the same table, sees these errors by
// itself.)
//
// On SQLite, claims and changes that arrive together share a commit and its sync.
//
// [Store.Check], which [Store.Migrate] also calls, checks whether the database's settings
// keep what it acknowledges.
//
// Moments are those of the database's clock, so the clocks of processes need not agree.
// It is a wall clock: the server's, or with SQLite that of the program's own machine.
// Setting it forward ends leases and retentions early: a running run may count as lost,
// and a key whose record has expired runs again. Setting it back makes them last longer
// by the same time.
package sqlstore
