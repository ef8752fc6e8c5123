// Package window counts outcomes over a sliding time.
//
// A [Window] divides its span into buckets and forgets a bucket when it is one span old.
// An [Elastic] is one that can be counted in on many processors at once. Adding and
// summing take no lock but where a new bucket begins. Time is an argument, so the same
// window serves a program and a simulator.
package window

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gabion-go/gabion/internal/clock"
)

// maxBuckets is the most that the header can keep in one byte.
const maxBuckets = 255

// Window counts calls, failures and slow calls over the last span of time.
//
// The span is rounded up to whole buckets, and the newest bucket is usually only
// partly past: a window of 10 s in 10 buckets covers the last 9 to 10 s. Buckets
// begin at multiples of their width, whatever the first instant was.
//
// Time that goes backward is taken as the newest time seen, so nothing is
// counted twice and nothing comes back to life. A bucket holds 2^24-1 of each
// counter; what does not fit is ignored, calls and failures together, so that the
// bucket's ratio stands.
//
// A Window is made by [Make] or [MakePairs]; the zero Window can't be used. All
// its methods are safe for concurrent use. It must not be copied after first use.
type Window struct {
	// A turn to a new bucket stores cur before end, and Add loads end before cur. So an
	// Add that sees its time inside the newest bucket sees that bucket, or a newer one:
	// then its time has gone backward.
	end   atomic.Int64  // the instant at which the newest bucket ends
	cur   atomic.Uint32 // where the newest bucket is, a place
	n     uint8         // buckets
	step  uint8         // words per bucket: 1 for pairs, 2 with slow
	mu    sync.Mutex    // taken by turns; guards end, cur, width
	width atomic.Int64  // nanoseconds per bucket
	cells []atomic.Uint64
}

// Counts is what a window holds. Slow counts calls that Calls and perhaps
// Failures count as well.
type Counts struct{ Calls, Failures, Slow int64 }

// Make returns an empty window of span in a number of buckets (1 to 255).
func Make(span time.Duration, buckets int) (w Window) {
	w.lay(span, buckets, 2)
	return
}

// MakePairs is [Make] for a window of calls and failures only, in half the
// memory. Slow calls added to it are ignored.
func MakePairs(span time.Duration, buckets int) (w Window) {
	w.lay(span, buckets, 1)
	return
}

// lay makes an empty window.
func (w *Window) lay(span time.Duration, buckets, step int) {
	buckets = min(max(buckets, 1), maxBuckets)
	w.n, w.step = uint8(buckets), uint8(step)
	w.cells = make([]atomic.Uint64, buckets*step)
	w.width.Store(widthOf(span, buckets))
	w.end.Store(math.MinInt64)
}

// widthOf rounds up, so that the window never forgets too early.
func widthOf(span time.Duration, buckets int) int64 {
	longest := math.MaxInt64 - time.Duration(buckets)
	return int64(min(max(span, 1), longest)-1)/int64(buckets) + 1
}

// Add counts calls, failures and slow calls at now. It reports whether concurrent Adds kept
// changing the same bucket.
func (w *Window) Add(now clock.Instant, calls, failures, slow uint32) (contended bool) {
	if int64(now) < w.end.Load() && slow == 0 { // nearly every Add: in the newest bucket, alone
		at := place(w.cur.Load())
		c := &w.cells[at.cell()]
		old := word(c.Load())
		sum, fits := old.plus(calls, failures)
		if fits && old.tag() == at.tag() {
			if c.CompareAndSwap(uint64(old), uint64(sum)) {
				return false
			}
			return w.addAny(now, calls, failures, slow, 1)
		}
	}
	return w.addAny(now, calls, failures, slow, 0)
}

// addAny is Add in every case. lost counts the races for the cell that were lost so far.
func (w *Window) addAny(now clock.Instant, calls, failures, slow uint32, lost int) (contended bool) {
	if int64(now) >= w.end.Load() {
		w.turn(now)
	}
	at := place(w.cur.Load())
	how := w.addTo(at, at.cell(), calls, failures, lost)
	for how == gone {
		at = w.settled()
		how = w.addTo(at, at.cell(), calls, failures, lost)
	}
	if how != full {
		w.addSlow(at, slow)
	}
	return how == contested
}

// addSlow is the second half of counting slow calls. When the bucket is gone by then, so
// are the calls: nothing is lost.
func (w *Window) addSlow(at place, slow uint32) {
	if slow > 0 && w.step == 2 {
		w.addTo(at, at.cell()+1, slow, 0, 0)
	}
}

// result is what became of something added to a cell.
type result uint8

const (
	added     result = iota
	contested        // it was added, after losing several races
	full             // it would overflow, and was ignored
	gone             // the cell no longer belongs to the bucket
)

// manyLost is how many lost races for one Add mean that a cell is contested. One may be
// chance: the scheduler stopped the caller between reading and writing.
const manyLost = 2

func (w *Window) addTo(at place, cell int, first, second uint32, lost int) result {
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
			if lost >= manyLost {
				return contested
			}
			return added
		}
	}
}

// settled waits for a turn in progress, and returns where it went.
func (w *Window) settled() place {
	w.mu.Lock()
	defer w.mu.Unlock()
	return place(w.cur.Load())
}

// Take takes back calls and failures that were added at an earlier time. It reports
// false, and changes nothing, when that bucket is forgotten or does not hold so much.
func (w *Window) Take(at, now clock.Instant, calls, failures uint32) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.turnLocked(now)
	last := clock.Instant(w.end.Load() - 1)
	age := int64(last.Sub(at)) / w.width.Load()
	if at > last || age >= int64(w.n) {
		return false
	}
	then := w.back(int(age))
	return w.take(then, then.cell(), calls, failures)
}

// back returns the place of the bucket of that age. w.mu is held.
func (w *Window) back(age int) place {
	return place(w.cur.Load()).back(age, int(w.step), len(w.cells))
}

// take takes out of a cell, if it belongs to the bucket at that place and holds so much.
func (w *Window) take(at place, cell int, first, second uint32) bool {
	c := &w.cells[cell]
	for {
		old := word(c.Load())
		rest, ok := old.minus(first, second)
		if !ok || old.tag() != at.tag() {
			return false
		}
		if c.CompareAndSwap(uint64(old), uint64(rest)) {
			return true
		}
	}
}

// Sum returns what the window holds at now. What is a span old by then is
// forgotten, whether or not anything was added since.
func (w *Window) Sum(now clock.Instant) Counts {
	if int64(now) >= w.end.Load() {
		w.turn(now)
	}
	return w.sum(place(w.cur.Load()))
}

// sum adds up all buckets. Slow calls are read first, because they are written last: a sum never has more slow
// calls than calls.
func (w *Window) sum(newest place) (c Counts) {
	slow := w.slow(newest)
	c = w.rated(newest)
	c.Slow = slow
	return c
}

// rated is sum without slow calls. Buckets are counted back from the newest: a cell whose tag is not one of
// theirs is just being made a newer bucket.
func (w *Window) rated(newest place) (c Counts) {
	tag, n, step, cells := newest.tag(), uint16(w.n), int(w.step), w.cells
	for i := 0; i < len(cells); i += step {
		if x := word(cells[i].Load()); !x.empty() && tag-x.tag() < n {
			c.Calls += x.first()
			c.Failures += x.second()
		}
	}
	return c
}

// slow adds up the slow calls.
func (w *Window) slow(newest place) (slow int64) {
	tag, n, step, cells := newest.tag(), uint16(w.n), int(w.step), w.cells
	for i := 1; step == 2 && i < len(cells); i += step {
		if x := word(cells[i].Load()); !x.empty() && tag-x.tag() < n {
			slow += x.first()
		}
	}
	return slow
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

// Turn returns a number that changes whenever the window moves to a new bucket or is
// emptied. While it stays the same, nothing that was counted is forgotten. It is not the
// number of a bucket.
func (w *Window) Turn() uint32 { return w.cur.Load() }

// Span returns the time that the window covers, rounded up to whole buckets.
func (w *Window) Span() time.Duration {
	return time.Duration(w.width.Load()) * time.Duration(w.n)
}

func (w *Window) turn(now clock.Instant) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.turnLocked(now)
}

// turnLocked moves the window to the bucket of now, if that is newer. A year of idleness
// costs no more than one window.
func (w *Window) turnLocked(now clock.Instant) {
	end := clock.Instant(w.end.Load())
	if now < end || end == clock.Never {
		return
	}
	skipped := int64(now.Sub(end)) / w.width.Load()
	w.move(now, 1+int(min(skipped, int64(w.n)-1)))
}

// move makes a number of new, empty buckets, the last of them that of now. The tag of each cell
// changes with its bucket, so an Add that is late does not write into another bucket than its own.
func (w *Window) move(now clock.Instant, buckets int) {
	at := place(w.cur.Load())
	for range buckets {
		at = at.next(int(w.step), len(w.cells))
		for cell := at.cell(); cell < at.cell()+int(w.step); cell++ {
			w.cells[cell].Store(uint64(at.tag()) << tagShift)
		}
	}
	w.cur.Store(uint32(at))
	width := w.width.Load()
	w.end.Store(int64(now.Add(time.Duration(width - floorMod(int64(now), width)))))
}

// floorMod is never negative, so that an instant before the origin has a bucket too.
func floorMod(a, n int64) int64 {
	m := a % n
	if m < 0 {
		m += n
	}
	return m
}
