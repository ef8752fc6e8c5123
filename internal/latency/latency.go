// Package latency remembers how long calls took, precisely enough for percentiles of the
// recent past.
//
// A [Sketch] is a histogram with 32 buckets for each doubling of the duration, as in
// HdrHistogram (Tene 2013), so that the error is relative. It slides by halves: one half
// of its span is filled while the other is still read, and a half that is a span old is
// emptied and used again.
package latency

import (
	"math"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gabion-go/gabion/internal/clock"
)

// The shape of the histogram: from 2^10 ns, about 1 µs, to 2^40 ns, about 18
// minutes.
const (
	lowest  = 10
	highest = 40
	subBits = 5 // 32 buckets to a doubling: half a bucket is 1/64 of its start
	blocks  = highest - lowest
	cells   = blocks << subBits
	maxSubs = 256 // shards; more processors share
)

// Sketch counts durations over the last half to whole span of time.
//
// What it answers is within 1.6 % of what was recorded, from 1 µs to 18 minutes;
// shorter durations count as 1 µs, longer ones as 18 minutes. It takes 480 bytes
// for each shard, and 128 more in each half for each doubling of the duration that
// occurs: 7,680 at most. Time that goes backward is taken as the newest time seen.
//
// A Sketch is made by [New]; the zero Sketch can't be used. All methods are safe
// for concurrent use. It must not be copied after first use.
type Sketch struct {
	half   int64 // nanoseconds
	shards uint32
	turns  [2]atomic.Int64         // which half-span each half holds, or never, or emptying
	blocks []atomic.Pointer[block] // by half, shard, doubling; nil where nothing was recorded yet

	// The last answer of Recent. Under mu, fresh is unset, the rest is changed, and
	// fresh is set again.
	mu    sync.Mutex
	fresh atomic.Int64 // the instant until which the answer holds
	asked atomic.Uint64
	value atomic.Int64
	count atomic.Int64
}

// block has the buckets of one doubling.
type block [1 << subBits]atomic.Uint32

const (
	never    = math.MinInt64
	emptying = math.MaxInt64
)

// New returns an empty sketch of the last half to whole span. Shards is rounded
// up to a power of two, at most 256: about as many as there are processors in a
// program, 1 in a simulator.
func New(span time.Duration, shards int) *Sketch {
	n := 1 << bits.Len(uint(min(max(shards, 1), maxSubs)-1))
	s := &Sketch{
		half:   max(int64(span)/2, 1),
		shards: uint32(n),
		blocks: make([]atomic.Pointer[block], 2*n*blocks),
	}
	s.turns[0].Store(never)
	s.turns[1].Store(never)
	s.fresh.Store(never)
	return s
}

// Record counts one duration at now. Callers that run on different processors
// should pass different shards. It takes no lock, and allocates only for the first
// duration of a doubling. While another goroutine empties a half for reuse, which is a
// microsecond once in half a span, what is recorded is lost.
func (s *Sketch) Record(now clock.Instant, shard uint32, d time.Duration) {
	turn := s.turn(now)
	if s.turns[turn&1].Load() != turn && !s.reuse(turn) {
		return
	}
	bucket := bucketOf(d)
	of := &s.of(turn&1, shard&(s.shards-1))[bucket>>subBits]
	b := of.Load()
	if b == nil {
		of.CompareAndSwap(nil, new(block))
		b = of.Load()
	}
	if c := &b[bucket&(1<<subBits-1)]; c.Add(1) == 0 {
		c.Store(math.MaxUint32) // it wrapped: a full bucket stays full
	}
}

// reuse makes the half of this turn hold nothing but this turn. It reports false
// when another goroutine is at it.
func (s *Sketch) reuse(turn int64) bool {
	held := &s.turns[turn&1]
	old := held.Load()
	if old == emptying {
		return false
	}
	if old >= turn { // time went backward, or another goroutine was quicker
		return true
	}
	if !held.CompareAndSwap(old, emptying) {
		return false
	}
	for shard := range s.shards {
		of := s.of(turn&1, shard)
		for i := range of {
			of[i].Load().empty()
		}
	}
	held.Store(turn)
	return true
}

// Quantile returns the duration that a share q of those recorded did not exceed,
// and how many they are; (0, 0) when there are none. It is the nearest rank: 0.5
// of three is the second, 0 the smallest, 1 the largest. A q outside [0, 1]
// counts as its nearer end, NaN as 0; q is rounded to a millionth. It looks at
// every bucket, which takes microseconds: on a hot path ask [Sketch.Recent].
func (s *Sketch) Quantile(now clock.Instant, q float64) (d time.Duration, n int64) {
	var sums [cells]int64
	n = s.sum(now, &sums)
	left := rank(q, n)
	for i, count := range sums {
		if left -= count; left <= 0 && n > 0 {
			return durationOf(i), n
		}
	}
	return 0, 0
}

// Quantiles is [Sketch.Quantile] for several shares at once, which are in order. The
// durations go to ds.
func (s *Sketch) Quantiles(now clock.Instant, qs []float64, ds []time.Duration) (n int64) {
	var sums [cells]int64
	if n = s.sum(now, &sums); n == 0 {
		return 0
	}
	bucket, seen := 0, sums[0]
	for i, q := range qs {
		for least := rank(q, n); seen < least; seen += sums[bucket] {
			bucket++
		}
		ds[i] = durationOf(bucket)
	}
	return n
}

// Recent is [Sketch.Quantile] with an answer up to 1/32 of the span old, which
// makes it as cheap as reading a few words. It remembers the answer to one q.
func (s *Sketch) Recent(now clock.Instant, q float64) (d time.Duration, n int64) {
	fresh := s.fresh.Load()
	if int64(now) < fresh && s.asked.Load() == math.Float64bits(q) {
		d, n = time.Duration(s.value.Load()), s.count.Load()
		if s.fresh.Load() == fresh {
			return d, n
		}
	}
	d, n = s.Quantile(now, q)
	if s.mu.TryLock() { // else another goroutine is remembering an answer
		defer s.mu.Unlock()
		s.fresh.Store(never)
		s.asked.Store(math.Float64bits(q))
		s.value.Store(int64(d))
		s.count.Store(n)
		s.fresh.Store(int64(now.Add(time.Duration(s.half / 16))))
	}
	return d, n
}

// sum adds up the counts that are not forgotten by now, and returns their total.
func (s *Sketch) sum(now clock.Instant, sums *[cells]int64) (n int64) {
	newest := s.turn(now)
	for half := range s.turns {
		if held := s.turns[half].Load(); held != emptying {
			newest = max(newest, held)
		}
	}
	for half := range s.turns {
		held := s.turns[half].Load()
		if held == emptying || held < newest-1 {
			continue
		}
		for shard := range s.shards {
			of := s.of(int64(half), shard)
			for i := range of {
				n += of[i].Load().add(sums[i<<subBits:])
			}
		}
	}
	return n
}

// turn returns which half-span now belongs to, counted from the origin of time.
func (s *Sketch) turn(now clock.Instant) int64 {
	turn := int64(now) / s.half
	if int64(now)%s.half < 0 {
		turn--
	}
	return turn
}

// of returns the blocks of a shard in one half.
func (s *Sketch) of(half int64, shard uint32) *[blocks]atomic.Pointer[block] {
	return (*[blocks]atomic.Pointer[block])(s.blocks[(int(half)*int(s.shards)+int(shard))*blocks:])
}

func (b *block) empty() {
	if b == nil {
		return
	}
	for i := range b {
		b[i].Store(0)
	}
}

// add adds its counts to sums, and returns their total.
func (b *block) add(sums []int64) (n int64) {
	if b == nil {
		return 0
	}
	for i := range b {
		count := int64(b[i].Load())
		sums[i] += count
		n += count
	}
	return n
}

// bucketOf returns which bucket counts d: the number of its highest bit, and the
// five bits below that one.
func bucketOf(d time.Duration) int {
	v := uint64(min(max(d, 1<<lowest), 1<<highest-1))
	top := bits.Len64(v) - 1
	return (top-lowest)<<subBits + int(v>>(top-subBits)) - 1<<subBits
}

// durationOf returns the middle of a bucket.
func durationOf(bucket int) time.Duration {
	top := bucket>>subBits + lowest
	width := time.Duration(1) << (top - subBits)
	return time.Duration(1)<<top + time.Duration(bucket&(1<<subBits-1))*width + width/2
}

// rank returns how many of n, at least one, make up a share q. It multiplies
// integers, so that 0.07 of 100 is 7 and not the 8 of floats.
func rank(q float64, n int64) int64 {
	const million = 1_000_000
	share := uint64(0)
	if q > 0 {
		share = uint64(math.Round(float64(min(q, 1) * million)))
	}
	high, low := bits.Mul64(share, uint64(n))
	low, carry := bits.Add64(low, million-1, 0)
	rank, _ := bits.Div64(high+carry, low, million)
	return max(int64(rank), 1)
}
