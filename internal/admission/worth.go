package admission

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/internal/latency"
)

// What is worth beginning. The tokens of a time are how many more may be begun in vain with about as much
// time. They are full after one that was done in time.
const (
	full   = 40          // tokens
	open   = 20          // up to here, and where nothing new is known, what the work takes decides
	news   = 30          // where one was done in time that had as little or less
	tryOne = 150         // of those that have too little time one in 150 is begun nevertheless, …
	tryAt  = time.Second // … or one after so long, where a slot is free
	stale  = time.Minute // after which it is forgotten what became of those with as much time
)

// worth finds out whether work is worth beginning that must be done within a time. It knows two
// things: how long the work takes over all callers, and what became of requests with about as much
// time. The latter has the last word, since short deadlines mostly belong to quick work. Where
// fewer than one in twenty is done in time, it is not begun, but for one in 150: lest it goes
// unnoticed when the work gets quicker.
//
// It takes no lock. Where two write at once, one of them is lost.
type worth struct {
	took   *latency.Tail
	skips  atomic.Uint32
	tried  atomic.Int64                  // when one was begun that had too little time
	tokens [latency.Buckets]atomic.Int64 // by the time that was left; see put
}

func newWorth(shards int) *worth {
	w := &worth{took: latency.NewTail(0, shards)}
	w.tried.Store(math.MinInt64)
	return w
}

// second is the second of an instant, above zero.
func second(now clock.Instant) int64 { return int64(now)/int64(time.Second) + 1<<40 }

// written is a number of tokens with the second in which it was written.
func written(now clock.Instant, n int64) int64 { return second(now)<<8 | n }

func (w *worth) put(now clock.Instant, bucket int, n int64) {
	w.tokens[bucket].Store(written(now, n))
}

// of returns the tokens of a bucket.
func (w *worth) of(now clock.Instant, bucket int) (n int64) {
	c := w.tokens[bucket].Load()
	if second(now)-c>>8 > int64(stale/time.Second) {
		return open
	}
	return c & 0xff
}

// lacks reports whether so much time is too little for the work.
func (w *worth) lacks(now clock.Instant, left time.Duration) bool {
	n := w.of(now, latency.Bucket(left))
	return n == 0 || n <= open && left < w.took.Least(now)
}

// tries reports whether work is begun nevertheless that has too little time.
func (w *worth) tries(now clock.Instant, free bool) bool {
	last := w.tried.Load()
	if w.skips.Add(1)%tryOne != 0 && !(free && now.Sub(clock.Instant(last)) >= tryAt) {
		return false
	}
	return w.tried.CompareAndSwap(last, int64(now))
}

// ended counts work that had a slot from began on. It was done, or its caller went before
// it was: that ended it, or it went on to its end.
func (w *worth) ended(now, began, deadline clock.Instant, done bool) {
	took := now.Sub(began)
	if done {
		w.took.Finish(uint32(began>>10), took)
	} else {
		w.took.Cut(uint32(began>>10), took, false)
	}
	if deadline == clock.Never {
		return
	}
	switch left := deadline.Sub(began); {
	case done && now < deadline:
		w.inTime(now, left, took)
	case took >= left-left/8: // a caller's deadline is a little earlier than here
		w.inVain(now, left)
	}
}

func (w *worth) inTime(now clock.Instant, left, took time.Duration) {
	b := latency.Bucket(left)
	if w.tokens[b].Load() == written(now, full) {
		return
	}
	if w.lacks(now, left) {
		for i := latency.Bucket(took); i < latency.Buckets; i++ {
			if w.of(now, i) <= open {
				w.put(now, i, news)
			}
		}
	}
	w.put(now, b, full)
}

func (w *worth) inVain(now clock.Instant, left time.Duration) {
	b := latency.Bucket(left)
	w.put(now, b, max(w.of(now, b)-1, 0))
}
