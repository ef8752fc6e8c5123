// Package budget bounds how much retries and hedges may add to the load.
//
// A [Window] compares re-sends with calls over a sliding time: re-sends are at
// most a ratio of the calls and a floor, as in Finagle, Linkerd and tower. A
// [Bucket] holds tokens that re-sends take and successes bring back, as in gRPC
// and the AWS SDKs. Both keep only state; the rules are arguments, so that a
// reload changes them without touching what is counted.
//
// A budget is asked before the wait, not after it. So callers who all sleep
// before they retry can't all find it full.
package budget

import (
	"math"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/internal/window"
)

const (
	million = 1_000_000

	// slices is how many buckets a Window keeps. Fifteen are as long as its span,
	// the sixteenth is the one under way.
	slices = 16

	// grain is what spans are rounded up to. It is longer than what rounding up
	// to fifteen slices can add, so the span can be read back from the slices.
	grain = time.Microsecond

	longest = time.Duration(1) << 60 // 36 years, so that all slices fit too

	// most is what a slice can count. More re-sends than that in a whole window
	// are refused, so that none goes uncounted.
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

// rounded returns x in so many parts, at least 0 and at most limit.
func rounded(x float64, parts, limit int64) int64 {
	if !(x > 0) {
		return 0
	}
	if x >= float64(limit/parts) {
		return limit
	}
	return int64(math.Round(float64(x * float64(parts))))
}

// allowed returns how many re-sends so many calls make possible.
func (r Rules) allowed(calls int64) int64 {
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
// The promise: whenever a re-send is granted, those granted within the span that
// ends there, it included and refunds taken off, are at most the ratio of the
// calls in that span, plus the floor. Nothing is saved up, and since re-sends are
// remembered longer than calls, by one slice, no call pays twice. A slice is a
// fifteenth of the span, and the price of the promise: of a steady stream between 14
// and 15 fifteenths pay, since of a slice that is older in parts none does. All
// re-sends are forgotten once none was granted for a whole span, so that what was
// spent in one moment is there again one span later, to within 15 ns.
//
// A Window is made by [Make]; the zero Window can't be used. With one shard it
// takes 136 bytes, of which 64 are behind a pointer, and with more of them 200 and
// 128 for each. All methods are safe for concurrent use. It must not be copied
// after first use. Time that goes backward is taken as the newest time seen, to
// within a slice: as the moment when the newest one began.
type Window struct {
	mu    sync.Mutex   // makes asking and taking one step, where no credit does; guards last
	last  atomic.Int64 // when the newest re-send was granted but for credits that are out
	sends window.Tally // deposits count as its calls, re-sends as its failures
}

// Make returns an empty budget over span, which is rounded up to a whole
// microsecond. Calls and re-sends are spread over so many shards, as in
// [window.Make].
func Make(span time.Duration, shards int) (w Window) {
	w.sends = window.MakeTallyBeside(sliced(span), slices, shards)
	w.last.Store(math.MinInt64)
	return
}

// sliced returns the time that all slices cover for a budget of that span.
func sliced(span time.Duration) time.Duration {
	span = (min(max(span, grain), longest) + grain - 1) / grain * grain
	return (span + slices - 2) / (slices - 1) * slices
}

// Resize changes the span and forgets everything. Reservations made before are
// not refunded any more.
func (w *Window) Resize(now clock.Instant, span time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.callIn(now)
	w.sends.Resize(now, sliced(span))
	w.last.Store(math.MinInt64)
}

// Span returns the time over which calls and re-sends are compared.
func (w *Window) Span() time.Duration {
	return w.sends.Span() / slices * (slices - 1) / grain * grain
}

// Reservation is a re-send that was granted and not yet made. The zero
// Reservation is none. It is a value of the caller's: refund it at most once.
type Reservation struct {
	at   clock.Instant
	held bool
}

// Deposit counts one call, once, when its first attempt is sent: not one per attempt,
// or retry layers above each other would pay for one another, and not before, or calls
// that were refused would pay for the re-sends of others. It takes no lock. Callers
// that run on different processors should pass different shards.
func (w *Window) Deposit(now clock.Instant, shard uint32) {
	w.sends.Add(now, shard, 1, 0, 0)
}

// TryWithdraw grants one re-send if the rules allow one more. Callers that run on
// different processors should pass different shards: then, where eight for each
// shard are left, most grants take no lock and write to nothing that they share.
// Refusals take none either, but for the first of many.
func (w *Window) TryWithdraw(now clock.Instant, shard uint32, r Rules) (Reservation, bool) {
	if w.sends.Shards() > 1 {
		if at, ok := w.spend(now, shard, r); ok {
			return Reservation{at, true}, true
		}
		return w.withdraw(now, shard, r)
	}
	w.mu.Lock()
	now = w.moment(now)
	sent := w.sum(now)
	ok := sent.Failures < r.allowed(sent.Calls)
	if ok {
		w.granted(now)
		w.sends.Add(now, 0, 0, 1, 0)
	}
	w.mu.Unlock()
	if !ok {
		return Reservation{}, false
	}
	return Reservation{now, true}, true
}

// moment returns now, or when the newest slice began if that is later. Who was
// stopped after it read the clock must not date a re-send back, or what the floor
// paid for would be forgotten too early.
func (w *Window) moment(now clock.Instant) clock.Instant { return max(now, w.sends.Begin()) }

// granted notes that a re-send is granted. w.mu is held.
func (w *Window) granted(now clock.Instant) {
	w.last.Store(max(w.last.Load(), int64(now)))
}

// Refund gives back a re-send that was not made, and reports whether it did. It
// does nothing once a whole span has passed since the grant: by then the re-send
// may be forgotten, and another of its slice would be given back instead.
//
// A re-send that was granted while its slice ended may be counted in the next one,
// and is given back in its own all the same. So when that is forgotten, one re-send
// too many may be counted for the length of a slice, and never one too few.
func (w *Window) Refund(now clock.Instant, r Reservation) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return r.held && now.Sub(r.at) < w.Span() && w.sends.Take(r.at, now, 0, 0, 1)
}

// Level returns how many re-sends the rules allow at now.
func (w *Window) Level(now clock.Instant, r Rules) int64 {
	calls, resends := w.Counts(now, r)
	return max(r.allowed(calls)-resends, 0)
}

// Allows returns how many re-sends the rules allow beside so many calls.
func (r Rules) Allows(calls int64) int64 { return r.allowed(calls) }

// Counts returns the calls and the re-sends that these rules compare at now.
func (w *Window) Counts(now clock.Instant, r Rules) (calls, resends int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now = w.moment(now)
	w.callIn(now)
	sent := w.sum(now)
	return sent.Calls, sent.Failures
}

// sum returns what counts at now. w.mu is held.
func (w *Window) sum(now clock.Instant) window.Counts {
	sent := w.counted(now)
	if last := clock.Instant(w.last.Load()); sent.Failures > 0 && w.forgets(last, now) {
		sent.Failures -= w.forget(now, sent.Failures)
	}
	return sent
}

// forgets reports whether a whole span passed since the last grant. Slices are a few
// nanoseconds longer than their part of the span, and calls that paid for the last
// grants must not count any more.
func (w *Window) forgets(last, now clock.Instant) bool {
	return now.Sub(last) >= w.Span() && w.sends.Bucket(now)-w.sends.Bucket(last) >= slices-1
}

// counted returns the calls of all slices but the oldest, none of which is older than
// the span, and the re-sends of all of them, which are all of the span's. The calls are
// read last, so that they are no fewer than when the re-sends were read.
func (w *Window) counted(now clock.Instant) window.Counts {
	sent := w.sends.Sum(now)
	sent.Calls = w.sends.SumOf(now, slices-1).Calls
	return sent
}

// forget removes so many re-sends, when none was granted for a whole span, and
// returns how many it did. It finds them in the two oldest slices: nothing younger is
// a span old. Calls that count are of younger slices, so none pays twice.
func (w *Window) forget(now clock.Instant, resends int64) (gone int64) {
	slice := w.sends.Span() / slices
	for age := slices - 1; age >= slices-2; age-- {
		older := w.sends.SumOf(now, age+1).Failures - w.sends.SumOf(now, age).Failures
		n := min(older, resends-gone)
		if n > 0 && w.sends.Take(now.Add(-slice*time.Duration(age)), now, 0, 0, uint32(n)) {
			gone += n
		}
	}
	return gone
}
