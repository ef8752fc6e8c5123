package fleet

import (
	"math"
	"time"

	"github.com/gabion-go/gabion/internal/clock"
)

// Estimate says how much of a resource a process could use, from what it counts. The zero Estimate wants
// nothing, and is ready. It is for one goroutine.
//
// The mean m of what was wanted forgets with a time constant of eight seconds. If a count is more than
// four standard deviations above what m lets expect, or what came in the last half to two seconds as much below it, demand
// has changed, and m follows at once: that is
// the control chart of Shewhart ("Economic control of quality of manufactured product", 1931), with the
// variance of a Poisson count, which is its mean. The answer moves when m is two standard deviations of m
// itself away from it, √(m/16 s) each. So noise moves few shares, and the sum of the answers of many processes
// is right, as small ones err to both sides.
//
// Beside the mean a process asks for room, 2√(m/1 s). That is the square-root rule of staffing (Halfin and Whitt,
// "Heavy-traffic limits for queues with many exponential servers", 1981). It is given if there is
// enough for what all want.
//
// A caller who waits for its turn asks for nothing new, so a process whose callers wait wants no more than it
// has, as far as it can count. So while more than half had to wait and what it has is used up, it wants more than that:
// 5 % more, then 10 %, doubling up to twice as much.
type Estimate struct {
	begun  bool
	last   clock.Instant
	wanted uint64        // at last
	waited uint64        // at last
	behind time.Duration // for how long less was counted than at last
	streak int           // how often in a row callers waited
	age    time.Duration
	mean   float64
	said   float64

	lately    time.Duration // how much of the newest window has passed
	latelySum float64       // and what was counted in it
}

const (
	forget = 8 * time.Second
	lull   = 500 * time.Millisecond // the least that says that demand has fallen
	window = 2 * time.Second        // in which that is looked for
)

// Count takes the numbers, since the process started, of what was wanted (sent, refused and waiting) and
// how much of that had to wait because of the share; and the share that was in force, in units a second. It
// returns the Want and the Room of a [Demand], in units a second.
func (e *Estimate) Count(now clock.Instant, wanted, waited uint64, share float64) (want, room float64) {
	if span, more, late, ok := e.since(now, wanted, waited); ok {
		e.follow(float64(more)/span.Seconds(), span, true)
		e.crowd(late > more/2, share)
	}
	return e.ask(share, 0)
}

// Level takes how much is in use or waits, and otherwise what [Estimate.Count] takes: for slots. The variance
// is that of a station with as many servers as it needs. Slots do not average over
// time, so half of the room is part of Want.
func (e *Estimate) Level(now clock.Instant, used float64, wanted, waited uint64, share float64) (want, room float64) {
	if span, more, late, ok := e.since(now, wanted, waited); ok {
		e.follow(clamp(used, math.MaxFloat64), span, false)
		e.crowd(late > more/2, share)
	}
	return e.ask(share, 1)
}

// Counted reports whether anything was counted yet, so that the answers say something.
func (e *Estimate) Counted() bool { return e.age > 0 }

// since returns what was counted since the last time, if that was long enough ago to say anything.
func (e *Estimate) since(now clock.Instant, wanted, waited uint64) (span time.Duration, more, late uint64, ok bool) {
	if !e.begun {
		e.begun, e.last, e.wanted, e.waited = true, now, wanted, waited
		return 0, 0, 0, false
	}
	if span = now.Sub(e.last); span < 10*time.Millisecond {
		return 0, 0, 0, false
	}
	// An attempt that is out and a call whose turn is void are not counted for a moment, and then they are again: they are not
	// wanted twice. What stays lower for longer, or is less than half, began anew, as after a reload: it is counted from there.
	if wanted >= e.wanted {
		e.behind = 0
	} else if e.behind += span; e.behind < forget && wanted >= e.wanted/2 {
		wanted = e.wanted
	} else {
		e.wanted, e.behind = wanted, 0
	}
	more, late = wanted-e.wanted, max(waited, e.waited)-e.waited
	e.last, e.wanted, e.waited = now, wanted, waited
	return span, more, late, true
}

// follow moves the mean towards x, which was seen in the last span. Counts of one span say nothing of those of another, so their
// variance sinks with the time that they span. What is in use does not change so quickly: its variance stays.
func (e *Estimate) follow(x float64, span time.Duration, counted bool) {
	unit := 1.0
	if counted {
		unit = 1 / span.Seconds()
	}
	if x > e.mean+float64(4*math.Sqrt(e.mean*unit))+4*unit {
		e.mean, e.lately, e.latelySum = x, 0, 0
	}
	e.fall(x, span, counted)
	e.mean += float64((x-e.mean)*float64(span)) / float64(span+min(forget, e.age))
	e.age += span
	if math.Abs(e.mean-e.said) > 2*math.Sqrt(max(e.mean, e.said)/(2*forget.Seconds())) || e.mean < 1e-3 {
		e.said = e.mean
	}
}

// fall takes what was seen lately for the mean, if that is four standard deviations less. Of calls that come one by one, many spans are
// needed to see it: each may have none.
func (e *Estimate) fall(x float64, span time.Duration, counted bool) {
	e.lately, e.latelySum = e.lately+span, e.latelySum+float64(x*span.Seconds())
	if e.lately < lull {
		return
	}
	seen, unit := e.latelySum/e.lately.Seconds(), 1.0
	if counted {
		unit = 1 / e.lately.Seconds()
	}
	fallen := seen < e.mean-float64(4*math.Sqrt(e.mean*unit))
	if fallen {
		e.mean = seen
	}
	if fallen || e.lately >= window {
		e.lately, e.latelySum = 0, 0
	}
}

// crowd counts for how long callers waited while the share was used up.
func (e *Estimate) crowd(waits bool, share float64) {
	if waits && e.mean > 0.9*share {
		e.streak = min(e.streak+1, 6)
	} else {
		e.streak = 0
	}
}

func (e *Estimate) ask(share, rooms float64) (want, room float64) {
	room = math.Sqrt(e.said)
	want = e.said + float64(rooms*room)
	if e.streak > 0 {
		want = max(want, share*min(1+0.05*float64(int(1)<<(e.streak-1)), 2))
	}
	return want, (2 - rooms) * room
}
