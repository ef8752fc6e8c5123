// Package boltstore keeps idempotency records in one file, for a service that
// has no database of its own. It needs no server: the file is a bbolt database, which
// one process has at a time.
//
// What was acknowledged has been synced to the disk. One goroutine writes, and all
// that was asked for while it synced is its next transaction, so that many requests
// share the price of a sync. Replays and other answers that change nothing are read
// beside it and don't wait, unless for the very record that is being written.
//
// After the first write or sync that fails the store refuses everything with
// [ErrPoisoned]: what the kernel then holds of the file need not be what the disk
// holds, and a store that goes on would acknowledge what a power cut takes back.
// Close it and open it again, best with a restart of the process.
//
// Time is the machine's wall clock when the file was opened, and from then on the
// monotonic clock; the largest time that was used is in the file. So a clock that is
// set back or forward while the process runs ends no lease and brings no record back,
// and one that was set back before only makes records live longer.
//
// Records lie in the order in which they are due, so that a sweep frees whole pages.
// The file does not shrink: space of deleted records is used again. Where a record
// lies is kept in memory, about 100 MB for a million, and found out by reading the
// whole file when it is opened.
package boltstore
