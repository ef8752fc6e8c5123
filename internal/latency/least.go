package latency

import (
	"time"

	"github.com/gabion-go/gabion/internal/clock"
)

// How the least time is looked at.
const (
	leastEvery = 100 * time.Millisecond // how often it is estimated anew
	leastSoon  = leastEvery / 10        // and how soon while nothing is known
	leastSeen  = 20                     // that took as long or longer, or nothing is known of so long a time
	leastShare = 0.05                   // of the work is quicker, at most
)

// Least returns the time within which hardly any of the work is done: less than a twentieth.
// It is zero where too little is known. Like the limit it takes work that was cut off as "at
// least that long", so it also knows work that has never been seen to finish. It is
// estimated ten times a second, and in between it is as cheap as reading a few words.
func (t *Tail) Least(now clock.Instant) time.Duration {
	if int64(now) < t.leastDue.Load() || !t.mu.TryLock() {
		return time.Duration(t.least.Load())
	}
	defer t.mu.Unlock()
	t.turn(now, 1-leastShare)
	var ended, atLeast [tailCells]int64
	for half := range uint32(2) {
		t.sum(half, finished, &ended)
		t.sum(half, cut, &atLeast)
	}
	least, soon := leastOf(&ended, &atLeast), leastEvery
	if least == 0 {
		soon = leastSoon
	}
	t.least.Store(int64(least))
	t.leastDue.Store(int64(now.Add(soon)))
	return least
}

// leastOf walks up the buckets as survive does.
func leastOf(ended, atLeast *[tailCells]int64) time.Duration {
	surviving, left := 1.0, int64(0)
	for i := range ended {
		left += ended[i] + atLeast[i]
	}
	for i := range ended {
		if left < leastSeen {
			return tailBegin(max(i-1, 0)) // as long as any of those that were enough, at most
		}
		surviving *= 1 - float64(ended[i])/float64(left)
		if surviving < 1-leastShare {
			return tailBegin(i)
		}
		left -= ended[i] + atLeast[i]
	}
	return 0
}

// tailBegin returns the beginning of a bucket, which is not longer than anything in it.
func tailBegin(bucket int) time.Duration {
	if bucket == 0 {
		return 0
	}
	return tailEnd(bucket - 1)
}

// Buckets is how many buckets a tail has, and Bucket the one that counts d. Each is a
// sixteenth of a doubling.
const Buckets = tailCells

// Bucket returns the bucket of a tail that counts d.
func Bucket(d time.Duration) int { return tailBucket(d) }
