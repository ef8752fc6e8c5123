package breaker

import (
	"slices"
	"time"

	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/internal/window"
)

// look takes the lock only if there may be something to do under it.
func (b *Breaker) look(now clock.Instant, word uint64, r *Rules, after time.Duration) {
	if stateOf(word) == Closed {
		turn := b.win.Turn()
		c := rated(b, now, r)
		if run := b.runLength(); r.exceeded(c, run, b.longest.Load(), b.lasted(now)) == 0 && !r.doubts(now, run) {
			b.settleFor(turn, c, r)
			return
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.word.Load() == word {
		b.judge(now, after)
	}
}

// rated returns what the rates of r are of.
func rated(b *Breaker, now clock.Instant, r *Rules) window.Counts {
	if r.SlowRate > 0 {
		return b.win.Sum(now)
	}
	return b.win.Rated(now)
}

// settleFor lets successes go without a look until the window turns.
func (b *Breaker) settleFor(turn uint32, c window.Counts, r *Rules) {
	if c.Calls >= r.minCalls() && b.reached.Load() != turn {
		b.reached.Store(turn)
	}
}

// judge opens the breaker, or says that it would, if a rule is broken.
func (b *Breaker) judge(now clock.Instant, after time.Duration) {
	turn := b.win.Turn()
	r := b.rules.Load()
	over, c, due := b.broken(now, r)
	if over == 0 {
		b.settleFor(turn, c, r)
	}
	change := Change{Cause: over.first(), Exceeded: over, Counts: c, At: now, Due: due}
	if over.Has(Consecutive) {
		change.InRow = tooLong(b, now, r)
	}
	if b.state() == ObserveOnly {
		b.cross(change)
	} else if over != 0 {
		b.open(change, after)
	}
}

// cross logs the rules that were kept a moment ago and are broken now. While one is
// broken, successes need a look: each may be the one after which it is kept again.
func (b *Breaker) cross(c Change) {
	fresh := c.Exceeded &^ Causes(b.crossed)
	b.crossed = uint8(c.Exceeded)
	if fresh != 0 {
		b.reached.Store(never)
		c.From, c.To = ObserveOnly, ObserveOnly
		c.Cause, c.Exceeded = fresh.first(), fresh
		if !fresh.Has(Consecutive) {
			c.InRow = 0
		}
		b.note(c)
	}
}

// broken returns the rules that are broken now, by what counts, and since when.
func (b *Breaker) broken(now clock.Instant, r *Rules) (over Causes, c window.Counts, due clock.Instant) {
	run := b.runLength()
	c = b.counts(now)
	over = r.exceeded(c, run, b.longest.Load(), b.lasted(now))
	if over == 0 && r.doubts(now, run) {
		over = only(Consecutive)
	}
	if over == 0 && b.grownSlow(now, r) {
		return b.aged(now, r, c, run)
	}
	return over, c, now
}

// grownSlow reports whether a call that is out has been out for SlowCall.
func (b *Breaker) grownSlow(now clock.Instant, r *Rules) bool {
	return r.ageing() && b.extra != nil && b.extra.watched.oldest().Add(r.SlowCall) <= now
}

// aged counts calls that are still out, one after the other, as slow from the moment at
// which they have been out for SlowCall.
func (b *Breaker) aged(now clock.Instant, r *Rules, c window.Counts, run uint32) (Causes, window.Counts, clock.Instant) {
	var room [maxAgeing]clock.Instant
	dues := b.extra.watched.aged(now, r.SlowCall, room[:0])
	slices.Sort(dues)
	for _, due := range dues {
		c.Calls++
		c.Slow++
		if over := r.exceeded(c, run, b.longest.Load(), b.lasted(now)); over != 0 {
			return over, c, due
		}
	}
	return 0, c, now
}

func (b *Breaker) counts(now clock.Instant) window.Counts {
	switch {
	case b.state() == HalfOpen && b.extra != nil:
		return b.extra.outcomes
	case b.extra != nil && b.extra.ring != nil:
		return b.extra.ring.sum
	}
	return b.win.Sum(now)
}
