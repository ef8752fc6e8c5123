package machine

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/policy"
)

// cuts is what a partition knows of attempts that outlasted timeout.attempt. It is one word,
// so that it takes no lock. Zero means that none did lately.
type cuts struct {
	word  atomic.Uint64
	needs needs // of re-sends that the end of the call cut off
}

// evidence is that word, unpacked.
type evidence struct {
	past  share  // of the last attempts, those that outlasted timeout.attempt
	kept  share  // of those that outlasted it and had more time, those that were answered
	again share  // of the calls of which an attempt was cut off, those that succeeded after all
	turn  uint8  // attempts since the last trial
	open  bool   // all attempts may take longer
	at    uint32 // the second when an attempt last outlasted it
}

// share is a moving share of the last n.
type share uint16

// hundred is all of them.
const hundred share = 1<<12 - 1

func (s share) next(yes bool, n share) share {
	if yes {
		return s + (hundred-s+n-1)/n
	}
	return s - (s+n-1)/n
}

// The numbers of the rule. ADR 92 has what others were tried.
const (
	lastAttempts = 12               // that past is about
	lastTold     = 8                // that kept and again are about
	inSeries     = hundred * 3 / 20 // of past: attempts are cut off in series
	overAgain    = hundred / 20     // of past: they no longer are
	better       = hundred / 10     // by which kept must be above again
	saved        = hundred / 10     // of again: retries make good what is cut off, so trials are dear
	trialEvery   = 4                // first attempts of calls
	trialLasts   = 8                // times as long as another attempt, at most
	rarely       = 60               // likewise, where trials are dear
	cutsLast     = 900              // seconds, or four attempts where that is longer
)

// Where the parts of the word are.
const (
	turnBits   = 6
	secondBits = 21
	atBit      = 3*12 + turnBits
	openBit    = atBit + secondBits
	seconds    = 1<<secondBits - 1
)

func (e *evidence) pack() uint64 {
	w := uint64(e.past) | uint64(e.kept)<<12 | uint64(e.again)<<24 | uint64(e.turn)<<36 | uint64(e.at)<<atBit
	if e.open {
		w |= 1 << openBit
	}
	return w
}

func unpack(w uint64) evidence {
	return evidence{
		past: share(w) & hundred, kept: share(w>>12) & hundred, again: share(w>>24) & hundred, turn: uint8(w>>36) & (1<<turnBits - 1),
		at: uint32(w>>atBit) & seconds, open: w>>openBit != 0,
	}
}

func secondOf(now clock.Instant) uint32 { return uint32(now/clock.Instant(time.Second)) & seconds }

// known unpacks what is not too old to count.
func known(w uint64, now clock.Instant, t *policy.Timeout) evidence {
	e := unpack(w)
	age := (secondOf(now) - e.at) & seconds
	if old := max(cutsLast, uint32(4*t.Attempt/time.Second)); age > old && age < seconds/2 { // above that another clock was read later
		return evidence{}
	}
	return e
}

// change changes what is known, and forgets it when attempts are no longer cut off.
func (k *cuts) change(now clock.Instant, t *policy.Timeout, f func(e *evidence)) {
	for {
		old := k.word.Load()
		e := known(old, now, t)
		f(&e)
		e.judge()
		next := e.pack()
		if e.past < hundred/64 {
			next = 0
		}
		if old == next || k.word.CompareAndSwap(old, next) {
			return
		}
	}
}

// judge decides whether all attempts may take longer: while they are cut off in series, and
// more of those that went on were answered than of the calls whose attempts were cut off.
func (e *evidence) judge() {
	least := inSeries
	if e.open {
		least = overAgain
	}
	e.open = e.past >= least && e.kept > e.again+better
}

// trial takes the next turn, and reports whether it is one of an attempt that goes on.
func (e *evidence) trial() bool {
	every := uint8(trialEvery)
	if e.again > saved {
		every = rarely
	}
	e.turn = (e.turn + 1) % every
	return e.turn == 1
}

// longestOf bounds an attempt beside its call. Zero means that it never has more time.
func longestOf(t *policy.Timeout) time.Duration {
	switch {
	case t.Strict || t.Attempt <= 0:
		return 0
	case t.Last > t.Attempt:
		return t.Last
	case t.Call <= 0: // the caller may have no deadline either
		return 4 * min(t.Attempt, math.MaxInt64/4)
	}
	return math.MaxInt64
}

// cuts returns what is known of attempts that were cut off; nil if none was yet.
func (p *partition) cuts() *cuts {
	if t := p.times.Load(); t != nil {
		return t.cuts
	}
	return nil
}

// addCuts makes it.
func (p *partition) addCuts() *cuts {
	for {
		old := p.times.Load()
		if old != nil && old.cuts != nil {
			return old.cuts
		}
		next := &times{cuts: new(cuts)}
		if old != nil {
			next.all, next.tail = old.all, old.tail
		}
		p.times.CompareAndSwap(old, next)
	}
}

// quiet reports whether nothing is known that changes an attempt's time.
func (k *cuts) quiet() bool { return k.word.Load() == 0 && !k.needs.known() }

// stretch gives an attempt that begins now more time than limit, if attempts were cut off in
// series and it may go on.
func (c *Call) stretch(now clock.Instant, k *cuts, t *Ticket, limit time.Duration) time.Duration {
	t.watched = k.needs.known()
	w := k.word.Load()
	if w == 0 || c.strict || c.rules.longest == 0 {
		return limit
	}
	p := &c.rules.Policy.Timeout
	longest := min(c.deadline.Sub(now), c.rules.longest)
	e := known(w, now, p)
	t.watched = true
	switch {
	case limit <= 0 || longest <= limit:
	case e.open:
		t.longer = true
	case e.past >= inSeries && t.Attempt == 1 && longest >= limit+limit/2:
		k.change(now, p, func(e *evidence) { t.longer = e.trial() })
		longest = min(longest, trialLasts*limit) // where nothing comes, the caller waits for that
	}
	if t.longer {
		if t.held.permit.Probe() {
			c.part.breaker.Load().Delay(t.held.permit, longest-limit) // it expires later; the permit keeps its start
		}
		return longest
	}
	return limit
}

// outlasted counts whether an attempt outlasted timeout.attempt, and whether one that had more
// time was answered. A loser and one that was given up show only how long they took. So does
// one that had less time.
func (c *Short) outlasted(now clock.Instant, t *Ticket, answered, gaveUp bool) {
	p := &c.rules.Policy.Timeout
	past := now.Sub(t.Sent) >= p.Attempt
	switch {
	case c.rules.longest == 0 || t.Hedge, !past && !t.watched:
		return
	case !past && (gaveUp || !answered && now >= t.Deadline):
		return
	}
	c.part.addCuts().change(now, p, func(e *evidence) {
		e.past = e.past.next(past, lastAttempts)
		if !past {
			return
		}
		e.at = secondOf(now)
		if !gaveUp && t.Deadline.Sub(t.Sent) >= p.Attempt+p.Attempt/2 {
			e.kept = e.kept.next(answered, lastTold)
		}
	})
}

// cutAndEnded counts how a call ended of which an attempt was cut off.
func (c *Call) cutAndEnded(now clock.Instant, why policy.Reason) {
	if k := c.part.cuts(); k != nil && why != policy.Canceled {
		k.change(now, &c.rules.Policy.Timeout, func(e *evidence) { e.again = e.again.next(why == policy.None, lastTold) })
	}
}
