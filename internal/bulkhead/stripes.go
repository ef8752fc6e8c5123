package bulkhead

import (
	"sync"
	"sync/atomic"
)

// This file keeps calls on different processors from writing to one word. When they have met
// often enough, slots that are given back stay on stripes: cache lines that few calls share. For
// the word such a spare slot is in use. So the word is as exact as without stripes, and a slot that
// is taken from a stripe, or left on one, does not touch it.
//
// Stripes are open or closed. Open ones keep a few slots each. They are closed under the lock, and what
// they keep goes back to the word, before a call is refused or waits, and before the limits change.
// While they are closed all is as if there were none. So no call is refused while a slot is spare,
// and none overtakes a waiter: while calls wait the stripes stay closed. They are opened when calls meet
// at the word again, and at least half of the slots are free.

const (
	numStripes = 8  // a power of two
	perSpare   = 32 // one slot of so many may be spare on each stripe
	meetings   = 64 // so often calls meet at the word before stripes are opened
	closedMark = -1 // on a closed stripe
)

// spread is a bulkhead's stripes.
type spread struct {
	stripes  atomic.Pointer[stripes] // nil until calls have met often
	meetings atomic.Uint32           // how often two calls have met at the word
}

type stripes struct {
	epoch atomic.Uint32 // odd while open
	most  atomic.Int32  // that a stripe keeps
	_     [56]byte
	all   [numStripes]stripe
}

// A stripe has a cache line to itself.
type stripe struct {
	spare atomic.Int32 // slots; closedMark on one that is closed
	_     [60]byte
}

func (s *stripes) of(shard uint32) *atomic.Int32 { return &s.all[shard%numStripes].spare }

// take takes a spare slot.
func (s *stripes) take(shard uint32) bool {
	spare := s.of(shard)
	n := spare.Load()
	return n > 0 && spare.CompareAndSwap(n, n-1)
}

// keep leaves a slot on a stripe that is open and not full.
func (s *stripes) keep(shard uint32) bool {
	spare := s.of(shard)
	n := spare.Load()
	return n != closedMark && n < s.most.Load() && spare.CompareAndSwap(n, n+1)
}

// out returns how many slots calls have, of those that the word says are in use.
func (s *spread) out(w word) int {
	n := w.used()
	if all := s.stripes.Load(); all != nil {
		for i := range all.all {
			n -= max(int(all.all[i].spare.Load()), 0)
		}
	}
	return max(n, 0)
}

// epoch is what [spread.refuses] wants to know.
func (s *spread) epoch() uint32 {
	if all := s.stripes.Load(); all != nil {
		return all.epoch.Load()
	}
	return 0
}

// refuses reports whether a word without a free slot is the whole truth: no slot was spare since the
// epoch, which was read before the word.
func (s *spread) refuses(epoch uint32) bool { return epoch%2 == 0 && s.epoch() == epoch }

// close gives the word what is spare, and closes the stripes. The bulkhead is locked.
func (s *spread) close(w *atomic.Uint64) {
	all := s.stripes.Load()
	if all == nil || all.epoch.Load()%2 == 0 {
		return
	}
	n := 0
	for i := range all.all {
		n += int(all.all[i].spare.Swap(closedMark))
	}
	w.Add(-uint64(n))
	all.epoch.Add(1)
}

// met counts that two calls met at the word, and opens the stripes when that was often enough and it
// pays: many slots are free.
func (s *spread) met(mu *sync.Mutex, now *atomic.Uint64) {
	if s.meetings.Add(1)%meetings != 0 || !mu.TryLock() {
		return
	}
	if w := word(now.Load()); w.limit() >= perSpare && w.used() <= w.limit()/2 {
		s.open(w, w.limit()/perSpare)
	}
	mu.Unlock()
}

// open opens the stripes, and makes them if there are none. It does nothing if a call waits, if the
// bulkhead is fair, or if more slots are in use than the limit allows: then a slot that is given back is
// for no other call. Each stripe may keep as many slots as most. The bulkhead is locked.
func (s *spread) open(w word, most int) {
	if w.fair() || w.queued() > 0 || w.used() > w.limit() {
		return
	}
	all := s.stripes.Load()
	if all == nil {
		all = new(stripes)
		for i := range all.all {
			all.all[i].spare.Store(closedMark)
		}
		s.stripes.Store(all)
	}
	if all.epoch.Load()%2 != 0 {
		return
	}
	all.most.Store(int32(most))
	all.epoch.Add(1)
	for i := range all.all {
		all.all[i].spare.Store(0)
	}
}
