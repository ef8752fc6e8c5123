// Package bulkhead limits how many calls are out at once, and how many wait for a slot.
//
// A bulkhead has slots and a queue. A call takes a free slot, or joins the queue if
// none is free. A slot that is given back goes straight to the next waiter: a waiter
// that is woken already has its slot. So no other call competes for it, and the order of the queue
// is exact. A new call never gets a slot while others wait.
//
// Nothing here blocks, reads a clock or starts a goroutine. The caller decides how long
// it waits, and ends it with [Bulkhead.Leave]: a queue timeout, a deadline and a
// cancelled caller are the same thing here.
//
// Limit, queue length and slots in use are one atomic word. A slot is taken by one
// compare-and-swap, given back by one add. Once calls on several processors get in each other's way there,
// slots that are given back wait on stripes for the next call (stripes.go). The lock is taken only while a call waits, or if the
// bulkhead is fair. One rule keeps wake-ups from getting lost: first change the word; then, if
// anybody waits, hand over what is free, under the lock; then wake, outside the lock.
package bulkhead

import (
	"sync"
	"sync/atomic"

	"github.com/gabion-go/gabion/policy"
)

// Off is the limit of a bulkhead that is switched off: the largest there is,
// 2 097 151. A limit above it means Off.
const Off = maxLimit

// Waker learns that the answer of [Bulkhead.Granted] has changed. Wake
//
//   - never blocks, and takes no lock that its owner holds while it calls the
//     bulkhead: Wake may be called before Join returns;
//   - may be called by any goroutine, by several at once;
//   - may be called without need or late, even after the wait has ended.
//
// A non-blocking send on a channel with room for one does all this. The bulkhead
// holds no lock of its own while it calls Wake.
type Waker interface{ Wake() }

// Slot is the right to be out. It is passed by value; the zero Slot holds no slot. A Slot is given
// back once, to the bulkhead that gave it.
type Slot struct{ tenant *tenant }

// Held reports whether s is a slot at all.
func (s Slot) Held() bool { return s.tenant != nil }

// Stats is what a bulkhead looks like at one moment.
type Stats = policy.BulkheadStats

// Bulkhead limits concurrency. Make one with [New] and do not copy it. All methods are
// safe for concurrent use, in any order.
type Bulkhead struct {
	_      [40]byte // so that word has a cache line to itself, but for what is read with it
	spread spread
	word   atomic.Uint64

	mu          sync.Mutex          // guards all below, all tenants, and each Waiter in the queue
	seq         uint64              // waits so far: the order of arrival
	everyone    tenant              // of slots and waits from times without fairness; its held is not counted
	tenants     map[string]*tenant  // those who hold or wait, so at most slots + waiters
	spare       *tenant             // entries to use again
	spares      int                 // how many, at most maxSpares
	next        [numClasses]ranking // for each class, who is served next
	mostWaiting ranking             // who has most waiting
	skipped     [numClasses]int32   // how often in a row a class let a higher one go first
	queueMax    int32               // the most waiters
	tenantSlots int32               // the most slots of a tenant; 0 = no bound
	tenantQueue int32               // the most waiters of a tenant; 0 = no bound
	newest      bool                // the newest waiter of a class goes first
	strict      bool                // no class goes before a higher one
}

// New returns a bulkhead with limit slots and room for queue waiters. Without slots no call gets
// through until [Bulkhead.Resize]. Without a queue no call waits. Negative numbers count as 0. The
// queue holds at most 1 048 575.
//
// A fair bulkhead shares slots and queue among the tenants that calls name:
//
//   - a free slot goes to the waiting tenant with the fewest slots in use, among
//     equals to the one whose waiter came first;
//   - when the queue is full, a tenant with fewer waiters than the one with the most
//     pushes out that tenant's newest waiter.
//
// A fair bulkhead takes its lock for every slot. One that is not fair ignores tenants, and takes
// its lock only while a call waits.
func New(limit, queue int, fair bool) *Bulkhead {
	b := &Bulkhead{tenants: make(map[string]*tenant)}
	for c := range b.next {
		b.next[c] = ranking{id: c, less: b.nextBefore(c)}
	}
	b.mostWaiting = ranking{id: numClasses, less: moreWaiting}
	b.Resize(limit, queue)
	b.SetFair(fair)
	return b
}

// TryAcquire takes a slot if one is free and no call waits for it. The tenant matters only to a
// fair bulkhead. Calls that run on different processors should pass different shards: then they write
// to different cache lines once they have met often.
func (b *Bulkhead) TryAcquire(tenant string, shard uint32) (Slot, bool) {
	s := b.spread.stripes.Load()
	if s == nil {
		w := word(b.word.Load())
		if w.easy() {
			if b.word.CompareAndSwap(uint64(w), uint64(w+oneUsed)) {
				return Slot{&b.everyone}, true
			}
			b.spread.met(&b.mu, &b.word)
		}
	} else if s.take(shard) {
		return Slot{&b.everyone}, true
	}
	return b.tryAgain(tenant)
}

// Release gives a slot back, and hands it to the next waiter. The zero Slot releases
// nothing. The shard is as in [Bulkhead.TryAcquire], and need not be the same. Release panics when it
// notices that more slots come back than were taken.
func (b *Bulkhead) Release(slot Slot, shard uint32) {
	switch s := b.spread.stripes.Load(); {
	case slot.tenant != &b.everyone:
		b.releaseFair(slot.tenant)
	case s == nil || !s.keep(shard):
		if w := word(b.word.Add(^uint64(0))); !w.quiet() { // minus oneUsed
			b.released(w)
		}
	}
}

// Returns reports whether a slot that is given back now would be had again at once: the bulkhead is not
// fair, no call waits, and no more slots are in use than the limit allows. It takes nothing.
func Returns(b *Bulkhead, slot Slot) bool {
	w := word(b.word.Load())
	return slot.tenant == &b.everyone && w&below <= w>>limitShift
}

// Resize changes the limits of a bulkhead in use; the numbers are those of [New].
// Growing hands slots to waiters at once. Shrinking takes nothing away: slots in use
// stay in use, waiters stay in the queue, and no new call comes in until the numbers have fallen
// below the new limits.
func (b *Bulkhead) Resize(limit, queue int) {
	b.mu.Lock()
	b.spread.close(&b.word)
	b.queueMax = int32(min(max(queue, 0), maxQueued))
	for {
		w := word(b.word.Load())
		if b.word.CompareAndSwap(uint64(w), uint64(w.withLimit(limit))) {
			break
		}
	}
	b.serve()
}

// SetFair switches fairness on or off in a bulkhead in use. Slots that were taken while
// it was off belong to no tenant. Waiters that came while it was off go before tenants
// that hold a slot, and are not pushed out. When it is switched off, everybody waits in
// the order of arrival again.
func (b *Bulkhead) SetFair(fair bool) {
	b.mu.Lock()
	b.spread.close(&b.word)
	switch was := b.fair(); {
	case fair && !was:
		b.word.Or(uint64(fairBit))
	case was && !fair:
		b.word.And(^uint64(fairBit))
		b.merge()
	}
	b.serve() // who waited behind a tenant's bound
}

// fair reports whether the bulkhead is fair. While b.mu is held it stays so.
func (b *Bulkhead) fair() bool { return word(b.word.Load()).fair() }

// Stats returns the numbers of one moment. It takes the lock. Calls that come or go meanwhile may or
// may not be counted.
func (b *Bulkhead) Stats() Stats {
	b.mu.Lock()
	defer b.mu.Unlock()
	w := word(b.word.Load())
	return Stats{InUse: b.spread.out(w), Queued: w.queued(), Limit: w.limit(), QueueLimit: int(b.queueMax)}
}

// Occupancy returns how many slots are in use, the most that may be, and how many calls
// wait for one. It takes no lock.
func (b *Bulkhead) Occupancy() (inUse, limit, queued int) {
	w := word(b.word.Load())
	return b.spread.out(w), w.limit(), w.queued()
}

// Queued returns how many calls wait. It takes no lock.
func (b *Bulkhead) Queued() int { return word(b.word.Load()).queued() }

// tryAgain is TryAcquire where another changed the word meanwhile, no slot is free, or
// the bulkhead is fair.
func (b *Bulkhead) tryAgain(tenant string) (Slot, bool) {
	for {
		epoch := b.spread.epoch()
		w := word(b.word.Load())
		switch {
		case w.fair():
			return b.tryFair(tenant)
		case !w.open() && b.spread.refuses(epoch):
			return Slot{}, false
		case !w.open():
			b.mu.Lock()
			b.spread.close(&b.word)
			b.mu.Unlock()
			continue
		case b.word.CompareAndSwap(uint64(w), uint64(w+oneUsed)):
			return Slot{&b.everyone}, true
		}
		b.spread.met(&b.mu, &b.word)
	}
}

// take takes a slot from the word for a tenant of a fair bulkhead, or for anybody where
// it is not fair. b.mu is held.
func (b *Bulkhead) take(name string) bool {
	if b.tenantSlots > 0 && b.fair() {
		if t := b.tenants[name]; t != nil && t.held >= int(b.tenantSlots) {
			return false
		}
	}
	for {
		w := word(b.word.Load())
		if !w.room() || w.queued() > 0 && !b.allCapped() {
			return false
		}
		if b.word.CompareAndSwap(uint64(w), uint64(w+oneUsed)) {
			return true
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
		b.mu.Lock()
		b.serve()
	}
}

const overdrawn = "bulkhead: more slots released than acquired"
