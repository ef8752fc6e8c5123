// Package gabionsql calls SQL databases through database/sql, with a gabion.Dependency
// that decides how often, how long and when.
//
// [Open] and [Connector] wrap a driver, so that all that is done with a *sql.DB passes the
// dependency. [Query], [Exec] and [QueryRow] repeat single statements, and [RunTx] whole
// transactions, where that is safe.
package gabionsql
