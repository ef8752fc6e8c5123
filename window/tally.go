package window

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gabion-go/gabion/clock"
)

// Tally is a [Window] for those who ask for its sum as often as they add to it.
// It keeps what its closed buckets hold until the window turns, and reads only
// the newest one: so the price of a sum does not grow with the number of buckets.
//
// The sum is as exact as a Window's: a Sum that begins after an Add has ended
// holds it, also where the window turned in the middle of the Add.
//
// A Tally is made by [MakeTally]; the zero Tally can't be used. All methods are
// safe for concurrent use. It must not be copied after first use.
type Tally struct {
	win   Window
	prior *Window // what an Elastic counted in before; nil for none

	// late is how often something may have landed in a bucket that was closed by
	// then. What is kept is good as long as it is of the same turn and as late;
	// and of the same turn of the prior window, since that may move on its own.
	late  atomic.Uint32
	prev  atomic.Uint32 // the prior's turn
	stamp atomic.Uint64 // late above turn; unknown while the sums change

	mu                    sync.Mutex // guards changing of what is kept
	calls, failures, slow atomic.Int64
}

// unknown is no stamp: its lower half is no place.
const unknown = math.MaxUint64

// MakeTally returns an empty tally of calls and failures, laid out as by
// [MakePairs].
func MakeTally(span time.Duration, buckets, shards int) (t Tally) {
	t.win.lay(span, buckets, shards, 1)
	t.stamp.Store(unknown)
	return
}

// Add counts as [Window.Add] does.
func (t *Tally) Add(now clock.Instant, shard uint32, calls, failures, slow uint32) {
	before := t.win.Turn()
	t.win.count(now, shard, calls, failures, slow)
	if t.win.Turn() != before {
		t.late.Add(1) // the bucket may have been closed when the cell was written
	}
}

// Take takes back as [Window.Take] does.
func (t *Tally) Take(at, now clock.Instant, shard uint32, calls, failures uint32) bool {
	if !t.win.Take(at, now, shard, calls, failures) {
		return false
	}
	if int64(at) < t.win.end.Load()-t.win.width.Load() {
		t.late.Add(1)
	}
	return true
}

// Sum returns what the window holds at now, as [Window.Sum] does.
func (t *Tally) Sum(now clock.Instant) Counts {
	t.advance(now)
	at := place(t.win.Turn())
	stamp := uint64(t.late.Load())<<32 | uint64(at)
	c := t.newest(at)
	if t.keeps(stamp) {
		t.closed(&c)
		if t.keeps(stamp) && place(t.win.Turn()) == at {
			return c
		}
	}
	return t.keep()
}

// advance moves to the newest time seen, also by the prior window.
func (t *Tally) advance(now clock.Instant) {
	if int64(now) >= t.win.end.Load() {
		t.win.turn(now)
	}
	if t.prior == nil {
		return
	}
	if end := t.prior.end.Load(); end > t.win.end.Load() {
		t.win.turn(clock.Instant(end - 1))
	}
}

// newest returns what the bucket at that place holds, and the prior's newest.
func (t *Tally) newest(at place) (c Counts) {
	t.win.newest(at, &c)
	if t.prior != nil {
		t.prior.newest(place(t.prior.Turn()), &c)
	}
	return c
}

// keeps reports whether what is kept is of that stamp.
func (t *Tally) keeps(stamp uint64) bool {
	return t.stamp.Load() == stamp && (t.prior == nil || t.prev.Load() == t.prior.Turn())
}

func (t *Tally) closed(c *Counts) {
	c.Calls += t.calls.Load()
	c.Failures += t.failures.Load()
	c.Slow += t.slow.Load()
}

// keep sums up all buckets, and keeps what all but the newest hold.
func (t *Tally) keep() Counts {
	t.mu.Lock()
	defer t.mu.Unlock()
	at := place(t.win.Turn())
	stamp := uint64(t.late.Load())<<32 | uint64(at)
	if !t.keeps(stamp) { // else another was quicker; the sums of a stamp are written once
		t.read(at, stamp)
	}
	c := t.newest(at)
	t.closed(&c)
	return c
}

// read reads the closed buckets. Whoever adds to them from now on is late, and
// the stamp is of the time before.
func (t *Tally) read(at place, stamp uint64) {
	var c Counts
	t.win.sum(at, 1, int(t.win.n), &c)
	t.stamp.Store(unknown)
	if t.prior != nil {
		if end := t.win.end.Load(); end > t.prior.end.Load() {
			t.prior.turn(clock.Instant(end - 1))
		}
		prev := t.prior.Turn()
		t.prior.sum(place(prev), 1, int(t.prior.n), &c)
		t.prev.Store(prev)
	}
	t.calls.Store(c.Calls)
	t.failures.Store(c.Failures)
	t.slow.Store(c.Slow)
	t.stamp.Store(stamp)
}

// Span returns the time that the window covers, rounded up to whole buckets.
func (t *Tally) Span() time.Duration { return t.win.Span() }
