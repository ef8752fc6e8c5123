package bulkhead

// word is the whole state that decides: limit | detour | queued | used, from the
// top bit down. Being one word, it changes as one: nobody sees a slot free and
// misses that somebody queues for it.
//
// The order makes the fast path one comparison. All that stands in the way of
// taking a slot from the word alone (the detour, somebody queued, slots in use)
// is the number below limit, and there is a slot to take if that number is below
// limit.
//
// detour is set while the bulkhead is fair or has its shelves open: never both,
// and only under the lock.
//
// used has a bit more than limit, which nothing sets but releasing more than
// was taken.
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
	detourBit word = 1 << (limitShift - 1)
	below     word = 1<<limitShift - 1 // all but limit
)

func (w word) used() int    { return int(w & maxUsed) }
func (w word) queued() int  { return int(w >> queuedShift & maxQueued) }
func (w word) limit() int   { return int(w >> limitShift) }
func (w word) detour() bool { return w&detourBit != 0 }

// room reports whether a slot is free in the word.
func (w word) room() bool { return w.used() < w.limit() }

// open reports whether a slot in the word is free for somebody new: nobody waits
// for it.
func (w word) open() bool { return w&below&^detourBit < w>>limitShift }

// easy reports whether a slot can be taken from the word, and nothing else
// counts.
func (w word) easy() bool { return w&below < w>>limitShift }

// quiet reports whether a slot can be given back without looking further: nobody
// waits, and it was one that had been taken.
func (w word) quiet() bool { return w&below <= maxLimit }

// overdrawn reports whether used has fallen below zero.
func (w word) overdrawn() bool { return w.used() > maxLimit }

func (w word) withLimit(n int) word {
	return w&below | word(min(max(n, 0), maxLimit))<<limitShift
}
