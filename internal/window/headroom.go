package window

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/gabion-go/gabion/internal/clock"
)

// Headroom is a [Tally] for those who ask at every call whether the window holds
// more calls than so many. Until it turns no call can leave it unasked for, and
// what may still come before the answer changes is known at one sum. So whoever
// sums up may allow each shard its share of that, and the calls that find their
// shard within its share need no sum.
//
// The limit of a shard is what its newest bucket may hold, so counting a call is
// all that it takes to spend from it, and a call taken back comes back. A call
// that goes past the limit of its shard withdraws the allowance from all shards
// before it ends: their limits together keep the promise, and not one alone.
//
// A Headroom is made by [MakeHeadroom]; the zero Headroom can't be used. All
// methods are safe for concurrent use. It must not be copied after first use.
type Headroom struct {
	tally
	grant  atomic.Uint64 // an even serial above the turn it is for, and spendable; 0 for none
	key    atomic.Uint64 // what it was asked for
	serial uint32        // of the last grant; guarded by the window's lock
	limits []atomic.Uint64
}

// tally is embedded under this name so that nobody adds past [Headroom.Add].
type tally = Tally

// spendable is the bit of a grant that it has once it may be spent from.
const spendable = 1 << 32

// leastShare is for how many calls of one shard a grant is worth its price,
// which is that of a lock and a few sums, and of the lines that others then have
// to read anew.
const leastShare = 16

// MakeHeadroom returns an empty tally, laid out as by [MakePairs], that allows
// nothing yet, and nothing ever where a sum reads a single cache line anyway: with
// one shard and up to eight buckets.
func MakeHeadroom(span time.Duration, buckets, shards int) (h Headroom) {
	h.lay(span, buckets, shards, 1)
	h.limits = make([]atomic.Uint64, int(h.win.mask)+1)
	return
}

// Spend counts one call at now and reports true, if it is known without a sum
// that the call of the shard's is still within what was allowed for the key in
// this turn. Else it does nothing.
func (h *Headroom) Spend(now clock.Instant, shard uint32, key uint64) bool {
	w := &h.win
	if int64(now) >= w.end.Load() {
		return false
	}
	at, g := place(w.cur.Load()), h.grant.Load()
	if uint32(g) != uint32(at) || g&spendable == 0 || h.key.Load() != key {
		return false
	}
	c := &w.cells[w.cell(at, shard)]
	old := word(c.Load())
	if old.tag() != at.tag() || uint64(old.first()) >= h.limit(shard) || h.grant.Load() != g {
		return false // asked before and after, because key and limits are those of g only if it stands
	}
	if !c.CompareAndSwap(uint64(old), uint64(old+1<<counterBits)) {
		return false
	}
	if place(w.cur.Load()) != at || h.grant.Load() != g {
		h.check(shard, w.lateFor(at))
	}
	return true
}

func (h *Headroom) limit(shard uint32) uint64 {
	return h.limits[shard&uint32(h.win.mask)].Load()
}

// Add counts as [Window.Add] does.
func (h *Headroom) Add(now clock.Instant, shard uint32, calls, failures uint32) {
	e := h.win.count(now, shard, calls, failures, 0)
	if calls > 0 || e&late != 0 {
		h.check(shard, e)
	}
}

// check withdraws a grant that does not know of what has just landed: what is
// late is in no shard's newest bucket.
func (h *Headroom) check(shard uint32, e event) {
	if e&late != 0 {
		h.wasLate()
		h.grant.Store(0)
		return
	}
	g := h.grant.Load()
	if g == 0 {
		return
	}
	at := place(g)
	if c := word(h.win.cells[h.win.cell(at, shard)].Load()); c.tag() == at.tag() && uint64(c.first()) > h.limit(shard) {
		h.grant.Store(0)
	}
}

// Allow lets Spend count calls for the key until the window holds so many calls,
// or turns. Turn is what [Headroom.Turn] was before the caller summed up what it
// has reckoned the calls from: if the window has turned since, nothing is
// allowed. Nor is anything while the last allowance stands, or where shares would
// be too small to be of use.
func (h *Headroom) Allow(turn uint32, key uint64, calls float64) {
	k := h.kept()
	if g := h.grant.Load(); k == nil || g != 0 && uint32(g) == turn || !h.win.mu.TryLock() {
		return // who holds the lock is about to allow, or to turn
	}
	defer h.win.mu.Unlock()
	if h.win.Turn() != turn {
		return
	}
	at, known := place(turn), k.key(turn)
	if k[stamp].Load() != known {
		k.write(known, h.win.closed(at))
	}
	h.grant.Store(0)
	h.key.Store(key)
	newest := h.base(at)
	room := math.Floor(calls) - float64(k[keptCalls].Load()) - float64(newest)
	if share := math.Floor(room / float64(len(h.limits))); share >= leastShare {
		h.open(at, known, uint64(min(share, counterMax)))
	}
}

// base sets each limit to what its shard's newest bucket holds, and returns what
// they hold together: a call that lands later is one of the shard's share.
func (h *Headroom) base(at place) (sum uint64) {
	for i := range h.limits {
		held := h.newestOf(at, i)
		h.limits[i].Store(held)
		sum += held
	}
	return sum
}

// open makes a grant in two steps. From the first one on, whoever lands past a
// limit or late withdraws it; who has landed before is seen by the look between
// the two. So nobody can spend from a grant that something has already exceeded.
func (h *Headroom) open(at place, known, share uint64) {
	for i := range h.limits {
		h.limits[i].Store(min(h.limits[i].Load()+share, counterMax))
	}
	h.serial += 2
	g := uint64(h.serial)<<32 | uint64(at)
	h.grant.Store(g)
	next := g | spendable
	for i := range h.limits {
		if h.newestOf(at, i) > h.limits[i].Load() {
			next = 0
		}
	}
	if h.kept().key(uint32(at)) != known {
		next = 0
	}
	h.grant.CompareAndSwap(g, next) // else it is withdrawn already
}

// newestOf returns the calls in the newest bucket of one shard.
func (h *Headroom) newestOf(at place, shard int) uint64 {
	return uint64(word(h.win.cells[h.win.cell(at, uint32(shard))].Load()).first())
}

// Worthwhile reports whether so many calls more are enough to be shared out.
func (h *Headroom) Worthwhile(calls float64) bool {
	return calls >= float64(leastShare*len(h.limits))
}

// Turn returns a number that changes with the window, as [Window.Turn] does.
func (h *Headroom) Turn() uint32 { return h.win.Turn() }
