package window

import (
	"sync/atomic"
	"time"

	"github.com/gabion-go/gabion/clock"
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
	wide atomic.Pointer[Tally]
}

// MakeElastic returns an empty window with one shard, laid out as by [Make].
func MakeElastic(span time.Duration, buckets int) (e Elastic) {
	e.home.lay(span, buckets, 1, 2)
	return
}

// Add counts as [Window.Add] does. It reports whether so many others added at
// the same time that it should [Elastic.Grow].
func (e *Elastic) Add(now clock.Instant, shard uint32, calls, failures, slow uint32) (crowded bool) {
	if t := e.wide.Load(); t != nil {
		t.Add(now, shard, calls, failures, slow)
		return false
	}
	_, crowded = e.home.count(now, 0, calls, failures, slow)
	if t := e.wide.Load(); t != nil {
		t.late.Add(1) // it has grown, and may have read home already
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
	t := &Tally{prior: h}
	t.win.lay(0, int(h.n), shards, int(h.step))
	t.win.follow(h)
	t.stamp.Store(unknown)
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
