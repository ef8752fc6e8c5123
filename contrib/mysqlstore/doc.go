// Package mysqlstore keeps idempotency records in MariaDB 10.6 or later, or MySQL 8.0 or
// later, through github.com/go-sql-driver/mysql and package sqlstore.
//
// Work whose effects are in tables of InnoDB in the same database commits together with its
// record, and then happens exactly once. What MySQL commits by itself (CREATE, ALTER and
// other statements about tables, GRANT, LOCK TABLES) ends the transaction that work was
// given: such work gets an error that is an idempotency.ErrUnknown, what it did stands, and
// its next claim runs again.
//
// # Conflicts
//
// After a deadlock (1213) the server has rolled back the whole transaction, after a wait
// for a lock (1205) only the statement. Either way the work is run again, from its
// beginning, up to three times together. A handler tells its errors with sqlstore.Failed.
// Work that goes on after a deadlock has no effects of which only the last would be kept.
//
// # Isolation levels
//
// A transaction has the level that connections of the database have, which is REPEATABLE
// READ unless it was set. Any level will do but READ UNCOMMITTED, which [Open] refuses.
//
// # Settings
//
// Records are durable with innodb_flush_log_at_trx_commit=1, with sync_binlog=1 where there
// is a binary log, and with innodb_doublewrite on. Otherwise the store says that they are
// not. That a replica follows says nothing: a failover may forget what was acknowledged,
// and its work then runs twice.
//
// The user needs SELECT, INSERT, UPDATE and DELETE on the table, and CREATE to make it.
package mysqlstore
