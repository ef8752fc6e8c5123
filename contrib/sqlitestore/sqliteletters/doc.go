// Package sqliteletters opens a SQLite file for dead letters, through a driver in pure Go:
// every letter is on the disk before it is acknowledged, and many are in one commit. It is the
// default for the programs of one machine.
package sqliteletters
