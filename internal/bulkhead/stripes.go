package bulkhead

import "sync/atomic"

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

// spares returns how many slots are spare.
func (s *stripes) spares() (n int) {
	if s == nil {
		return 0
	}
	for i := range s.all {
		n += max(int(s.all[i].spare.Load()), 0)
	}
	return n
}

// TryAcquireOn is [Bulkhead.TryAcquire]. Calls that run on different processors should pass different
// shards: then they write to different cache lines once they have met often.
func (b *Bulkhead) TryAcquireOn(tenant string, shard uint32) (Slot, bool) {
	if s := b.stripes.Load(); s != nil && s.take(shard) {
		return Slot{&b.everyone}, true
	}
	return b.TryAcquire(tenant)
}

// ReleaseOn is [Bulkhead.Release], with a shard as in [Bulkhead.TryAcquireOn]. It need not be the
// same shard.
func (b *Bulkhead) ReleaseOn(slot Slot, shard uint32) {
	if s := b.stripes.Load(); s != nil && slot.tenant == &b.everyone && s.keep(shard) {
		return
	}
	b.Release(slot)
}

// refuses reports whether a word without a free slot, read since the epoch was, is the whole truth: no slot is spare.
func (b *Bulkhead) refuses(epoch uint32) bool {
	s := b.stripes.Load()
	return s == nil || epoch%2 == 0 && s.epoch.Load() == epoch
}

// epoch is what [Bulkhead.refuses] wants to know.
func (b *Bulkhead) epoch() uint32 {
	if s := b.stripes.Load(); s != nil {
		return s.epoch.Load()
	}
	return 0
}

// close gives the word what is spare, and closes the stripes. b.mu is held.
func (b *Bulkhead) close() {
	s := b.stripes.Load()
	if s == nil || s.epoch.Load()%2 == 0 {
		return
	}
	n := 0
	for i := range s.all {
		n += int(s.all[i].spare.Swap(closedMark))
	}
	b.word.Add(-uint64(n))
	s.epoch.Add(1)
}

// met counts that two calls met at the word, and opens the stripes when that was often enough and it
// pays: many slots are free.
func (b *Bulkhead) met() {
	if b.meetings.Add(1)%meetings != 0 || !b.mu.TryLock() {
		return
	}
	if w := word(b.word.Load()); w.limit() >= perSpare && w.used() <= w.limit()/2 {
		b.open(w.limit() / perSpare)
	}
	b.mu.Unlock()
}

// open opens the stripes, and makes them if there are none. It does nothing if a call waits, if the
// bulkhead is fair, or if more slots are in use than the limit allows: then a slot that is given back is
// for no other call. Each stripe may keep as many slots as most. b.mu is held.
func (b *Bulkhead) open(most int) {
	if w := word(b.word.Load()); w.fair() || w.queued() > 0 || w.used() > w.limit() {
		return
	}
	s := b.stripes.Load()
	if s == nil {
		s = new(stripes)
		for i := range s.all {
			s.all[i].spare.Store(closedMark)
		}
		b.stripes.Store(s)
	}
	if s.epoch.Load()%2 != 0 {
		return
	}
	s.most.Store(int32(most))
	s.epoch.Add(1)
	for i := range s.all {
		s.all[i].spare.Store(0)
	}
}
