// Package pgxfleet keeps what a fleet shares in PostgreSQL 13 or later, through a pool of
// github.com/jackc/pgx/v5.
//
// A batch is one pipelined transaction: it is carried out as a whole or not at all, in one round
// trip (the first on a connection prepares its statements, which is one more). The time is the database's.
//
// # The table
//
// [Store.Migrate] makes it. A fleet has a row for each member and two more. Rows are rewritten at each renewal,
// three times in the length of a lease, so autovacuum must not be off. A row that has lasted its time
// is passed over, and deleted with the fleet's next swap.
//
// The user needs SELECT, INSERT, UPDATE and DELETE on the table. An operator who only looks needs SELECT.
//
// # When the server fails
//
// What was acknowledged is there after a crash, unless synchronous_commit is off. A replica that follows
// asynchronously may lack the last writes when it takes over. Then shares that were granted in them are
// granted again, and until they end both are in force: package fleet says by how much that exceeds a limit.
//
// # Isolation levels and poolers
//
// Every level does: what the database refuses above READ COMMITTED is repeated. PgBouncer's
// transaction pooling is safe, with prepared statements as it tracks them.
package pgxfleet
