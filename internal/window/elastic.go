package window

import (
	"math/bits"
	"sync/atomic"
	"time"

	"github.com/gabion-go/gabion/internal/clock"
)

// maxShards is the most that an Elastic grows to; more processors share.
const maxShards = 256

// Elastic is a [Window] that can be given shards while it is in use, so that calls on
// different processors write to different cache lines. Of thousands of partitions a few
// are that busy: the others should not pay for shards.
//
// A shard is one word. It counts for one bucket, and what it has counted is moved to that
// bucket when the window turns. So a sum adds up the window and the shards, and it costs
// hardly more than that of the window alone.
//
// An Elastic is made by [MakeElastic]; the zero Elastic can't be used. All methods are
// safe for concurrent use. It must not be copied after first use.
type Elastic struct {
	win    Window
	shards atomic.Pointer[shards] // nil until it grows
}

// shards is what an Elastic grows.
type shards struct {
	moves atomic.Uint64 // odd while counts are moved to the window; changes under its lock
	all   []shard       // a power of two
	_     [32]byte
}

// A shard has a cache line to itself.
type shard struct {
	tally atomic.Uint64
	_     [56]byte
}

// MakeElastic returns an empty window without shards, laid out as by [Make].
func MakeElastic(span time.Duration, buckets int) (e Elastic) {
	e.win.lay(span, buckets, 2)
	return
}

// Add counts one call at now. Callers that run on different processors should pass
// different shards. It reports whether the window should [Elastic.Grow].
func (e *Elastic) Add(now clock.Instant, shard uint32, failed, slow bool) (contended bool) {
	if s := e.shards.Load(); s != nil {
		e.addTo(s, shard, now, failed, slow)
		return false
	}
	return e.win.Add(now, 1, one(failed), one(slow))
}

// AddGood is Add of a call that neither failed nor was slow. Nearly always it is one swap.
func (e *Elastic) AddGood(now clock.Instant, shard uint32) (contended bool) {
	if w := &e.win; e.shards.Load() == nil && int64(now) < w.end.Load() {
		at := place(w.cur.Load())
		c := &w.cells[at.cell()]
		old := word(c.Load())
		if old.tag() == at.tag() && old.first() < counterMax {
			if c.CompareAndSwap(uint64(old), uint64(old+1<<counterBits)) {
				return false
			}
			return w.addAny(now, 1, 0, 0, 1)
		}
	}
	return e.Add(now, shard, false, false)
}

func (e *Elastic) addTo(s *shards, shard uint32, now clock.Instant, failed, slow bool) {
	t := &s.all[int(shard)&(len(s.all)-1)].tally
	for {
		if int64(now) >= e.win.end.Load() {
			e.turn(s, now)
		}
		at := place(e.win.cur.Load())
		old := tally(t.Load())
		if old.tag() != at.tag() || old.full() {
			e.renew(s, t)
			continue
		}
		if t.CompareAndSwap(uint64(old), uint64(old.plus(failed, slow))) {
			return
		}
	}
}

// Grow gives the window n shards, rounded up to a power of two, at most 256. Only the first call
// has an effect.
func (e *Elastic) Grow(n int) {
	e.win.mu.Lock()
	defer e.win.mu.Unlock()
	if n < 2 || e.shards.Load() != nil {
		return
	}
	s := &shards{all: make([]shard, 1<<bits.Len(uint(min(n, maxShards)-1)))}
	e.collect(s) // gives them their tags
	e.shards.Store(s)
}

// Grown reports whether it has shards.
func (e *Elastic) Grown() bool { return e.shards.Load() != nil }

// turn moves the window to the bucket of now, and to their buckets what shards hold.
func (e *Elastic) turn(s *shards, now clock.Instant) {
	e.win.mu.Lock()
	defer e.win.mu.Unlock()
	if int64(now) >= e.win.end.Load() { // else another was quicker
		e.win.turnLocked(now)
		e.collect(s)
	}
}

// renew makes a shard that is full, or of an older bucket, count for the newest one.
func (e *Elastic) renew(s *shards, t *atomic.Uint64) {
	e.win.mu.Lock()
	defer e.win.mu.Unlock()
	if old := tally(t.Load()); old.tag() != place(e.win.cur.Load()).tag() || old.full() {
		e.collect(s)
	}
}

// collect moves what the shards hold to the buckets in which it was counted, and makes
// them count for the newest one. The window's lock is held. An Add that comes between
// finds another tag or another count in its shard, and tries again.
func (e *Elastic) collect(s *shards) {
	newest := place(e.win.cur.Load())
	s.moves.Add(1)
	for i := range s.all {
		old := tally(s.all[i].tally.Swap(uint64(newest.tag()) << tagShift))
		age := int(newest.tag() - old.tag())
		if c := old.counts(); c != (Counts{}) && age < int(e.win.n) {
			e.win.addCounts(e.win.back(age), c)
		}
	}
	s.moves.Add(1)
}

func (w *Window) addCounts(at place, c Counts) {
	if w.addTo(at, at.cell(), uint32(c.Calls), uint32(c.Failures), 0) != full {
		w.addSlow(at, uint32(c.Slow))
	}
}

// Sum returns what the window holds at now, as [Window.Sum] does. A Sum that begins
// after an Add has ended holds it.
func (e *Elastic) Sum(now clock.Instant) Counts {
	s := e.shards.Load()
	if s == nil {
		return e.win.Sum(now)
	}
	if int64(now) >= e.win.end.Load() {
		e.turn(s, now)
	}
	if moves := s.moves.Load(); moves%2 == 0 {
		if c := e.sum(s); s.moves.Load() == moves {
			return c
		}
	}
	e.win.mu.Lock() // nothing is moved now
	defer e.win.mu.Unlock()
	return e.sum(s)
}

// Rated is Sum for who does not ask for slow calls. It may leave them out, and reads half as much then.
func (e *Elastic) Rated(now clock.Instant) Counts {
	if w := &e.win; e.shards.Load() == nil && int64(now) < w.end.Load() {
		return w.rated(place(w.cur.Load()))
	}
	return e.Sum(now)
}

// sum adds up the window and its shards. It is right if nothing is moved meanwhile.
func (e *Elastic) sum(s *shards) Counts {
	newest := place(e.win.cur.Load())
	c := e.win.sum(newest)
	for i := range s.all {
		if t := tally(s.all[i].tally.Load()); newest.tag()-t.tag() < uint16(e.win.n) {
			d := t.counts()
			c.Calls += d.Calls
			c.Failures += d.Failures
			c.Slow += d.Slow
		}
	}
	return c
}

// A Place names the bucket in which something was counted.
type Place uint32

// Place returns that of the newest bucket.
func (e *Elastic) Place() Place { return Place(e.win.Turn()) }

// Take takes back one call that did not fail, and was slow or not, from the bucket in
// which it was counted. It reports false, and changes nothing, when that is forgotten
// or does not hold one.
func (e *Elastic) Take(p Place, now clock.Instant, slow bool) bool {
	w, at := &e.win, place(p)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.turnLocked(now)
	if s := e.shards.Load(); s != nil {
		e.collect(s)
	}
	both := word(w.cells[at.cell()].Load())
	if both.first() <= both.second() || !w.take(at, at.cell(), 1, 0) {
		return false
	}
	if slow {
		w.take(at, at.cell()+1, 1, 0)
	}
	return true
}

// Turn returns a number that changes with the window, as [Window.Turn] does.
func (e *Elastic) Turn() uint32 { return e.win.Turn() }

// Reset forgets everything, as [Window.Reset] does. What shards hold is then of buckets
// that are forgotten.
func (e *Elastic) Reset(now clock.Instant) { e.win.Reset(now) }

// Resize changes the span and forgets everything, as [Window.Resize] does.
func (e *Elastic) Resize(now clock.Instant, span time.Duration) { e.win.Resize(now, span) }
