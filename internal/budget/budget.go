// Package budget limits how much retries and hedges add to the load.
//
// [Earned] is the default: successes earn re-sends, and time earns none. A [Window]
// compares re-sends with calls over a sliding time: re-sends are at most a ratio of the
// calls and a floor, as in Finagle, Linkerd and tower. A [Bucket] holds tokens that
// re-sends or failures take and successes bring back, as in gRPC and the AWS SDKs. A [Share]
// bounds the re-sends in flight by the calls in flight, as in Envoy. All keep only
// state. The rules are arguments, so that a reload changes them and not the counts.
//
// A budget is asked before the wait between attempts, not after it. So calls that all
// wait at the same time can't all find it full.
package budget

import (
	"math"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gabion-go/gabion/internal/clock"
)

const (
	million = 1_000_000

	// slices is how many a Window keeps. A hundred are as long as its span, the last is
	// the one under way. Of a steady stream a Window grants one part in slices less than its
	// ratio.
	slices = 101

	// grain is what spans are rounded up to: a whole number of nanoseconds for each of a
	// hundred slices.
	grain = time.Microsecond

	longest = time.Duration(1) << 60 // 36 years, so that all slices fit too

	// most is how many re-sends in a whole window are granted at most, so that none is
	// not counted.
	most = 1<<24 - 1
)

// Rules say how many re-sends a [Window] allows: RatioPPM millionths of the calls
// in it, plus FloorMilli thousandths whatever the traffic, and of that sum the
// whole part. Negative fields count as 0, and the zero Rules allow nothing.
type Rules struct{ RatioPPM, FloorMilli int64 }

// NewRules rounds a ratio and a floor to [Rules]. The floor is per second and
// becomes one per window, which must be that of the Window the rules are used
// with. Negative arguments and NaN count as 0; the largest ratio is a million.
func NewRules(ratio, floorPerSecond float64, window time.Duration) Rules {
	return Rules{
		RatioPPM:   rounded(ratio, million, million*million),
		FloorMilli: rounded(floorPerSecond*max(window, 0).Seconds(), 1000, math.MaxInt64/million),
	}
}

// rounded returns x × parts as a whole number, at least 0 and at most limit.
func rounded(x float64, parts, limit int64) int64 {
	if !(x > 0) {
		return 0
	}
	if x >= float64(limit/parts) {
		return limit
	}
	return int64(math.Round(float64(x * float64(parts))))
}

// Allows returns how many re-sends the rules allow beside a number of calls.
func (r Rules) Allows(calls int64) int64 {
	high, low := bits.Mul64(uint64(max(r.RatioPPM, 0)), uint64(calls))
	floor := min(max(r.FloorMilli, 0), math.MaxInt64/1000) * 1000
	low, carry := bits.Add64(low, uint64(floor), 0)
	if high += carry; high > 0 {
		return most // 2^64 millionths are far more than that
	}
	return int64(min(low/million, most))
}

// Window is a budget over a sliding span of time.
//
// The promise: whenever a re-send is granted, those granted within the span that ends
// there, it included and refunds taken off, are at most the ratio of the calls in that
// span, plus the floor. Nothing is saved up. The span is cut into a hundred slices, and re-sends
// are remembered for one slice longer than calls, so no call pays twice. A slice that is
// partly older than the span does not pay, so a steady stream is granted 1 % less than its
// ratio. All re-sends are forgotten once none was granted for a whole span. So what was
// spent in one moment is there again one span later.
//
// Calls are counted by shards and without a lock. Everything else is done under one lock:
// it is needed only where something failed.
//
// A Window is made by [MakeWindow]; the zero Window can't be used. It takes 900 bytes, and
// 64 more for each shard once it has them. All methods are safe for concurrent use. It must not be copied
// after first use. Time that goes backward is taken as the newest time seen, to within a
// slice: as the moment when the newest one began.
type Window struct {
	end   atomic.Int64 // when the newest slice ends; changes under mu
	calls counters     // since the beginning

	mu      sync.Mutex // guards all below
	newest  uint8      // of slices
	width   time.Duration
	last    clock.Instant  // when the newest re-send was granted
	before  [slices]uint32 // calls before each slice; the difference of two is right also after 2^32
	resends [slices]uint32 // in each slice, less those refunded
	sent    int64          // the sum of resends
}

// MakeWindow returns an empty budget over span, which is rounded up to a whole
// microsecond. Calls are counted on one word, and on shards cache lines, at most 256, rounded up to a power of two, once
// two have met there.
func MakeWindow(span time.Duration, shards int) (w Window) {
	w.calls.bound(shards)
	w.width = widthOf(span)
	w.last = math.MinInt64
	w.end.Store(math.MinInt64)
	return
}

// widthOf returns how long the slices of a budget of that span are, which is rounded up.
func widthOf(span time.Duration) time.Duration {
	return (min(max(span, grain), longest) + grain - 1) / grain * (grain / (slices - 1))
}

// Resize changes the span and forgets everything. Reservations made before must not be
// refunded.
func (w *Window) Resize(now clock.Instant, span time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.width = widthOf(span)
	w.last = math.MinInt64
	w.move(now, slices)
}

// Span returns the time over which calls and re-sends are compared.
func (w *Window) Span() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.span()
}

func (w *Window) span() time.Duration { return w.width * (slices - 1) }

// Reservation is a re-send that was granted and not yet made. The zero Reservation reserves
// nothing. The caller owns it, and refunds it at most once.
type Reservation struct {
	at   clock.Instant
	held bool
	more bool
}

// More reports whether the rules allowed one more re-send after it.
func (r Reservation) More() bool { return r.more }

// Deposit counts one call, once, when its first attempt is sent: not one per attempt,
// or retry layers above each other would pay for one another, and not before, or calls
// that were refused would pay for the re-sends of others. It takes no lock but where a
// slice begins. Callers that run on different processors should pass different shards.
func (w *Window) Deposit(now clock.Instant, shard uint32) {
	if int64(now) >= w.end.Load() {
		w.mu.Lock()
		w.turn(now)
		w.mu.Unlock()
	}
	w.calls.add(shard, 1)
}

// TryWithdraw grants one re-send if the rules allow one more.
func (w *Window) TryWithdraw(now clock.Instant, r Rules) (Reservation, bool) {
	w.mu.Lock()
	now = w.turn(now)
	calls, resends := w.sum(now)
	allowed := r.Allows(calls)
	ok := resends < allowed
	if ok {
		w.resends[w.newest]++
		w.sent++
		w.last = max(w.last, now)
	}
	w.mu.Unlock()
	return Reservation{at: now, held: ok, more: resends+1 < allowed}, ok
}

// Refund gives back a re-send that was not made, and reports whether it did. It does
// nothing once a whole span has passed since the grant: by then the re-send may be
// forgotten, and another of its slice would be given back instead.
func (w *Window) Refund(now clock.Instant, r Reservation) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !r.held || now.Sub(r.at) >= w.span() {
		return false
	}
	w.turn(now)
	last := clock.Instant(w.end.Load() - 1)
	age := last.Sub(r.at) / w.width
	if r.at > last || age >= slices {
		return false
	}
	slice := &w.resends[w.slice(int(age))]
	if *slice == 0 {
		return false
	}
	*slice--
	w.sent--
	return true
}

// Level returns how many re-sends the rules allow at now.
func (w *Window) Level(now clock.Instant, r Rules) int64 {
	calls, resends := w.Counts(now)
	return max(r.Allows(calls)-resends, 0)
}

// Counts returns the calls and the re-sends that are compared at now.
func (w *Window) Counts(now clock.Instant) (calls, resends int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.sum(w.turn(now))
}

// sum returns what counts at now: calls of all slices but the oldest, none of which is
// older than the span, and re-sends of all, which are all of the span's. It forgets the
// re-sends if the last was granted a whole span ago.
func (w *Window) sum(now clock.Instant) (calls, resends int64) {
	if w.sent > 0 && w.forgets(now) {
		w.resends, w.sent = [slices]uint32{}, 0
	}
	return int64(uint32(w.calls.sum()) - w.before[w.slice(slices-2)]), w.sent
}

// forgets reports whether a whole span has passed since the last grant: no call that paid
// for it counts any more.
func (w *Window) forgets(now clock.Instant) bool { return now.Sub(w.last) >= w.span() }

// slice returns the index of the slice that is age slices older than the newest.
func (w *Window) slice(age int) int { return (int(w.newest) - age + slices) % slices }

// turn makes the slice of now the newest, if it is not older. It returns now, or when the
// newest slice began if that is later: a caller that was stopped after it read the clock
// must not date a re-send back, or what the floor paid for would be forgotten too early.
func (w *Window) turn(now clock.Instant) clock.Instant {
	end := clock.Instant(w.end.Load())
	if now >= end && end != clock.Never {
		w.move(now, 1+int(min(now.Sub(end)/w.width, slices-1)))
		end = clock.Instant(w.end.Load())
	}
	return max(now, end.Add(-w.width))
}

// move begins n new slices, the last of them that of now.
func (w *Window) move(now clock.Instant, n int) {
	total := uint32(w.calls.sum())
	for range n {
		w.newest = (w.newest + 1) % slices
		w.sent -= int64(w.resends[w.newest])
		w.before[w.newest], w.resends[w.newest] = total, 0
	}
	w.end.Store(int64(now.Add(w.width - time.Duration(floorMod(int64(now), int64(w.width))))))
}

// floorMod is never negative, so that an instant before the origin has a slice too.
func floorMod(a, n int64) int64 {
	m := a % n
	if m < 0 {
		m += n
	}
	return m
}
