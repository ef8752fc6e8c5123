// Package throttle rejects calls locally when a dependency rejects most of them.
//
// It is adaptive throttling as in Beyer et al., "Site Reliability Engineering"
// (2016), chapter 21: the more of the recent requests were not accepted, the more
// of the next ones are not sent, and each that is sent finds out anew.
package throttle

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/gabion-go/gabion/clock"
	"github.com/gabion-go/gabion/window"
)

// buckets is how many parts of its window a Throttle forgets one at a time: ten
// seconds of the usual two minutes.
const buckets = 12

// unknown is no turn of a window; those have 32 bits.
const unknown = 1 << 32

// Throttle counts requests and how many of them were accepted over the last
// window of time. What is older is forgotten whether or not anything is counted
// since, so an idle Throttle rejects nothing.
//
// To read twelve buckets of every shard for each request would cost more than to
// count it. So the sum of all buckets but the newest is kept until the window
// turns: nothing is added to them any more. When the verbs are called one after
// another every probability is exact. Called at the same moment, a verb that is
// still under way when the window turns may count double or not at all until the
// next turn, and no longer.
//
// A Throttle is made by [Make]; the zero Throttle can't be used. All methods are
// safe for concurrent use. It must not be copied after first use.
type Throttle struct {
	sent window.Window // requests are its calls, accepts its failures

	// All but the newest bucket. Whoever holds mu sets turn to unknown, changes
	// the sums and then says of which turn they are.
	mu       sync.Mutex
	turn     atomic.Uint64
	requests atomic.Int64
	accepts  atomic.Int64
}

// Make returns an empty throttle over the last window of time, rounded up to
// twelve whole buckets and counted in so many shards, as in [window.Make].
func Make(span time.Duration, shards int) (t Throttle) {
	t.sent = window.MakePairs(span, buckets, shards)
	t.turn.Store(unknown)
	return
}

// Request counts a call when it starts, also one that is then rejected locally:
// otherwise rejecting would look like recovery. Callers that run on different
// processors should pass different shards.
func (t *Throttle) Request(now clock.Instant, shard uint32) {
	t.sent.Add(now, shard, 1, 0, 0)
}

// Accept counts the request of the time at as accepted by the dependency: it did
// the work, or refused for another reason than load. It counts at now; but when
// the request is a window old, and so forgotten, its accept is not counted.
func (t *Throttle) Accept(at, now clock.Instant, shard uint32) {
	if now.Sub(at) < t.sent.Span() {
		t.sent.Add(now, shard, 0, 1, 0)
	}
}

// Forget takes the request of the time at back, when its end says nothing about
// the dependency. It reports false when the request is forgotten already.
func (t *Throttle) Forget(at, now clock.Instant, shard uint32) bool {
	before := t.sent.SumOf(now, 1).Calls
	if !t.sent.Take(at, now, shard, 1, 0) {
		return false
	}
	if t.sent.SumOf(now, 1).Calls >= before { // it came from an older bucket
		t.mu.Lock()
		defer t.mu.Unlock()
		t.turn.Store(unknown)
	}
	return true
}

// Probability returns the share of requests to reject locally at now,
// max(0, (requests − k·accepts)/(requests + 1)). It is 0 as long as the
// dependency accepts one of k requests, and always below 1, so that some get
// through to find out. A negative k counts as 0; one that is NaN rejects nothing.
func (t *Throttle) Probability(now clock.Instant, k float64) float64 {
	sum := t.sum(now)
	// The conversion of the product keeps it from being fused with the
	// subtraction, so that all machines reject alike.
	over := float64(sum.Calls) - float64(max(k, 0)*float64(sum.Failures))
	if !(over > 0) {
		return 0
	}
	return over / float64(sum.Calls+1)
}

// Counts returns the requests and accepts that are remembered at now.
func (t *Throttle) Counts(now clock.Instant) (requests, accepts int64) {
	sum := t.sent.Sum(now)
	return sum.Calls, sum.Failures
}

// sum returns what the window holds. It reads the turn before and after, since
// sums of two turns don't belong together.
func (t *Throttle) sum(now clock.Instant) window.Counts {
	turn := uint64(t.sent.Turn())
	sum := t.sent.SumOf(now, 1)
	if t.turn.Load() == turn {
		sum.Calls += t.requests.Load()
		sum.Failures += t.accepts.Load()
		if t.turn.Load() == turn && uint64(t.sent.Turn()) == turn {
			return sum
		}
	}
	return t.keep(now)
}

// keep sums up all buckets, and keeps what all but the newest hold.
func (t *Throttle) keep(now clock.Instant) window.Counts {
	t.mu.Lock()
	defer t.mu.Unlock()
	newest := t.sent.SumOf(now, 1)
	turn := uint64(t.sent.Turn())
	all := t.sent.Sum(now)
	for range 3 { // until nothing was added meanwhile, or that is too much to ask
		again := t.sent.SumOf(now, 1)
		if again == newest {
			break
		}
		newest, all = again, t.sent.Sum(now)
	}
	t.turn.Store(unknown)
	t.requests.Store(max(all.Calls-newest.Calls, 0))
	t.accepts.Store(max(all.Failures-newest.Failures, 0))
	if uint64(t.sent.Turn()) == turn {
		t.turn.Store(turn)
	}
	return all
}
