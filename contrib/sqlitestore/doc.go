// Package sqlitestore opens a SQLite database the way the records of package
// idempotency need it, through a driver in pure Go.
package sqlitestore
