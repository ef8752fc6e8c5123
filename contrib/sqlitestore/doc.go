// Package sqlitestore opens a SQLite database the way the records of package
// idempotency need it, through a driver in pure Go: with every commit on the disk
// before it is acknowledged, and many claims and results in one commit.
package sqlitestore
