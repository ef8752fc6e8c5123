package idempotency

import (
	"context"
	"errors"
)

// A Store keeps records. What becomes of one is not its business: it reads the
// record, asks [Record.Begin], [Record.Apply] or [Record.Sweep] with its own
// clock's time, and writes the answer only if the record has not changed since.
// Package idempotencytest checks all that.
//
// All methods are safe for concurrent use. An error other than those below means
// that the store did not answer: the change may have been made or not. Begin may be
// repeated with the same claim, Apply with the same change.
type Store interface {
	// Begin decides a claim, as one step for each ID.
	Begin(ctx context.Context, c Claim) (Answer, error)

	// Apply makes a change: by the run that holds the record, or by an operator. It
	// returns ErrLeaseLost, and changes nothing, when the record is another's.
	Apply(ctx context.Context, ref Ref, c Change) error

	// Get returns the record as it is stored, or the zero Record.
	Get(ctx context.Context, id ID) (Record, error)

	// List returns the records of about limit keys, in an order of the store's, from where the
	// cursor says on. The first cursor is ""; next is the one after these records, and "" if
	// they are the last. A page may be empty although next is not "". Records that come, go or
	// change during the listing may be left out or returned as they were, and some stores may
	// return one twice.
	List(ctx context.Context, cursor string, limit int) (entries []Entry, next string, err error)

	// Sweep looks at up to limit records that are due, deletes the expired and
	// marks the lost, and returns how many it changed.
	Sweep(ctx context.Context, limit int) (int, error)

	// Now returns the store's time, by which leases and records end. It is near enough
	// to show; what depends on it is decided by the store itself.
	Now(ctx context.Context) (Moment, error)

	// Caps says what the store can do. It does not change while the store is in use.
	Caps() Caps
}

// An Entry is a record in a list: without its result and the data of its recovery points,
// for which one asks Get. See [Record.Bare].
type Entry struct {
	ID     ID
	Record Record
	Err    error // why the record can't be read (ErrUnreadable); then Record says nothing
}

// Caps is what a store can do.
type Caps struct {
	Durable bool // what it acknowledged survives a crash of the machine

	// ServerClock: moments are those of one clock, whatever the callers' say: that of one
	// machine, or of the one that leads. Where it follows the wall clock, setting it
	// forward ends leases and retentions early: a claim may take a run that lives for
	// lost, and a key whose record is gone runs again. Setting it back makes them last
	// longer by as much.
	ServerClock bool

	// Connections is how many operations the store can do at once: the size of its pool.
	// Zero means that it is not bounded, or not known. See [RunnerConfig].ConnectionsPerRun.
	Connections int

	MaxValue int // most bytes of a body that it keeps; zero means no bound of its own

	// Warnings say which settings of the server weaken what is kept there, as they
	// were when the store was opened: each a sentence with its remedy. A Handler
	// tells them when it is made.
	Warnings []string
}

// Why a store or the machine refuses.
var (
	// ErrLeaseLost: the run no longer holds the record, and nothing was changed.
	ErrLeaseLost = errors.New("idempotency: the lease was lost")

	// ErrFull: there is no room for another record.
	ErrFull = errors.New("idempotency: the store is full")

	// ErrTooLarge: the record would be larger than the store keeps.
	ErrTooLarge = errors.New("idempotency: too large to keep")

	// ErrUnreadable: there is a record, written by a newer version or damaged. The
	// work must not be run.
	ErrUnreadable = errors.New("idempotency: the record can't be read")

	// ErrUnknown: the answer to COMMIT was lost. The next claim of the key finds out.
	ErrUnknown = errors.New("idempotency: it is unknown whether the transaction was committed")
)

// A TxStore can commit the work's effects together with the record.
type TxStore interface {
	Store

	// Tx claims the key inside a transaction and runs the work with a context from
	// which it gets the transaction. A claim without a Retention is an error. DecisionRun means that it ran. After
	// EndingSucceeded it commits the effects with the result. After EndingRejected it
	// rolls the effects back and keeps the result. After any other outcome, an error or
	// a panic it rolls everything back, and the next request runs; after EndingAbandoned,
	// with which there is an error, the work may still use the transaction, and nothing
	// else may use its connection. It repeats the work
	// when the database asks for it. It returns ErrUnknown when the answer to COMMIT was
	// lost; after any other error nothing has happened.
	Tx(ctx context.Context, c Claim, run Work) (Answer, error)
}

// Work is what a TxStore runs in a transaction: its record has token and attempt.
type Work func(context.Context, Record) (Result, Ending, error)
