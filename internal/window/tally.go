package window

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/gabion-go/gabion/internal/clock"
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
type Tally struct{ win Window }

// kept is what a Tally keeps, in words behind its cells: so it is on no line that
// adders write to, and where all cells fit into one line, which is read as
// quickly, there is none.
//
// Late is how often something may have landed in a bucket that was closed by
// then. The sums are good as long as the stamp is of the newest turn and as late.
type kept [8]atomic.Uint64

const (
	stamp = iota // late above turn; unknown while the sums change
	lates
	keptCalls
	keptFailures
	keptSlow
)

// line is how many cells fit into a cache line.
const line = 8

// unknown is no stamp: its lower half is no place.
const unknown = math.MaxUint64

// MakeTally returns an empty tally of calls and failures, laid out as by
// [MakePairs].
func MakeTally(span time.Duration, buckets, shards int) (t Tally) {
	t.lay(span, buckets, shards, 1)
	return
}

func (t *Tally) lay(span time.Duration, buckets, shards, step int) {
	if buckets*step <= line && shards <= 1 {
		t.win.lay(span, buckets, shards, step, 0)
		return
	}
	t.win.lay(span, buckets, shards, step, len(kept{}))
	t.kept()[stamp].Store(unknown)
}

// kept returns nil where nothing is kept.
func (t *Tally) kept() *kept {
	c := t.win.cells
	if len(c) <= line {
		return nil
	}
	return (*kept)(c[len(c)-len(kept{}):])
}

// key is the stamp of what is kept from now on, if that is the newest turn.
func (k *kept) key(turn uint32) uint64 { return k[lates].Load()<<32 | uint64(turn) }

func (k *kept) sums() Counts {
	return Counts{int64(k[keptCalls].Load()), int64(k[keptFailures].Load()), int64(k[keptSlow].Load())}
}

// read returns the sums of that key, if they are. One stamp before and after
// means that they were not changed in between, because no stamp comes back.
func (k *kept) read(key uint64) (c Counts, ok bool) {
	if k[stamp].Load() != key {
		return Counts{}, false
	}
	c = k.sums()
	return c, k[stamp].Load() == key
}

// write is called under the lock, and once for a key.
func (k *kept) write(key uint64, c Counts) {
	k[stamp].Store(unknown)
	k[keptCalls].Store(uint64(c.Calls))
	k[keptFailures].Store(uint64(c.Failures))
	k[keptSlow].Store(uint64(c.Slow))
	k[stamp].Store(key)
}

// Add counts as [Window.Add] does.
func (t *Tally) Add(now clock.Instant, shard uint32, calls, failures, slow uint32) {
	t.heed(t.win.count(now, shard, calls, failures, slow))
}

func (t *Tally) heed(e event) {
	if e&late != 0 {
		t.wasLate()
	}
}

// wasLate says that something landed in a bucket that may have been closed by
// then.
func (t *Tally) wasLate() {
	if k := t.kept(); k != nil {
		k[lates].Add(1)
	}
}

// Take takes back as [Window.Take] does.
func (t *Tally) Take(at, now clock.Instant, shard uint32, calls, failures uint32) bool {
	if !t.win.Take(at, now, shard, calls, failures) {
		return false
	}
	if int64(at) < t.win.end.Load()-t.win.width.Load() {
		t.wasLate()
	}
	return true
}

// Sum returns what the window holds at now, as [Window.Sum] does.
func (t *Tally) Sum(now clock.Instant) Counts {
	w, k := &t.win, t.kept()
	if int64(now) >= w.end.Load() {
		w.turn(now)
	}
	at := w.Turn()
	if k == nil {
		return w.sum(place(at), 0, int(w.n))
	}
	key := k.key(at)
	c := w.newest(place(at))
	if closed, ok := k.read(key); ok && w.Turn() == at {
		return c.plus(closed)
	}
	return t.keep()
}

// keep sums up all buckets, and keeps what all but the newest hold. Under the
// lock nothing turns and nothing is taken back; whoever adds to a closed bucket
// from now on is late, and the stamp is of the time before.
func (t *Tally) keep() Counts {
	t.win.mu.Lock()
	defer t.win.mu.Unlock()
	at, k := t.win.Turn(), t.kept()
	if key := k.key(at); k[stamp].Load() != key { // else another was quicker
		k.write(key, t.win.closed(place(at)))
	}
	return t.win.newest(place(at)).plus(k.sums())
}

// SumOf returns what the newest buckets hold, as [Window.SumOf] does. It keeps
// nothing.
func (t *Tally) SumOf(now clock.Instant, newest int) Counts { return t.win.SumOf(now, newest) }

// Resize changes the span and forgets everything, as [Window.Resize] does.
func (t *Tally) Resize(now clock.Instant, span time.Duration) { t.win.Resize(now, span) }

// Bucket returns the number of a bucket, as [Window.Bucket] does.
func (t *Tally) Bucket(now clock.Instant) int64 { return t.win.Bucket(now) }

// Span returns the time that the window covers, rounded up to whole buckets.
func (t *Tally) Span() time.Duration { return t.win.Span() }
