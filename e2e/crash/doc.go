// Package crash proves what package idempotency promises by breaking real server
// processes: it kills them at random moments and at named points, stops them,
// cuts their power, fails their disk and sets their clock.
//
// A rig starts server processes (this test binary again, see serveIfChild) on one
// of the stores in the table of stores.go. Effects are written to a witness that
// no server reads: a file that is only appended to or, under guarantee tx, a
// table in the same database. The client asks over HTTP/1.1 or HTTP/2, as it is drawn,
// and keeps a log of the answers it got. From these two alone [History.Check] computes
// the invariants I1 to I7:
//
//	I1  effects of a key: tx and hold at most one, and one if it was answered 2xx;
//	    reexecute no more than runs, and one if nothing was broken
//	I2  every replay equals the first answer in status, kept headers and body
//	I3  no two different 2xx answers for one key under tx and hold
//	I4  no acknowledged answer is lost or reverts before it expires
//	I5  a holder that was taken over never changes a record
//	I6  no key stays in progress longer than a lease after its holder was lost
//	I7  no scope reads another's
//
// Ordinary sizes run in a minute; GABION_SOAK=1 runs the large ones. A failure
// prints the key's history and the seed, which GABION_SEED sets: the same draws,
// though not the same scheduling.
package crash
