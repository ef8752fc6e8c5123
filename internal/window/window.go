// Package window counts outcomes over a sliding time.
//
// A [Window] divides its span into buckets and forgets a bucket when it is one
// span old. Breakers, budgets and throttles count in it. Writers share nothing
// but the counter of the bucket they write to, and that one is divided into
// shards; readers take no lock either. Time is an argument, so the same window
// serves a program and a simulator.
package window

import (
	"math"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gabion-go/gabion/internal/clock"
)

// The bounds of a window's layout. Its header keeps each in one byte.
const (
	maxBuckets = 255
	maxShards  = 256
)

// Window counts calls, failures and slow calls over the last span of time.
//
// The span is rounded up to whole buckets, and the newest bucket is usually only
// partly past: a window of 10 s in 10 buckets covers the last 9 to 10 s. Buckets
// begin at multiples of their width, whatever the first instant was.
//
// Time that goes backward is taken as the newest time seen, so nothing is
// counted twice and nothing comes back to life. A bucket holds 2^24-1 of each
// counter in each shard; what does not fit is ignored, calls and failures
// together, so that the bucket's ratio stands.
//
// A Window is made by [Make] or [MakePairs]; the zero Window can't be used. All
// its methods are safe for concurrent use. It must not be copied after first use.
type Window struct {
	// A turn stores cur before end, and an adder loads end before cur. So an
	// adder that sees its time inside the newest bucket sees that bucket, or a
	// newer one when it was overtaken, which is the clamp that time going
	// backward gets.
	end   atomic.Int64  // the instant at which the newest bucket ends
	cur   atomic.Uint32 // where the newest bucket is, a place
	n     uint8         // buckets
	mask  uint8         // shards-1
	lines uint8         // cache lines from one shard to the next, 0 with one shard
	step  uint8         // words per bucket: 1 for pairs, 2 with slow
	mu    sync.Mutex    // taken by whoever turns the window; guards end, cur, width
	width atomic.Int64  // nanoseconds per bucket
	cells []atomic.Uint64
}

// Counts is what a window holds. Slow counts calls that Calls and perhaps
// Failures count as well.
type Counts struct{ Calls, Failures, Slow int64 }

func (c Counts) plus(d Counts) Counts {
	return Counts{c.Calls + d.Calls, c.Failures + d.Failures, c.Slow + d.Slow}
}

// Make returns an empty window of span in so many buckets (1 to 255). Shards, at
// most 256, is rounded up to a power of two: as many as there are processors in
// a program, 1 in a simulator.
func Make(span time.Duration, buckets, shards int) (w Window) {
	w.lay(span, buckets, shards, 2, 0)
	return
}

// MakePairs is [Make] for a window of calls and failures only, in half the
// memory. Slow calls added to it are ignored.
func MakePairs(span time.Duration, buckets, shards int) (w Window) {
	w.lay(span, buckets, shards, 1, 0)
	return
}

// lay makes an empty window, and room for so many words behind its cells.
func (w *Window) lay(span time.Duration, buckets, shards, step, behind int) {
	buckets = min(max(buckets, 1), maxBuckets)
	shards = 1 << bits.Len(uint(min(max(shards, 1), maxShards)-1))
	w.n, w.mask, w.step = uint8(buckets), uint8(shards-1), uint8(step)
	words := buckets * step
	if shards > 1 { // a shard to itself is a cache line to itself
		w.lines = uint8((words + 7) / 8)
		words = shards * int(w.lines) * 8
	}
	w.cells = make([]atomic.Uint64, words+behind)
	w.width.Store(widthOf(span, buckets))
	w.end.Store(math.MinInt64)
}

// widthOf rounds up, so that the window never forgets too early.
func widthOf(span time.Duration, buckets int) int64 {
	longest := math.MaxInt64 - time.Duration(buckets)
	return int64(min(max(span, 1), longest)-1)/int64(buckets) + 1
}

// Add counts so many calls, failures and slow calls at now. Callers that run on
// different processors should pass different shards. It reports whether this was
// the Add that moved the window to a new bucket, the first one included: a
// moment to look at sums that nobody needs to know sooner.
func (w *Window) Add(now clock.Instant, shard uint32, calls, failures, slow uint32) (turned bool) {
	return w.count(now, shard, calls, failures, slow)&turning != 0
}

// An event is what else happened to an Add, as a set.
type event uint8

const (
	turning event = 1 << iota // it moved the window
	meeting                   // others were at the same cell
	late                      // its bucket was no longer the newest when it ended
)

// count is Add, and says more. What nearly every Add is comes first: a call of
// the newest bucket that nobody gets in between.
func (w *Window) count(now clock.Instant, shard uint32, calls, failures, slow uint32) event {
	if int64(now) < w.end.Load() && slow == 0 {
		at := place(w.cur.Load())
		c := &w.cells[w.cell(at, shard)]
		old := word(c.Load())
		sum, fits := old.plus(calls, failures)
		if fits && old.tag() == at.tag() {
			if c.CompareAndSwap(uint64(old), uint64(sum)) {
				return w.lateFor(at)
			}
			return w.countAny(now, shard, calls, failures, slow, 1)
		}
	}
	return w.countAny(now, shard, calls, failures, slow, 0)
}

// countAny is count whatever happens, after others got in between so often.
func (w *Window) countAny(now clock.Instant, shard uint32, calls, failures, slow uint32, lost int) (e event) {
	if int64(now) >= w.end.Load() && w.turn(now) {
		e = turning
	}
	at := place(w.cur.Load())
	how := w.add(at, w.cell(at, shard), calls, failures, lost)
	for how == gone {
		at = w.settled()
		how = w.add(at, w.cell(at, shard), calls, failures, lost)
	}
	if slow > 0 && how != full && w.step == 2 {
		// When the bucket is gone by now, so is the call: nothing is lost.
		w.add(at, w.cell(at, shard)+1, slow, 0, 0)
	}
	if how == pushed {
		e |= meeting
	}
	return e | w.lateFor(at)
}

// lateFor is asked after all was added to the bucket at that place. Who is not
// late was done before the bucket was closed, so a sum of closed buckets that
// somebody keeps holds it.
func (w *Window) lateFor(at place) event {
	if place(w.cur.Load()) != at {
		return late
	}
	return 0
}

// A landing is what became of something added to a cell.
type landing uint8

const (
	landed landing = iota
	pushed         // it landed, but others got in between again and again
	full           // it would overflow, and was ignored
	gone           // the cell no longer belongs to the bucket
)

// crowded is how often others get in between one Add and its cell where there
// really are many. Once may be bad luck: an adder that the scheduler stopped
// between reading and writing finds that it was overtaken, however quiet the
// window. But then it is running, and the next time takes a few nanoseconds.
const crowded = 2

func (w *Window) add(at place, cell int, first, second uint32, lost int) landing {
	c := &w.cells[cell]
	for ; ; lost++ {
		old := word(c.Load())
		if old.tag() != at.tag() {
			return gone
		}
		sum, fits := old.plus(first, second)
		if !fits {
			return full
		}
		if c.CompareAndSwap(uint64(old), uint64(sum)) {
			if lost >= crowded {
				return pushed
			}
			return landed
		}
	}
}

// settled waits for a turn in progress, and returns where it went.
func (w *Window) settled() place {
	w.mu.Lock()
	defer w.mu.Unlock()
	return place(w.cur.Load())
}

// Sum returns what the window holds at now. What is a span old by then is
// forgotten, whether or not anything was added since.
func (w *Window) Sum(now clock.Instant) Counts { return w.SumOf(now, int(w.n)) }

// SumOf is [Window.Sum] over the newest buckets only. The newest one is partly
// past.
func (w *Window) SumOf(now clock.Instant, newest int) Counts {
	if int64(now) >= w.end.Load() {
		w.turn(now)
	}
	return w.sum(place(w.cur.Load()), 0, min(newest, int(w.n)))
}

// sum adds up the buckets from one age to another, counted back from the newest.
// A cell of another tag was recycled, and what it held is forgotten. Slow is read
// first because it is written last: a reader never sees more slow calls than
// calls.
func (w *Window) sum(newest place, from, to int) Counts {
	step, length := int(w.step), w.row()
	first := newest.back(from, step, length)
	var calls, failures, slow int64
	for shard := range uint32(w.mask) + 1 {
		row := w.cells[int(shard)*int(w.lines)*8:][:length]
		tag, i := first.tag(), first.cell()
		for range to - from {
			if step == 2 {
				slow += word(row[i+1].Load()).slowOf(tag)
			}
			if both := word(row[i].Load()); both.tag() == tag {
				calls += both.first()
				failures += both.second()
			}
			if i -= step; i < 0 {
				i += length
			}
			tag--
		}
	}
	return Counts{calls, failures, slow}
}

// closed adds up all buckets but the newest.
func (w *Window) closed(newest place) Counts { return w.sum(newest, 1, int(w.n)) }

// newest adds up the newest bucket only: one cell of each shard, and one of slow
// calls.
func (w *Window) newest(at place) (c Counts) {
	cell, stride := at.cell(), int(w.lines)*8
	for range int(w.mask) + 1 {
		if w.step == 2 {
			c.Slow += word(w.cells[cell+1].Load()).slowOf(at.tag())
		}
		if both := word(w.cells[cell].Load()); both.tag() == at.tag() {
			c.Calls += both.first()
			c.Failures += both.second()
		}
		cell += stride
	}
	return c
}

// Reset forgets everything, and takes now as the newest time even if it is
// earlier than what was seen. An Add at the same moment counts before or after.
func (w *Window) Reset(now clock.Instant) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.move(now, int(w.n))
}

// Resize changes the span and forgets everything. The number of buckets stays.
func (w *Window) Resize(now clock.Instant, span time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.width.Store(widthOf(span, int(w.n)))
	w.move(now, int(w.n))
}

// Bucket returns the number of the bucket that now belongs to, counted from the
// origin of time: -1 is the one that ends there.
func (w *Window) Bucket(now clock.Instant) int64 {
	width := w.width.Load()
	return (int64(now) - floorMod(int64(now), width)) / width
}

// Turn returns a number that changes whenever the window moves to a new bucket
// or is emptied, so that a reader can tell whether what it summed up can have
// grown old. It is no bucket number.
func (w *Window) Turn() uint32 { return w.cur.Load() }

// Span returns the time that the window covers, rounded up to whole buckets.
func (w *Window) Span() time.Duration {
	return time.Duration(w.width.Load()) * time.Duration(w.n)
}

func (w *Window) turn(now clock.Instant) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.turnLocked(now)
}

// turnLocked moves the window to the bucket of now, and reports whether it had
// to. A year of idleness costs no more than one window.
func (w *Window) turnLocked(now clock.Instant) bool {
	end := clock.Instant(w.end.Load())
	if now < end || end == clock.Never {
		return false
	}
	skipped := int64(now.Sub(end)) / w.width.Load()
	w.move(now, 1+int(min(skipped, int64(w.n)-1)))
	return true
}

// move makes so many new, empty buckets, the last of them that of now. The tag
// in each cell changes with its bucket, so an adder that comes late can't write
// into a bucket that is no longer its own.
func (w *Window) move(now clock.Instant, buckets int) {
	at := place(w.cur.Load())
	for range buckets {
		at = at.next(int(w.step), w.row())
		for shard := range uint32(w.mask) + 1 {
			first := w.cell(at, shard)
			for cell := first; cell < first+int(w.step); cell++ {
				w.cells[cell].Store(uint64(at.tag()) << tagShift)
			}
		}
	}
	w.cur.Store(uint32(at))
	width := w.width.Load()
	w.end.Store(int64(now.Add(time.Duration(width - floorMod(int64(now), width)))))
}

func (w *Window) cell(at place, shard uint32) int {
	return int(shard&uint32(w.mask))*int(w.lines)*8 + at.cell()
}

// row returns how many cells the buckets of one shard take.
func (w *Window) row() int { return int(w.n) * int(w.step) }

// floorMod is never negative, so that -8 has a place in a bucket too.
func floorMod(a, n int64) int64 {
	m := a % n
	if m < 0 {
		m += n
	}
	return m
}
