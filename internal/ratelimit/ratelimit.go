// Package ratelimit spaces turns in time.
//
// A [Limiter] is the generic cell rate algorithm, GCRA (ITU-T I.371, annex A): a token
// bucket that keeps only the time at which it would be full again. That time is one
// atomic word. It hands out turns in the future too. So a caller learns at once when it
// may go, and there is no queue. Nothing here sleeps or reads a clock.
package ratelimit

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gabion-go/gabion/internal/clock"
)

// Rules say how often turns come. They are an argument of every verb, so that a
// reload changes them without touching the Limiter.
type Rules struct {
	// Interval is the time between turns: 100 ms for ten a second. Zero or less
	// means no limit. More than 36 years counts as 36 years.
	Interval time.Duration

	// Burst is how many turns may be taken at once after a pause. Less than 1
	// counts as 1. A burst that takes more than 36 years to come back counts as
	// one that takes 36 years.
	Burst int
}

// longest bounds both the interval and the time that a burst takes to come back,
// so that their sum can be added to an Instant that a program will live to see.
const longest = time.Duration(1) << 60

// Limiter hands out turns. In any span of time t at most Burst + t/Interval
// turns begin, however many goroutines ask.
//
// The zero Limiter is ready: the whole burst is there. All methods are safe for
// concurrent use. They take a lock only after a turn was given back that was not the
// last one reserved. A Limiter must not be copied after first use.
type Limiter struct {
	// word is when the bucket is full again, the "theoretical arrival time" of
	// GCRA, with the sign bit flipped: so that the zero word is the earliest
	// instant, and not an instant that may lie ahead.
	word atomic.Uint64

	spare atomic.Int32 // how many are in free
	mu    sync.Mutex
	free  []clock.Instant // turns that were given back, the earliest last
}

// maxFree bounds how many turns that were given back are kept, at 8 bytes each: those
// that come first. More are lost, and the rate is not reached for as long.
const maxFree = 4096

const sign = 1 << 63

func instant(word uint64) clock.Instant { return clock.Instant(word ^ sign) }
func word(full clock.Instant) uint64    { return uint64(full) ^ sign }

// Reserve takes the next turn if it is at most maxWait away, and returns when
// that is: now, or later. When it is further away nothing is taken, ok is false,
// and at says when a turn would be free if no other call took it. A negative maxWait counts as 0.
//
// Under contention now may be older than turns that others took since it was
// read. Read the clock again before believing a refusal that is close.
func (l *Limiter) Reserve(now clock.Instant, r Rules, maxWait time.Duration) (at clock.Instant, ok bool) {
	if r.Interval <= 0 {
		return now, true
	}
	if l.spare.Load() > 0 {
		if at, found := l.reuse(now, maxWait); found {
			return at, at.Sub(now) <= max(maxWait, 0)
		}
	}
	interval, slack := r.spacing()
	for {
		old := l.word.Load()
		full := instant(old)
		at = max(now, full.Add(-slack))
		if at.Sub(now) > max(maxWait, 0) {
			return at, false
		}
		if l.word.CompareAndSwap(old, word(max(full, now).Add(interval))) {
			return at, true
		}
	}
}

// Cancel gives back the turn at, and reports whether it could: only a turn that lies ahead
// can be given back. The next Reserve gets it; turns that are reserved already stay as
// they are. The turn must have been reserved with the same rules and since the last Reset;
// one that lies further ahead than all of these is not taken back. Cancel a turn at most
// once.
func (l *Limiter) Cancel(now, at clock.Instant, r Rules) bool {
	if r.Interval <= 0 || at <= now {
		return false
	}
	interval, slack := r.spacing()
	// A turn that had to wait was the earliest that the slack allowed. So if it
	// was the last, this is what it left in the word.
	before := at.Add(slack)
	if l.word.CompareAndSwap(word(before.Add(interval)), word(before)) {
		return true
	}
	if instant(l.word.Load()) < before.Add(interval) {
		return false // it was reserved before a Reset: the next turn comes before it
	}
	return l.keep(now, at)
}

// keep puts a turn that lies ahead where Reserve finds it.
func (l *Limiter) keep(now, at clock.Instant) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.drop(now)
	i, _ := slices.BinarySearchFunc(l.free, at, func(a, b clock.Instant) int { return cmp.Compare(b, a) })
	if len(l.free) == maxFree {
		if i == 0 {
			return false
		}
		copy(l.free, l.free[1:i])
		l.free[i-1] = at
		return true
	}
	l.free = slices.Insert(l.free, i, at)
	l.spare.Store(int32(len(l.free)))
	return true
}

// reuse takes the first turn that was given back, if it is at most maxWait away. All
// of them come before any that was not handed out yet.
func (l *Limiter) reuse(now clock.Instant, maxWait time.Duration) (at clock.Instant, found bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.drop(now)
	last := len(l.free) - 1
	if last < 0 {
		return 0, false
	}
	at = l.free[last]
	if at.Sub(now) <= max(maxWait, 0) {
		l.free = l.free[:last]
		l.spare.Store(int32(last))
	}
	return at, true
}

// drop forgets turns that have passed: taken later, they would come too close to those
// after them.
func (l *Limiter) drop(now clock.Instant) {
	for len(l.free) > 0 && l.free[len(l.free)-1] < now {
		l.free = l.free[:len(l.free)-1]
	}
	l.spare.Store(int32(len(l.free)))
}

// Reset forgets all turns: the whole burst is there again. It is for rules that changed
// much: turns that were taken by slow rules can lie far ahead.
func (l *Limiter) Reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.free = nil
	l.spare.Store(0)
	l.word.Store(0)
}

// Change goes on under other rules. Turns that lie ahead are void: those who have one must ask again, and must
// not give it back. What is left of the burst stays, up to the new burst. So of limiters whose rules change and
// always add up to no more than a whole, the turns do not either.
func (l *Limiter) Change(now clock.Instant, from, to Rules) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.free = nil
	l.spare.Store(0)
	for {
		old := l.word.Load()
		if l.word.CompareAndSwap(old, word(carry(instant(old), now, from, to))) {
			return
		}
	}
}

// Nothing are rules that let nothing through once a limiter was changed to them.
var Nothing = Rules{Interval: longest, Burst: 1}

// carry is when the bucket is full under other rules. What part of a turn is there stays the same part.
func carry(full, now clock.Instant, from, to Rules) clock.Instant {
	interval, slack := to.spacing()
	switch {
	case to == Nothing:
		return now.Add(interval)
	case from.Interval <= 0 || to.Interval <= 0:
		return instant(0) // nothing was counted, or nothing will be
	}
	before, slackBefore := from.spacing()
	next := full.Add(-slackBefore)
	if next > now { // turns that lie ahead are void, so no more than one is missing
		missing := (next.Sub(now)-1)%before + 1
		return now.Add(scaled(missing, interval, before) + 1 + slack)
	}
	return now.Add(slack - min(slack, scaled(now.Sub(next), interval, before)))
}

// scaled returns d·by/of, rounded down, or the longest time if that is more.
func scaled(d, by, of time.Duration) time.Duration {
	high, low := bits.Mul64(uint64(d), uint64(by))
	if high >= uint64(of) {
		return longest
	}
	q, _ := bits.Div64(high, low, uint64(of))
	return time.Duration(min(q, uint64(longest)))
}

// Ahead returns how many turns that lie ahead are taken, and how long after now the next
// one is free.
func (l *Limiter) Ahead(now clock.Instant, r Rules) (turns int64, next time.Duration) {
	if r.Interval <= 0 {
		return 0, 0
	}
	interval, slack := r.spacing()
	free := max(instant(l.word.Load()).Add(-slack), now)
	next = free.Sub(now)
	if last := free.Add(-interval); last > now {
		turns = int64((last.Sub(now) + interval - 1) / interval)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.drop(now); len(l.free) > 0 {
		turns = max(turns-int64(len(l.free)), 0)
		next = min(next, l.free[len(l.free)-1].Sub(now))
	}
	return turns, next
}

// spacing returns the time between turns, and how far ahead the word may be: the time in
// which a whole burst but one turn comes back.
func (r Rules) spacing() (interval, slack time.Duration) {
	interval = min(r.Interval, longest)
	high, low := bits.Mul64(uint64(interval), uint64(max(r.Burst, 1)-1))
	if high != 0 || low > uint64(longest) {
		return interval, longest
	}
	return interval, time.Duration(low)
}

// Every returns the rules for a number of turns a second. A rate of zero, less, or NaN means no
// limit, and one so small that its interval is no duration means the longest interval. The interval
// is rounded to the nearest nanosecond; a rate above 2·10^9 a second is no limit.
func Every(perSecond float64, burst int) Rules {
	if !(perSecond > 0) {
		return Rules{}
	}
	interval := math.Round(float64(time.Second) / perSecond)
	return Rules{time.Duration(min(interval, float64(longest))), burst}
}
