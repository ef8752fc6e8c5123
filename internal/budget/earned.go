package budget

import (
	"math"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gabion-go/gabion/internal/clock"
)

// EarnedRules are the rules of an [Earned] budget, in millionths of a re-send. The
// zero EarnedRules allow nothing.
type EarnedRules struct {
	Ratio   int64         // what one success earns
	Window  time.Duration // no more is kept than the successes of this time earn, …
	Reserve int64         // … or this and what is proven, if it is more
	Start   int64         // what is there before the first success
}

// NewEarnedRules rounds a ratio, and whole re-sends, to [EarnedRules]. Negative
// arguments and NaN count as 0.
func NewEarnedRules(ratio float64, window time.Duration, reserve, start float64) EarnedRules {
	const limit = 1 << 40 * million
	return EarnedRules{
		Ratio: rounded(ratio, million, limit), Window: max(window, 0),
		Reserve: rounded(reserve, million, limit), Start: rounded(start, million, limit),
	}
}

// Earned is a budget of re-sends that successes earn. Time earns nothing, and
// neither do failures: in a total outage nothing is added to what is there.
//
// A re-send that succeeds gives back what it has cost and half of another, so that where two of
// three help, they pay for the third. It also makes the reserve larger by one,
// up to four more: it is proven that re-sends help. One that fails takes one of these away,
// and so do 200 successes. So isolated failures cost nothing, and where re-sends fail, only
// what was earned goes on.
//
// The promise: in any span of time what is spent, less what is given back, is at most the
// ratio of the successes in that span and the window before it, plus the reserve and five,
// or plus the start if the budget is younger than that. What is given back for a success is
// one and a half for each re-send that succeeds. While answers wait in a queue it is less: see
// [Earned.Took]. A reserve of zero stays zero. For each whole re-send that is spent
// one is granted. For a part of one, one is granted with a probability as large as the
// part. So on average as many are granted as are spent: for one client over time, and for
// many clients of which each has less than one.
//
// The reserve is for clients of few calls, whose window holds hardly any. Each of a fleet
// of such clients can spend it at the same time, so it is small.
//
// An Earned is made by [MakeEarned]; the zero Earned can't be used. All methods are
// safe for concurrent use. It must not be copied after first use. Time that goes
// backward is taken as the newest time seen.
type Earned struct {
	due       atomic.Int64 // when the next mark is set
	successes counters

	mu      sync.Mutex // guards all below
	level   int64      // millionths of a re-send; below zero after Charge
	counted uint64     // successes that level has
	ended   uint64     // a bit for each of the last re-sends that ended, and above them how many these are
	sent    uint32     // re-sends granted or charged, less those refunded, since the beginning
	proven  uint16     // re-sends that are kept beside the reserve, in parts of provenFor
	owing   uint8      // calls that wait and have not paid
	pace    pace       // of good answers
	newest  uint8      // of marks
	marked  [marks]clock.Instant
	totals  [marks]uint32 // successes before each mark; the difference of two is right also after 2^32
}

// marks is how many marks a window has. Its successes are known to within that part.
const marks = 4

// MakeEarned returns a budget that holds the start. Successes are counted on one word, and on shards cache lines, at
// most 256, rounded up to a power of two, once two have met there.
func MakeEarned(r EarnedRules, shards int) (e Earned) {
	e.successes.bound(shards)
	e.level = r.Start
	e.due.Store(math.MinInt64)
	for i := range e.marked {
		e.marked[i] = math.MinInt64
	}
	return
}

// Earn counts one success, and returns how many its shard has with it, or all of them while there is one word. First says that it
// is the first in a quarter of the window, as only one is. It takes no lock
// but a few times in a window. Callers that run on different processors should pass
// different shards.
func (e *Earned) Earn(now clock.Instant, shard uint32, r *EarnedRules) (n uint64, first bool) {
	if int64(now) >= e.due.Load() {
		first = e.mark(now, r)
	}
	return e.successes.add(shard, 1), first
}

// mark notes how many successes there were before now, unless another success has just done so.
func (e *Earned) mark(now clock.Instant, r *EarnedRules) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if int64(now) < e.due.Load() {
		return false
	}
	if now.Sub(e.marked[e.newest])/forgotten >= r.Window {
		e.pace.late = 0
	}
	e.newest = (e.newest + 1) % marks
	e.marked[e.newest], e.totals[e.newest] = now, uint32(e.successes.sum())
	e.due.Store(int64(now.Add(r.Window/marks + 1)))
	return true
}

// Successes returns how many there were since the beginning.
func (e *Earned) Successes() uint64 { return e.successes.sum() }

// Any reports whether there was a success yet.
func (e *Earned) Any() bool { return e.successes.sum() > 0 }

// TryWithdraw grants one re-send if one is there. Of less than one it grants one with
// that probability, and takes that part also where it grants none: else many tries
// would send more than was earned. u is a draw in [0, 1).
//
// More reports whether there is a whole one after it.
func (e *Earned) TryWithdraw(now clock.Instant, r *EarnedRules, u float64) (ok, more bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.gather(now, r)
	take := min(e.level, million)
	if take <= 0 {
		return false, false
	}
	e.level -= take
	if float64(take) <= u*million {
		return false, false
	}
	e.sent++
	return true, e.level >= million
}

// TryWithdrawWhole grants one re-send if a whole one is there, and else takes nothing. It is for
// work that asks until it is let go.
func (e *Earned) TryWithdrawWhole(now clock.Instant, r *EarnedRules) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.gather(now, r); e.level < million {
		return false
	}
	e.level -= million
	e.sent++
	return true
}

// Borrow grants one re-send that is not there, unless one is owed already or answers wait in a
// queue. It is for the first of those that waited until calls succeed again: if it succeeds, it pays
// for the next.
func (e *Earned) Borrow(now clock.Instant, r *EarnedRules) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.gather(now, r); e.level < 0 || e.queued(now, r) {
		return false
	}
	e.level -= million
	e.sent++
	return true
}

// Refund gives back a re-send that was granted and not made. It gives back a whole one,
// also where only a part was there: tries that got nothing have paid for the rest. Call it
// at most once for each that was granted.
func (e *Earned) Refund() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.level += million
	e.sent--
}

// mostProven is how many more than the reserve are kept at most.
const mostProven = 4

// provenFor is how many successes take away one of those that are proven. Where fewer than one call
// in provenFor is sent again, nothing is known of what re-sends are worth.
const provenFor = 200

// Lasting is how many re-sends [Earned.Ended] looks back.
const Lasting = 50

// returned is what a re-send that succeeded gives back, in millionths of a re-send.
const returned = 3 * million / 2

// End is the end of a re-send that was granted: whether it succeeded. One that succeeded and
// pays gives back what it has cost and half of another.
func (e *Earned) End(succeeded, pays bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	known, helped := e.ended>>Lasting, e.ended<<1&(1<<Lasting-1)
	switch {
	case !succeeded:
		e.proven -= min(e.proven, provenFor)
	case pays && e.pace.late < inQueue:
		e.level += returned
		e.proven = min(e.proven+provenFor, mostProven*provenFor)
		fallthrough
	default:
		helped |= 1
	}
	e.ended = min(known+1, Lasting)<<Lasting | helped
}

// Ended returns how many of the last 50 re-sends that ended have succeeded, and how many of
// these 50 there were yet.
func (e *Earned) Ended() (succeeded, of int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return bits.OnesCount64(e.ended & (1<<Lasting - 1)), int(e.ended >> Lasting)
}

// Doubt lowers what is there before the first success to the part of others' re-sends that helped,
// but not to less than one re-send. It does nothing once something was earned or spent. Successes earn as before.
func (e *Earned) Doubt(helped, of int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.sent != 0 || e.ended != 0 || e.Any() || of <= 0 {
		return
	}
	part := float64(min(max(helped, 0), of)) / float64(of)
	e.level = min(e.level, max(int64(part*float64(e.level)), million))
}

// mostOwing is how many calls wait at most that have not paid.
const mostOwing = math.MaxUint8

// Owe reports whether one more call may wait that has not paid. Settle must follow.
func (e *Earned) Owe() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.owing == mostOwing {
		return false
	}
	e.owing++
	return true
}

// Settle is the end of a wait that Owe has allowed.
func (e *Earned) Settle() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.owing--
}

// Forgo takes back what one success has earned.
func (e *Earned) Forgo(now clock.Instant, r *EarnedRules) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.gather(now, r)
	e.level = max(e.level-r.Ratio, -maxDebt*million)
}

// maxDebt is how far below zero Charge goes, in re-sends.
const maxDebt = 64

// Charge takes one re-send that was made unasked. What is not there is owed, up to 64
// re-sends.
func (e *Earned) Charge(now clock.Instant, r *EarnedRules) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.gather(now, r)
	e.level = max(e.level-million, -maxDebt*million)
	e.sent++
}

// Sent returns how many re-sends were granted or charged since the beginning, less those
// refunded. It begins anew after 2^32.
func (e *Earned) Sent() int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return int64(e.sent)
}

// Level returns how many re-sends are there, in millionths. It is negative while some
// are owed.
func (e *Earned) Level(now clock.Instant, r *EarnedRules) int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.gather(now, r)
	return e.level
}

// Recent returns how many successes there were in the window, at least, and how many a
// second that is. The rate of a budget that is younger than the window is taken over
// its age, or over a twentieth of the window if it is younger than that.
func (e *Earned) Recent(now clock.Instant, r *EarnedRules) (successes int64, rate float64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if r.Window <= 0 {
		return 0, 0
	}
	n, since := e.lately(now, r)
	return int64(n), float64(n) / max(now.Sub(since), r.Window/20, 1).Seconds()
}

// gather adds what successes earned since it was last called, and drops what is more
// than may be kept.
func (e *Earned) gather(now clock.Instant, r *EarnedRules) {
	total := e.successes.sum()
	recent, _ := e.lately(now, r)
	e.proven -= uint16(min(total-e.counted, uint64(e.proven)))
	kept := r.Reserve
	if kept > 0 {
		kept += int64(e.proven) * (million / provenFor)
	}
	ratio := r.Ratio
	if e.queued(now, r) {
		ratio = 0
	}
	e.level = min(e.level+worth(total-e.counted, ratio), max(worth(recent, ratio), kept))
	e.counted = total
}

// lately returns how many successes there were in the window, and when it began, by the oldest
// mark that lies in it. So the window never counts too many.
func (e *Earned) lately(now clock.Instant, r *EarnedRules) (successes uint64, since clock.Instant) {
	total, oldest := uint32(e.successes.sum()), clock.Never
	before := total
	for i, at := range e.marked {
		if at > now.Add(-r.Window) && at < oldest {
			before, oldest = e.totals[i], at
		}
	}
	return uint64(total - before), min(oldest, now)
}

// worth returns what the successes earn, at most far more than can be spent.
func worth(successes uint64, ratio int64) int64 {
	high, low := bits.Mul64(successes, uint64(max(ratio, 0)))
	if high > 0 || low > math.MaxInt64/4 {
		return math.MaxInt64 / 4
	}
	return int64(low)
}
