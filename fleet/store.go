// Package fleet joins the processes of a program: it shares limits among them, carries overrides to
// all of them, and lets one that starts know what the others learned. What is shared lies in a [Store] that
// teams run already. Decisions stay in the process and never wait for the store.
package fleet

import (
	"context"
	"time"
)

// Store keeps the records of a fleet. Implementations are in the module of their engine, and package
// fleettest tests them.
//
// A Store is safe for concurrent use. Its keys are shared by all fleets of that store; package fleet
// begins each key with the fleet's name and a slash. Keys are UTF-8 without zero bytes.
type Store interface {
	// Do carries out a batch in one round trip, and returns the time of the store's clock while it
	// did. An error may mean that the puts were made or that they were not.
	Do(ctx context.Context, b Batch) (Result, error)
}

// Batch is what is done in one round trip: first the puts, then the reads, which see what was put.
// All its keys, and List, are of one fleet: they have the same text before their first slash.
// The zero Batch only asks what time it is.
type Batch struct {
	// Swap is put only if its key still has the version that it names. If it has not, nothing of
	// the batch is put. Nil means that nothing is compared.
	Swap *Put

	// Puts are put whatever is there. Where Swap is put, they are put after it, and may be
	// missing if the store failed in between.
	Puts []Put

	// Get are keys to read. Keys that do not exist are missing from the result.
	Get []string

	// List reads every key that begins with it. Zero reads none.
	List string
}

// Put is a value for a key.
type Put struct {
	Key string

	// Value is at most 1 MB. Nil deletes the key.
	Value []byte

	// Version is for [Batch.Swap] the version that the key must have. Zero means that the key must not
	// exist.
	Version uint64

	// Lasts is for how long the key exists. Zero means until it is deleted. A store may keep it longer,
	// but not shorter.
	Lasts time.Duration
}

// Result is what came of a [Batch].
type Result struct {
	// Now is the time of the store's clock. It must not be the time of the process's.
	Now time.Time

	// Swapped reports that the batch had no Swap, or that it was put. If it is false, nothing was put.
	Swapped bool

	// Items are what was read, by key.
	Items map[string]Item
}

// Item is a value that a key has.
type Item struct {
	Value []byte

	// Version differs after every put of the key, and is never zero.
	Version uint64
}
