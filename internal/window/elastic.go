package window

import (
	"sync/atomic"
	"time"

	"github.com/gabion-go/gabion/internal/clock"
)

// Elastic is a [Window] of one shard that can be given more while it is in use.
// Of thousands of partitions a few are busy on many processors: the others
// should not pay for shards.
//
// An Elastic is made by [MakeElastic]; the zero Elastic can't be used. All
// methods are safe for concurrent use. It must not be copied after first use.
type Elastic struct {
	home Window
	// wide is where everything is added once it is there. What home holds by then
	// stays there until it is forgotten, and is added up with the rest.
	wide atomic.Pointer[wide]
}

// MakeElastic returns an empty window with one shard, laid out as by [Make].
func MakeElastic(span time.Duration, buckets int) (e Elastic) {
	e.home.lay(span, buckets, 1, 2, 0)
	return
}

// Add counts as [Window.Add] does. It reports whether so many others added at
// the same time that it should [Elastic.Grow].
func (e *Elastic) Add(now clock.Instant, shard uint32, calls, failures, slow uint32) (crowded bool) {
	if t := e.wide.Load(); t != nil {
		t.Add(now, shard, calls, failures, slow)
		return false
	}
	crowded = e.home.count(now, 0, calls, failures, slow)&meeting != 0
	if t := e.wide.Load(); t != nil {
		t.wasLate() // it has grown, and may have read home already
	}
	return crowded
}

// Grow divides the counters from now on into so many shards, as many as
// [Make] would. It does so once, nothing that was counted is lost, and sums and
// turns go on as if nothing had happened.
func (e *Elastic) Grow(shards int) {
	h := &e.home
	h.mu.Lock()
	defer h.mu.Unlock()
	if shards < 2 || e.wide.Load() != nil {
		return
	}
	t := &wide{prior: h}
	t.lay(0, int(h.n), shards, int(h.step))
	t.win.follow(h)
	e.wide.Store(t)
}

// Grown reports whether it was given more shards.
func (e *Elastic) Grown() bool { return e.wide.Load() != nil }

// follow makes an empty window that is where the other one is in time.
func (w *Window) follow(other *Window) {
	at := place(other.cur.Load())
	for shard := range uint32(w.mask) + 1 {
		first := w.cell(at, shard)
		for cell := first; cell < first+int(w.step); cell++ {
			w.cells[cell].Store(uint64(at.tag()) << tagShift)
		}
	}
	w.width.Store(other.width.Load())
	w.cur.Store(uint32(at))
	w.end.Store(other.end.Load())
}

// Sum returns what the window holds at now, as [Window.Sum] does.
func (e *Elastic) Sum(now clock.Instant) Counts {
	if t := e.wide.Load(); t != nil {
		return t.Sum(now)
	}
	return e.home.Sum(now)
}

// A Place names the bucket in which something was counted.
type Place uint64

// inWide is the bit of a Place that is not of the first shard; below it is a turn.
const inWide Place = 1 << 32

// Place returns that of the newest bucket.
func (e *Elastic) Place() Place {
	if t := e.wide.Load(); t != nil {
		return inWide | Place(t.win.Turn())
	}
	return Place(e.home.Turn())
}

// Take takes back one call that did not fail, and was slow or not, from the bucket in
// which it was counted. It reports false, and changes nothing, when that is forgotten
// or does not hold one. Pass the shard that was added to; others are tried after it.
func (e *Elastic) Take(at Place, now clock.Instant, shard uint32, slow bool) bool {
	t, w := e.wide.Load(), &e.home
	if t != nil && at&inWide != 0 {
		w = &t.win
	}
	if !w.takeCall(place(uint32(at)), now, shard, slow) {
		return false
	}
	if t != nil {
		t.wasLate() // the sum that is kept of closed buckets may hold it
	}
	return true
}

// Turn returns a number that changes with the window, as [Window.Turn] does.
func (e *Elastic) Turn() uint32 {
	if t := e.wide.Load(); t != nil {
		return t.win.Turn()
	}
	return e.home.Turn()
}

// Reset forgets everything, as [Window.Reset] does.
func (e *Elastic) Reset(now clock.Instant) {
	e.home.Reset(now)
	if t := e.wide.Load(); t != nil { // looked for after home: who grows now follows that
		t.win.Reset(now)
	}
}

// Resize changes the span and forgets everything, as [Window.Resize] does.
func (e *Elastic) Resize(now clock.Instant, span time.Duration) {
	e.home.Resize(now, span)
	if t := e.wide.Load(); t != nil {
		t.win.Resize(now, span)
	}
}

// wide is a Tally that keeps what its prior's closed buckets hold along with its
// own.
type wide struct {
	Tally
	prior *Window       // what was counted in before
	prev  atomic.Uint32 // the prior's turn in what is kept, since that may move on its own
}

// Sum is [Tally.Sum] over both.
func (t *wide) Sum(now clock.Instant) Counts {
	t.advance(now)
	k, at, prev := t.kept(), t.win.Turn(), t.prior.Turn()
	key := k.key(at)
	c := t.win.newest(place(at)).plus(t.prior.newest(place(prev)))
	if t.prev.Load() != prev { // asked before and after, as the stamp is: it changes while that is unknown
		return t.keep()
	}
	if closed, ok := k.read(key); ok && t.prev.Load() == prev && t.win.Turn() == at {
		return c.plus(closed)
	}
	return t.keep()
}

// advance moves both to the newest time that either has seen.
func (t *wide) advance(now clock.Instant) {
	if int64(now) >= t.win.end.Load() {
		t.win.turn(now)
	}
	if end := t.prior.end.Load(); end > t.win.end.Load() {
		t.win.turn(clock.Instant(end - 1))
	}
}

// keep is [Tally.keep] over both.
func (t *wide) keep() Counts {
	t.win.mu.Lock()
	defer t.win.mu.Unlock()
	if end := t.win.end.Load(); end > t.prior.end.Load() {
		t.prior.turn(clock.Instant(end - 1))
	}
	k, at, prev := t.kept(), t.win.Turn(), t.prior.Turn()
	if key := k.key(at); k[stamp].Load() != key || t.prev.Load() != prev {
		k[stamp].Store(unknown)
		t.prev.Store(prev)
		k.write(key, t.win.closed(place(at)).plus(t.prior.closed(place(prev))))
	}
	return t.win.newest(place(at)).plus(t.prior.newest(place(prev))).plus(k.sums())
}
