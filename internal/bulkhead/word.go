package bulkhead

// word is the state that decides: limit | fair | queued | used, from the top bit down.
// It changes as one: no reader sees a free slot and misses a waiter.
//
// The order makes the common case one comparison. Whatever forbids taking a slot
// directly (fairness, a waiter, slots in use) is the number below limit, and a slot can
// be taken if that number is less than limit.
//
// used has a bit more than limit. Only releasing more than was taken sets it.
type word uint64

const (
	usedBits   = 22
	queuedBits = 20
	limitBits  = 21

	queuedShift = usedBits
	limitShift  = usedBits + queuedBits + 1

	maxUsed   = 1<<usedBits - 1
	maxQueued = 1<<queuedBits - 1
	maxLimit  = 1<<limitBits - 1

	oneUsed   word = 1
	oneQueued word = 1 << queuedShift
	fairBit   word = 1 << (limitShift - 1)
	below     word = 1<<limitShift - 1 // all but limit
)

func (w word) used() int   { return int(w & maxUsed) }
func (w word) queued() int { return int(w >> queuedShift & maxQueued) }
func (w word) limit() int  { return int(w >> limitShift) }
func (w word) fair() bool  { return w&fairBit != 0 }

// room reports whether a slot is free.
func (w word) room() bool { return w.used() < w.limit() }

// open reports whether a slot is free and no call waits for it.
func (w word) open() bool { return w&below&^fairBit < w>>limitShift }

// easy is open of a bulkhead that is not fair.
func (w word) easy() bool { return w&below < w>>limitShift }

// quiet reports that a slot was given back and no more is to do: the bulkhead is not fair, no call
// waits, and the slot had been taken.
func (w word) quiet() bool { return w&below <= maxLimit }

// overdrawn reports whether used has fallen below zero.
func (w word) overdrawn() bool { return w.used() > maxLimit }

func (w word) withLimit(n int) word {
	return w&below | word(min(max(n, 0), maxLimit))<<limitShift
}
