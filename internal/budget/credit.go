package budget

import (
	"time"

	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/internal/window"
)

// Asking and taking one at a time under a lock would make every re-send of a
// program wait for every other. So a Window of several shards hands out credits:
// who holds the lock and finds enough left counts a few re-sends more than it
// grants, and leaves them on the line of its shard, where the next callers take
// one with a single compare-and-swap.
//
// Why the promise holds. All credits that are out are of one issue: one slice and
// one set of rules. A credit is spent only under these rules, at a time in that
// slice, so it was counted there before it was spent. When it was counted, all
// that is counted was within what the rules allow; until it is spent the slices
// compared are the same, calls are only added to them, and whatever is granted
// beside it was allowed with this credit counted. Before a grant by other rules,
// or in another slice, all credits are called in: from then on none can be spent,
// because the swap that calls one in makes the swap that spends it fail. A resize
// turns the slices too.
//
// Why nobody is refused for another's hoard. Whoever finds all spent calls in
// what is out, uncounts it and looks again; and a look without the lock refuses
// only while nothing is out. The time of the newest grant is kept in the same
// word as the credits: so calling in finds it, and nothing is forgotten too early.

// credits is the first word of a shard's line: the number of the batch, how many
// nanoseconds into its slice the newest credit was spent, counted from 1 and 0 if none
// was, and how many are left. The number makes the word of one batch differ from that
// of another: a caller would have to sleep between two instructions while its shard
// gets 2^18 batches, and find the same nanosecond and the same rest, to take
// one for the other.
type credits uint64

const (
	restBits  = 6
	intoBits  = 40 // slices of 18 minutes: longer ones have no credits
	batchUnit = 1 << (restBits + intoBits)

	// largest is how many re-sends a batch counts: the one that is granted, and a
	// rest that fits. The lock is taken once for so many.
	largest = 1 << restBits
)

func (c credits) rest() int64 { return int64(c % largest) }
func (c credits) into() int64 { return int64(c % batchUnit / largest) }

// with returns the word of the same batch with other contents.
func (c credits) with(into, rest int64) credits {
	return c - c%batchUnit + credits(into)*largest + credits(rest)
}

// What the line holds that all shards have in common. The words from goodTurn on
// say what the credits that are out are good for. They are written while none is
// out: so who read them between the load and the swap of a credit read those of
// that one.
const (
	issues = iota // odd while credits may be out, and different each time
	grants        // how often re-sends were counted, which is said afterwards
	goodTurn
	goodFrom
	goodUntil
	goodRatio
	goodFloor
)

// withdraw grants a re-send where spend did not, and leaves credits to the shard
// if much is left.
func (w *Window) withdraw(now clock.Instant, shard uint32, r Rules) (Reservation, bool) {
	seen := w.look(now)
	if seen.refuses(r) {
		return Reservation{}, false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if at, ok := w.spend(now, shard, r); ok { // it came while this caller waited
		return Reservation{at, true}, true
	}
	now = w.moment(now)
	turn := w.sends.Turn()
	sent := w.compared(turn, now, r, &seen)
	left := r.allowed(sent.Calls) - sent.Failures
	if left <= 0 {
		return Reservation{}, false
	}
	w.granted(now)
	if n := w.batch(left); n == 1 || !w.issue(turn, now, shard, r, n) {
		w.sends.Add(now, 0, 0, 1, 0)
	}
	w.sends.Common()[grants].Add(1)
	return Reservation{now, true}, true
}

// compared returns what these rules compare at now, in the slice of that turn.
// Credits that are out count as made if enough is left without them. w.mu is held.
func (w *Window) compared(turn uint32, now clock.Instant, r Rules, seen *look) window.Counts {
	if w.out() && !valid(w.sends.Common(), turn, now, r) {
		w.callIn(now)
	}
	if w.stands(seen) && !seen.exhausted(r) {
		return seen.sent
	}
	sent := w.sum(now)
	if sent.Failures >= r.allowed(sent.Calls) && w.callIn(now) {
		return w.sum(now)
	}
	return sent
}

// spend grants a re-send by a credit of that shard, if there is one, and returns the
// time that it is of.
func (w *Window) spend(now clock.Instant, shard uint32, r Rules) (at clock.Instant, ok bool) {
	mine, good := &w.sends.Beside(shard)[0], w.sends.Common()
	for {
		old := credits(mine.Load())
		if old.rest() == 0 || !valid(good, w.sends.Turn(), now, r) {
			return 0, false
		}
		from := clock.Instant(good[goodFrom].Load())
		at = max(now, from)
		next := old.with(max(old.into(), into(from, at)), old.rest()-1)
		if mine.CompareAndSwap(uint64(old), uint64(next)) {
			return at, true
		}
	}
}

// valid reports whether what is out is good at now, in the slice of that turn,
// for these rules.
func valid(good *window.Line, turn uint32, now clock.Instant, r Rules) bool {
	return int64(now) < int64(good[goodUntil].Load()) && uint64(turn) == good[goodTurn].Load() &&
		uint64(r.RatioPPM) == good[goodRatio].Load() && uint64(r.FloorMilli) == good[goodFloor].Load()
}

// into returns how far into the slice that begins at from a time is, counted from 1.
func into(from, at clock.Instant) int64 { return int64(at-from) + 1 }

// batch returns how many re-sends to count at once of so many that are left: few
// enough that a quarter of them would do for all shards.
func (w *Window) batch(left int64) int64 {
	if w.sends.Span()/slices >= 1<<intoBits {
		return 1
	}
	return max(min(left/int64(4*w.sends.Shards()), largest), 1)
}

// issue counts n re-sends, of which one is granted at now and the others are left
// to the shard as credits. It does nothing, and reports false, unless the newest
// slice is that of turn and now lies in it. w.mu is held, the shard has none, and
// what others have is valid.
func (w *Window) issue(turn uint32, now clock.Instant, shard uint32, r Rules, n int64) bool {
	good, first := w.sends.Common(), !w.out()
	if first { // before they are counted: a look must not take them for spent
		good[issues].Add(1)
	}
	from, until, ok := w.sends.AddIn(turn, now, 0, 0, uint32(n))
	if !ok {
		if first {
			good[issues].Add(1)
		}
		return false
	}
	if first {
		good[goodTurn].Store(uint64(turn))
		good[goodFrom].Store(uint64(from))
		good[goodUntil].Store(uint64(until))
		good[goodRatio].Store(uint64(r.RatioPPM))
		good[goodFloor].Store(uint64(r.FloorMilli))
	}
	mine := &w.sends.Beside(shard)[0]
	mine.Store(mine.Load() + batchUnit + uint64(n-1))
	return true
}

// out reports whether credits may be out. w.mu is held.
func (w *Window) out() bool {
	return w.sends.Shards() > 1 && w.sends.Common()[issues].Load()%2 == 1
}

// callIn takes all credits back that are out, and reports whether there may have
// been any. w.mu is held.
func (w *Window) callIn(now clock.Instant) bool {
	if !w.out() {
		return false
	}
	var rest, into int64
	for shard := range uint32(w.sends.Shards()) {
		mine := &w.sends.Beside(shard)[0]
		old := credits(mine.Swap(uint64(credits(mine.Load()).with(0, 0))))
		rest, into = rest+old.rest(), max(into, old.into())
	}
	good := w.sends.Common()
	from, until := clock.Instant(good[goodFrom].Load()), clock.Instant(good[goodUntil].Load())
	w.last.Store(max(w.last.Load(), int64(from.Add(time.Duration(into-1)))))
	if now.Sub(until) < w.sends.Span() { // else they are forgotten
		// A refund of a re-send that was counted in the next slice may have taken one.
		for rest > 0 && !w.sends.Take(until-1, now, 0, 0, uint32(rest)) {
			rest--
		}
	}
	good[issues].Add(1)
	return true
}

// look is what is seen of a Window of several shards without the lock.
type look struct {
	sent   window.Counts
	grants uint64
	turn   uint32
	clear  bool // no credits were out meanwhile
	fresh  bool // nothing is to be forgotten
}

// look looks. The re-sends of the newest slice are read before most of its calls,
// so these are no fewer than they were at that time: a look that finds all spent
// is right about it.
func (w *Window) look(now clock.Instant) (l look) {
	now = w.moment(now)
	all, last := w.sends.Common(), clock.Instant(w.last.Load())
	issued := all[issues].Load()
	l.grants, l.turn = all[grants].Load(), w.sends.Turn()
	l.sent = w.counted(now)
	l.fresh = l.sent.Failures == 0 || now.Sub(last) < w.Span()
	l.clear = issued%2 == 0 && all[issues].Load() == issued
	return l
}

func (l *look) exhausted(r Rules) bool { return l.sent.Failures >= r.allowed(l.sent.Calls) }

// refuses reports whether the look is enough to tell that all is spent.
func (l *look) refuses(r Rules) bool { return l.clear && l.fresh && l.exhausted(r) }

// stands reports whether no less is left than was seen: the slices are the same,
// and no re-sends were counted since. w.mu is held.
func (w *Window) stands(l *look) bool {
	return l.fresh && l.turn == w.sends.Turn() && l.grants == w.sends.Common()[grants].Load()
}
