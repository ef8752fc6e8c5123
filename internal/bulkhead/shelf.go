package bulkhead

import (
	"math/bits"
	"sync/atomic"
	"unsafe"
)

// source is where a slot comes from and goes back to: what a tenant holds, or a
// shelf.
type source struct {
	tenant *tenant // nil for a shelf
	shelf  *shelf  // nil for a tenant
}

// shelf keeps free slots for the calls of one shard, on a cache line that calls of
// other shards don't touch. What only is read has another line, since every
// reading of one that is fought for costs a transfer.
type shelf struct {
	source
	most   stock // how many free slots it keeps, in units of oneFree
	_      [56 - 2*unsafe.Sizeof(uintptr(0))]byte
	stock  atomic.Uint64
	missed atomic.Uint32 // how many calls found it empty since it was opened
	looked atomic.Uint32 // how many it had served when that was looked at last
	_      [48]byte
}

// stock is the state of a shelf: how many calls it has served since it was
// opened | open | free slots on it | slots of it that are out, from the top bit
// down. Served wraps round.
type stock uint64

const (
	freeShift   = limitBits
	openShift   = freeShift + limitBits
	servedShift = openShift + 1
	servedBits  = 64 - servedShift

	oneOut    stock = 1
	oneFree   stock = 1 << freeShift
	openBit   stock = 1 << openShift
	oneServed stock = 1 << servedShift
	allOut    stock = oneFree - 1
	allFree   stock = openBit - oneFree
)

func (s stock) out() int     { return int(s & allOut) }
func (s stock) free() int    { return int(s & allFree >> freeShift) }
func (s stock) isOpen() bool { return s&openBit != 0 }
func (s stock) served() int  { return int(s >> servedShift) }

// take takes a slot from the shelf. A shelf that is shut has none.
func (s *shelf) take() bool {
	for {
		was := stock(s.stock.Load())
		if was&allFree == 0 {
			return false
		}
		if s.stock.CompareAndSwap(uint64(was), uint64(was-oneFree+oneOut)) {
			return true
		}
	}
}

// put gives back a slot of the shelf. It reports false when the shelf does not
// keep it, being shut or full: then the word has to.
func (s *shelf) put() bool {
	for {
		was := stock(s.stock.Load())
		if was&allOut == 0 {
			panic(overdrawn)
		}
		keep := was.isOpen() && was&allFree < s.most
		now := was - oneOut
		if keep {
			now += oneFree + oneServed
		}
		if s.stock.CompareAndSwap(uint64(was), uint64(now)) {
			return keep
		}
	}
}

// lend counts a slot that was taken from the word as one of the shelf. Now and
// then it looks whether the shelf was empty oftener than it has served since the
// last look, and reports that. As long as none of what it lent has come home, it
// could not serve.
func (s *shelf) lend() (poor bool) {
	now := stock(s.stock.Add(uint64(oneOut)))
	missed := s.missed.Add(1)
	if missed%minMissed != 0 {
		return false
	}
	served := uint32(now.served())
	since := (served - s.looked.Swap(served)) % (1 << servedBits) // it wraps round
	return missed > minMissed && int(missed) > now.out() && since < minMissed
}

// open lets slots go back to the shelf.
func (s *shelf) open() {
	s.missed.Store(0)
	s.looked.Store(0)
	s.stock.Or(uint64(openBit))
}

// shut takes all free slots off the shelf, and says what it had.
func (s *shelf) shut() stock { return stock(s.stock.And(uint64(allOut))) }

// rack is the shelves of a bulkhead, a power of two.
type rack []shelf

// newRack returns shelves for that limit, at most one for each shard, or nil if
// it can't be divided: each shelf should find several slots to keep, and half of
// the limit is left to those whose shelf is empty.
func newRack(limit, shards int) rack {
	n := min(limit/4, shards, maxShelves)
	if n < 2 {
		return nil
	}
	r := make(rack, 1<<(bits.Len(uint(n))-1))
	for i := range r {
		r[i].shelf = &r[i]
		r[i].most = stock(limit/(2*len(r))) * oneFree
	}
	return r
}

const (
	maxShelves = 256 // more processors share

	// A bulkhead gets its shelves after calls lost so many races for the word.
	// Two processors that fight for it do so in some 50 µs.
	minRaces = 64

	// Shelves cost more than they save if the word runs out of slots before they
	// have served this many calls, or if one of them is found empty this often, and
	// oftener than it has served. Then twice as many lost races bring them
	// back, and so on, up to maxRaces: some milliseconds of fighting.
	worthwhile = 1024
	minMissed  = 64
	maxRaces   = 4096
)

// lock takes the lock, and all slots back into the word. Who holds it finds the
// shelves shut and the word the whole truth, until it opens them itself.
func (b *Bulkhead) lock() {
	b.mu.Lock()
	if b.rack.Load() != nil {
		b.collect()
	}
}

// collect shuts the shelves. It returns how many calls they have served.
func (b *Bulkhead) collect() (served int) {
	free := 0
	for i := range *b.last {
		s := (*b.last)[i].shut()
		free += s.free()
		served += s.served()
	}
	w := word(b.word.Add(-uint64(detourBit + word(free))))
	b.rack.Store(nil)
	if w.overdrawn() { // a slot came back twice: to the word and, by others, to a shelf
		b.word.Add(uint64(maxUsed + 1 - w.used()))
	}
	if served >= worthwhile {
		b.patience = minRaces
	}
	b.races.Store(b.patience)
	return served
}

// giveUp shuts the shelves, if they are open, and says how soon there may be new
// ones.
func (b *Bulkhead) giveUp(poor bool) {
	if b.rack.Load() == nil {
		return
	}
	before := b.patience
	if served := b.collect(); served < worthwhile || poor {
		b.patience = min(2*before, maxRaces)
		b.races.Store(b.patience)
	}
}

// lostRace counts that another call was faster at the word.
func (b *Bulkhead) lostRace() {
	if b.shards > 1 && b.races.Add(-1) == 0 {
		b.lock()
		b.openShelves()
		b.mu.Unlock()
	}
}

// openShelves lets slots go back to shelves, unless fairness counts, the limit is
// too small, somebody waits or nothing is free. It is the last that its caller does
// under the lock.
func (b *Bulkhead) openShelves() {
	b.races.Store(b.patience)
	if b.fair || !b.divide() {
		return
	}
	b.rack.Store(b.last) // before the detour, which without it means fair
	if !b.shelve() {
		b.rack.Store(nil)
		return
	}
	for i := range *b.last {
		(*b.last)[i].open()
	}
}

// divide makes the shelves that the limit asks for, if it can be divided. Slots
// from other ones find those shut for good.
func (b *Bulkhead) divide() bool {
	limit := word(b.word.Load()).limit()
	if b.last != nil && b.divided == limit {
		return true
	}
	r := newRack(limit, b.shards)
	if r == nil {
		return false
	}
	b.last, b.divided = &r, limit
	return true
}

// shelve makes those who come look for a shelf first.
func (b *Bulkhead) shelve() bool {
	for {
		w := word(b.word.Load())
		if !w.easy() {
			return false
		}
		if b.word.CompareAndSwap(uint64(w), uint64(w|detourBit)) {
			return true
		}
	}
}

// tryShelf is TryAcquire while there are shelves.
func (b *Bulkhead) tryShelf(r rack, shard uint32) (Slot, bool) {
	s := &r[int(shard)&(len(r)-1)]
	if s.take() {
		return Slot{&s.source}, true
	}
	if !b.take() {
		return Slot{}, false
	}
	if s.lend() {
		b.mu.Lock()
		b.giveUp(true)
		b.mu.Unlock()
	}
	return Slot{&s.source}, true
}
