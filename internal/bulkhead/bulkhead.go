// Package bulkhead bounds how many calls are out at once, and how many wait for
// their turn.
//
// A bulkhead has slots and a queue. Who finds a slot free takes it; who does not
// may join the queue, and is handed a slot as soon as one is given back. Slots
// are handed over and never announced: a waiter that is woken has its slot
// already, so nobody competes, nobody is woken for nothing, and the order of the
// queue is exact. Who comes new never overtakes those who wait.
//
// Nothing here blocks, reads a clock or starts a goroutine. How long a waiter
// stays is its owner's business: [Bulkhead.Leave] ends the stay at any time. So
// a queue timeout, a deadline and a cancelled caller are the same thing here.
//
// While few calls come at once, all the state that decides is one atomic word. One
// rule keeps wake-ups from getting lost: change the word; then, if anybody is queued, hand over what is
// free, under the lock; then wake, outside the lock.
//
// Calls that lose races for the word's cache line get shelves: lines of their own
// that keep slots given back. A slot on a shelf counts as used in the word, so the
// word may think that too many are out and never too few. What keeps the limit, the
// order and the wake-ups exact is one more rule: shelves are opened under the lock
// only, while nobody waits, fairness is off and no more are used than the limit;
// and who takes the lock, for whatever, first shuts them and takes back what is
// on them. A shelf gives and keeps slots only while it is open, which is in the
// same word as what it keeps. So
//
//   - a slot is taken from a shelf, or left on one, only at a moment when nobody
//     waits;
//   - whoever queues, or changes limit or fairness, finds all free slots in the
//     word, and whatever is given back afterwards comes to the word, too;
//   - somebody is refused only because others wait, by a word without room that
//     says that the shelves are shut, or under the lock.
package bulkhead

import (
	"github.com/gabion-go/gabion/policy"
	"sync"
	"sync/atomic"
)

// Off is the limit of a bulkhead that is switched off: the largest there is,
// 2 097 151. A limit above it means Off.
const Off = maxLimit

// Waker is told that the answer of [Bulkhead.Granted] has changed. Wake
//
//   - never blocks, and takes no lock that its owner holds round a verb of the
//     bulkhead: a slot may come free while its next holder is still inside Join;
//   - may be called by any goroutine, several at once;
//   - may be spurious or late, even after the stay has ended.
//
// A non-blocking send on a channel with room for one does all this. The bulkhead
// holds no lock of its own while it calls Wake.
type Waker interface{ Wake() }

// Slot is the right to be out, handed around by value. The zero Slot is none.
// A Slot goes back once, to the bulkhead that gave it.
type Slot struct{ from *source }

// Held reports whether s is a slot at all.
func (s Slot) Held() bool { return s.from != nil }

// Stats is what a bulkhead looks like at one moment.
type Stats = policy.BulkheadStats

// Bulkhead bounds concurrency. Make one with [New] and do not copy it. All its
// verbs may be used by several goroutines at once, at any time, in any order.
type Bulkhead struct {
	_     [56]byte // the word's cache line: every call writes the word, or reads it while there are shelves
	word  atomic.Uint64
	rack  atomic.Pointer[rack] // the shelves while they are open, else nil
	races atomic.Int32         // how many more races for the word are lost until there are shelves
	_     [44]byte

	shards   int        // never changes
	mu       sync.Mutex // guards all below, all tenants, and each Waiter in the queue
	fair     bool
	last     *rack // the shelves that were open last
	divided  int   // the limit that those were made for
	patience int32 // what races starts from
	queueMax int
	seq      uint64              // stays so far: the order of arrival
	everyone tenant              // whoever came while not fair; its held is not counted
	tenants  map[string]*tenant  // those who hold or wait, so at most slots + waiters
	spare    *tenant             // entries to use again
	spares   int                 // how many, at most maxSpares
	turns    [numClasses]ranking // for each class, whose turn it is
	crowd    ranking             // who has most waiting
	passed   [numClasses]int     // how often in a row a class was overtaken
}

// New returns a bulkhead with limit slots and room for queue waiters. The
// numbers are taken as they are: no slots means that nobody gets through until
// [Bulkhead.Resize], no queue that nobody waits, and negative means none. The
// queue holds at most 1 048 575.
//
// A fair bulkhead shares slots and queue among the tenants that calls name:
//
//   - a slot that comes free goes to the waiting tenant with the fewest slots in
//     use, the first in the queue among equals;
//   - when the queue is full, a tenant with fewer waiters than the one with the
//     most pushes out that one's newest.
//
// Being fair costs a lock for every slot. A bulkhead that is not fair ignores
// tenants and takes its lock only when somebody waits, or to get back slots that
// are kept for other shards.
//
// Shards is for how many calls at once, at most 256, there should be a cache
// line of their own when they get into each other's way; it is rounded down to a
// power of two, and to a quarter of the limit. Below two means one for all. It
// changes the price and nothing else.
func New(limit, queue int, fair bool, shards int) *Bulkhead {
	b := &Bulkhead{tenants: make(map[string]*tenant), shards: shards, patience: minRaces}
	b.races.Store(b.patience)
	b.everyone.source.tenant = &b.everyone
	for c := range b.turns {
		b.turns[c] = ranking{id: c, less: turnBefore(c)}
	}
	b.crowd = ranking{id: numClasses, less: moreCrowded}
	b.Resize(limit, queue)
	b.SetFair(fair)
	return b
}

// TryAcquire takes a slot if one is free and nobody waits for it. It never
// overtakes a waiter. Shard is any number; calls that run at the same time should
// have different ones. Tenant matters only to a fair bulkhead.
func (b *Bulkhead) TryAcquire(shard uint32, tenant string) (Slot, bool) {
	w := word(b.word.Load())
	if w.easy() && b.word.CompareAndSwap(uint64(w), uint64(w+oneUsed)) {
		return Slot{&b.everyone.source}, true
	}
	return b.tryHarder(shard, tenant)
}

// Release gives a slot back, and hands it to the next who waits. The zero Slot
// releases nothing. Release panics when it notices that more slots come back
// than went out.
func (b *Bulkhead) Release(s Slot) {
	if s.from != &b.everyone.source {
		b.releaseTo(s.from)
	} else if w := word(b.word.Add(^uint64(0))); !w.quiet() { // minus oneUsed
		b.released(w)
	}
}

// Resize changes the limits of a bulkhead in use; the numbers mean what they
// mean to [New]. Growing lets waiters start at once. Shrinking takes nothing
// from anybody: those out stay out, those queued stay queued, and nobody new
// comes in until the numbers have fallen below the new limits.
func (b *Bulkhead) Resize(limit, queue int) {
	b.lock()
	b.queueMax = min(max(queue, 0), maxQueued)
	for {
		w := word(b.word.Load())
		if b.word.CompareAndSwap(uint64(w), uint64(w.withLimit(limit))) {
			break
		}
	}
	b.serve()
}

// SetFair switches fairness on or off in a bulkhead in use. Slots that were
// taken while it was off belong to no tenant. Those who queued while it was off
// go before tenants that hold a slot, and are not pushed out; when it is
// switched off, everybody queues in the order of arrival again.
func (b *Bulkhead) SetFair(fair bool) {
	b.lock()
	defer b.mu.Unlock()
	switch was := b.fair; {
	case fair && !was:
		b.fair = true
		b.word.Or(uint64(detourBit))
	case was && !fair:
		b.fair = false
		b.word.And(^uint64(detourBit))
		b.merge()
	}
}

// Stats returns the numbers of one moment. It takes the lock.
func (b *Bulkhead) Stats() Stats {
	b.lock()
	defer b.mu.Unlock()
	w := word(b.word.Load())
	return Stats{InUse: w.used(), Queued: w.queued(), Limit: w.limit(), QueueLimit: b.queueMax}
}

// Crowd returns the most slots in use and how many wait for one. It takes no lock.
func (b *Bulkhead) Crowd() (limit, queued int) {
	w := word(b.word.Load())
	return w.limit(), w.queued()
}

// tryHarder is TryAcquire where another changed the word, there are shelves, or
// fairness counts.
func (b *Bulkhead) tryHarder(shard uint32, tenant string) (Slot, bool) {
	w := word(b.word.Load())
	switch {
	case w.detour():
		if r := b.rack.Load(); r != nil {
			return b.tryShelf(*r, shard)
		}
		return b.tryFair(tenant)
	case !w.open():
		return Slot{}, false
	}
	b.lostRace()
	// Fairness may be switched on before the word is changed. Then the slot is
	// one of those that were taken before.
	if !b.take() {
		return Slot{}, false
	}
	return Slot{&b.everyone.source}, true
}

// take takes a slot from the word. If the word has none while there are shelves,
// it gets back what is on them.
func (b *Bulkhead) take() bool {
	w, ok := b.takeFromWord()
	if ok || !w.detour() {
		return ok
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.giveUp(false)
	_, ok = b.takeFromWord()
	return ok
}

// takeFromWord takes a slot from the word, or returns the word that has none.
func (b *Bulkhead) takeFromWord() (word, bool) {
	for {
		w := word(b.word.Load())
		if !w.open() {
			return w, false
		}
		if b.word.CompareAndSwap(uint64(w), uint64(w+oneUsed)) {
			return w, true
		}
	}
}

// releaseTo is Release of a slot of a shelf or a tenant.
func (b *Bulkhead) releaseTo(s *source) {
	switch {
	case s == nil:
	case s.tenant != nil:
		b.releaseFair(s.tenant)
	case !s.shelf.put():
		if w := word(b.word.Add(^uint64(0))); !w.quiet() { // minus oneUsed
			b.released(w)
		}
	}
}

// released ends a Release that made the word w.
func (b *Bulkhead) released(w word) {
	if w.overdrawn() {
		b.word.Add(uint64(oneUsed))
		panic(overdrawn)
	}
	if w.queued() > 0 && w.room() {
		b.lock()
		b.serve()
	}
}

const overdrawn = "bulkhead: more slots released than acquired"
