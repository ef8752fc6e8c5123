package latency

import (
	"math"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gabion-go/gabion/internal/clock"
)

// The shape of a tail: from 2^16 ns, about 66 µs, to 2^40 ns, about 18 minutes, with 16
// buckets to a doubling. A limit is the end of a bucket: at most a sixteenth too long,
// and never too short.
const (
	tailLowest = 16
	tailBits   = 4
	tailCells  = (highest - tailLowest) << tailBits
	tailShards = 64 // at most; more processors share
)

// How a tail is looked at. The figures were found in the lab (ADR 58).
const (
	tailHalf    = 30 * time.Second // a half is filled for at least as long, …
	tailLongest = 10 * time.Minute // … and until it has as many samples as the percentile needs, but no longer than this
	tailEvery   = time.Second      // how often the limit is estimated anew, …
	tailSoon    = tailEvery / 10   // … and how soon after a limit has ended an attempt
	spare       = 3                // the limit is at least so many times the median
	growth      = 2                // times the longest time seen, where the percentile is just beyond it
	gross       = 10               // so many times more cut off than asked for: the limit knows nothing any more
	hopeless    = 50               // an attempt that has less than one chance in so many is not waited for
	enoughHung  = 4 * hopeless     // more that hang count as so many: a few that finish are news
	scouts      = 16               // but one attempt in so many is, lest that goes unnoticed when it changes
)

// Knowledge is what an estimate rests on.
type Knowledge uint8

// What an estimate can rest on.
const (
	TooFew   Knowledge = iota // attempts have finished: there is no limit yet
	Known                     // the percentile is known
	TooShort                  // too many attempts were cut off for the percentile to be known: it is longer than what was seen
	Hopeless                  // likewise, but those that had the upper bound show that hardly any attempt succeeds after the limit
)

// Estimate is how long an attempt must be allowed to take, as far as it is known.
type Estimate struct {
	Limit    time.Duration // zero means that there is none: whatever bounds the limit from above
	Known    Knowledge
	Finished int64 // attempts that it knows the time of
	Cut      int64 // attempts that it knows only to have taken at least so long
	Needed   int64 // of Finished, for this percentile
}

// Tail estimates how long an attempt must be allowed to take so that no more than a
// given share is cut off which would have finished. It counts attempts that finished, and
// attempts of which only a least time is known, because something ended them: the limit
// itself, another deadline, a hedge, the caller, a failure. The estimate is that of Kaplan
// and Meier (1958), which takes the latter as "at least that long". So a limit taken from it
// does not fall below what it hides itself. If so many were cut off that the percentile lies
// beyond all that was seen, the limit grows up to its bound. If attempts that had all that
// time show that waiting so long is in vain, as in a black hole, the limit becomes short
// again, but for one attempt in sixteen.
//
// It knows the last 30 s to a minute, or where attempts are rare, as far back as the
// percentile needs samples, up to 20 minutes. It takes 6,144 bytes for each shard. A
// Tail is made by [NewTail]. All methods are safe for concurrent use. It must not be copied
// after first use.
type Tail struct {
	shards  uint32
	current atomic.Uint32   // the half that is filled
	counts  []atomic.Uint32 // by half, finished or cut, shard, bucket

	due   atomic.Int64  // the instant from which the limit is estimated anew
	soon  atomic.Int64  // the same where a limit has ended an attempt
	asked atomic.Uint64 // the share that the limit is for
	limit atomic.Int64  // below zero where it is Hopeless to wait for longer
	sent  atomic.Uint32 // attempts that had a Hopeless limit

	leastDue atomic.Int64 // the instant from which the least time is estimated anew
	least    atomic.Int64

	hint atomic.Int64 // a limit for as long as too few have finished; zero means none

	mu      sync.Mutex       // guards all below
	began   [2]clock.Instant // of each half
	hintEnd clock.Instant    // when hint ends
}

const (
	finished = iota
	cut
)

// NewTail returns a tail that knows nothing. Shards is rounded up to a power of two, at
// most 64: about as many as there are processors in a program, 1 in a simulator.
func NewTail(now clock.Instant, shards int) *Tail {
	n := 1 << bits.Len(uint(min(max(shards, 1), tailShards)-1))
	t := &Tail{shards: uint32(n), counts: make([]atomic.Uint32, 4*n*tailCells), began: [2]clock.Instant{now, now}}
	t.due.Store(never)
	t.leastDue.Store(int64(now))
	return t
}

// Finish counts an attempt that took d. It takes no lock and allocates nothing.
func (t *Tail) Finish(shard uint32, d time.Duration) { t.add(finished, shard, d) }

// Cut counts an attempt that took at least d: something ended it. Early says that the limit
// itself did, which is a reason to look at it soon.
func (t *Tail) Cut(shard uint32, d time.Duration, early bool) {
	t.add(cut, shard, d)
	if !early {
		return
	}
	if t.hint.Load() != 0 { // it was wrong
		t.hint.Store(0)
		t.due.Store(math.MinInt64)
		return
	}
	if soon := t.soon.Load(); soon < t.due.Load() {
		t.due.Store(soon)
	}
}

func (t *Tail) add(what int, shard uint32, d time.Duration) {
	c := &t.cells(t.current.Load(), what, shard&(t.shards-1))[tailBucket(d)]
	if c.Add(1) == 0 {
		c.Store(math.MaxUint32) // it wrapped: a full bucket stays full
	}
}

// Limit returns the limit for one attempt, which cuts off no more than a share 1-q of those
// that would succeed within most, the upper bound; or zero where there is none but that. It
// is estimated once a second, or a tenth of a second after the limit has ended an attempt; in
// between it is as cheap as reading a few words.
func (t *Tail) Limit(now clock.Instant, q float64, most time.Duration) time.Duration {
	limit := t.inForce(now, q, most)
	if limit >= 0 {
		return limit
	}
	if t.sent.Add(1)%scouts == 0 {
		return 0
	}
	return -limit
}

// InForce is [Tail.Limit] without sending anything.
func (t *Tail) InForce(now clock.Instant, q float64, most time.Duration) time.Duration {
	limit := t.inForce(now, q, most)
	return max(limit, -limit)
}

func (t *Tail) inForce(now clock.Instant, q float64, most time.Duration) time.Duration {
	same := t.asked.Load() == math.Float64bits(q)
	if same && int64(now) < t.due.Load() {
		return time.Duration(t.limit.Load())
	}
	if !t.mu.TryLock() {
		if same {
			return time.Duration(t.limit.Load()) // another goroutine is at it
		}
		t.mu.Lock()
	}
	defer t.mu.Unlock()
	t.turn(now, q)
	e := t.estimate(q, most)
	limit := e.Limit
	if e.Known == Hopeless {
		limit = -limit
	}
	if e.Known == TooFew && now < t.hintEnd {
		limit = time.Duration(t.hint.Load())
	}
	t.limit.Store(int64(limit))
	t.soon.Store(int64(now.Add(tailSoon)))
	t.asked.Store(math.Float64bits(q))
	t.due.Store(int64(now.Add(tailEvery)))
	return limit
}

// Suggest gives a limit for as long as too few attempts have finished for an estimate, and until the first attempt
// that it cuts off: others measured it, and it may be wrong here.
func (t *Tail) Suggest(limit time.Duration, until clock.Instant) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.hint.Store(int64(max(limit, 0)))
	t.hintEnd = until
	t.due.Store(math.MinInt64)
}

// Estimate returns what is known now, without changing the limit that is in force. It looks
// at every bucket, which takes microseconds.
func (t *Tail) Estimate(q float64, most time.Duration) Estimate { return t.estimate(q, most) }

// turn begins a new half, in place of the older one, when the current one is old enough.
func (t *Tail) turn(now clock.Instant, q float64) {
	half := t.current.Load()
	age := now.Sub(t.began[half])
	if age >= 2*tailLongest {
		t.clear(half)
		t.clear(1 - half)
		t.began[half] = now
		return
	}
	if age < tailHalf || age < tailLongest && t.finishedIn(half) < Needed(q) {
		return
	}
	t.clear(1 - half)
	t.began[1-half] = now
	t.current.Store(1 - half)
}

func (t *Tail) clear(half uint32) {
	for what := range 2 {
		for shard := range t.shards {
			counts := t.cells(half, what, shard)
			for i := range counts {
				counts[i].Store(0)
			}
		}
	}
}

func (t *Tail) finishedIn(half uint32) (n int64) {
	var sums [tailCells]int64
	t.sum(half, finished, &sums)
	for _, count := range sums {
		n += count
	}
	return n
}

func (t *Tail) sum(half uint32, what int, sums *[tailCells]int64) {
	for shard := range t.shards {
		counts := t.cells(half, what, shard)
		for i := range counts {
			sums[i] += int64(counts[i].Load())
		}
	}
}

func (t *Tail) estimate(q float64, most time.Duration) Estimate {
	var ended, atLeast [tailCells]int64
	for half := range uint32(2) {
		t.sum(half, finished, &ended)
		t.sum(half, cut, &atLeast)
	}
	return survive(q, most, &ended, &atLeast)
}

// survive walks up the buckets. Surviving is the share of attempts that take longer than
// the buckets walked, left how many are known to. The attempt that the limit is for
// counts as one more that outlasts all others, so that it takes longer with a probability of
// at most 1-q, however few are known.
func survive(q float64, bound time.Duration, ended, atLeast *[tailCells]int64) (e Estimate) {
	longest := 0
	for i := range ended {
		e.Finished += ended[i]
		e.Cut += atLeast[i]
		if ended[i]+atLeast[i] > 0 {
			longest = i
		}
	}
	e.Needed = Needed(q)
	if e.Finished < e.Needed {
		return e
	}
	least := spare * middle(e.Finished, ended)
	most := (1 - q) * (1 + 1e-9) // it is rounded
	surviving, left := 1.0, e.Finished+e.Cut+1
	for i := range longest + 1 {
		surviving *= 1 - float64(ended[i])/float64(left)
		left -= ended[i] + atLeast[i]
		if surviving <= most {
			e.Limit, e.Known = max(tailEnd(i), least), Known
			return e
		}
	}
	e.Known = TooShort
	if i, in := vain(tailBucket(bound), ended, atLeast); in {
		e.Limit, e.Known = max(tailEnd(i), least), Hopeless
	} else if surviving <= min(gross*most, 0.5) {
		e.Limit = max(growth*tailEnd(longest), least)
	}
	return e
}

// middle returns the median of those that finished.
func middle(n int64, ended *[tailCells]int64) time.Duration {
	for i, left := 0, (n+1)/2; ; i++ {
		if left -= ended[i]; left <= 0 {
			return tailEnd(i)
		}
	}
}

// vain returns the first bucket after which waiting is in vain: of the attempts that took
// longer and had all the time that there is, hardly any finished.
func vain(bound int, ended, atLeast *[tailCells]int64) (bucket int, in bool) {
	hung, late := int64(0), int64(1) // the next one may finish
	for i := bound; i < tailCells; i++ {
		hung += atLeast[i]
		late += ended[i]
	}
	hung = min(hung, enoughHung)
	for i := bound - 1; i >= 0 && hopeless*late <= hung+late; i-- {
		bucket, in = i, true
		late += ended[i]
	}
	return bucket, in
}

// Needed returns how many attempts must have finished before a percentile of them means
// anything: 100 for the 99th, 1,000 for the 99.9th. The share is rounded to a millionth.
func Needed(q float64) int64 {
	const million = 1_000_000
	rest := million - int64(math.Round(min(max(q, 0), 1)*million))
	return (million + max(rest, 1) - 1) / max(rest, 1)
}

func (t *Tail) cells(half uint32, what int, shard uint32) []atomic.Uint32 {
	from := ((int(half)*2+what)*int(t.shards) + int(shard)) * tailCells
	return t.counts[from : from+tailCells : from+tailCells]
}

func tailBucket(d time.Duration) int {
	v := uint64(min(max(d, 1<<tailLowest), 1<<highest-1))
	top := bits.Len64(v) - 1
	return (top-tailLowest)<<tailBits + int(v>>(top-tailBits)) - 1<<tailBits
}

// tailEnd returns the end of a bucket, which is longer than all that is in it.
func tailEnd(bucket int) time.Duration {
	top := bucket>>tailBits + tailLowest
	width := time.Duration(1) << (top - tailBits)
	return time.Duration(1)<<top + time.Duration(bucket&(1<<tailBits-1)+1)*width
}
