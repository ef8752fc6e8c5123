package fleet

import (
	"math"
	"time"

	"github.com/gabion-go/gabion/internal/clock"
)

// Estimate says how much of a resource a process could use, from what it counts. The zero Estimate wants
// nothing, and is ready. It is for one goroutine.
//
// The mean m of what was wanted follows a rise with a time constant of a fifth of a second at most, and a fall with
// one of two seconds. What is asked for is
//
//	m + 2√(m/T)
//
// which is the mean and two standard deviations of a Poisson count over T = 1 s: the square-root rule of staffing
// (Halfin and Whitt, "Heavy-traffic limits for queues with many exponential servers", 1981). The answer
// stays while this is between four fifths of it and itself, so that noise moves no shares.
//
// Who waits for its turn is not refused, so a process whose callers wait wants no more than it has, as far as
// it can count. So it asks for half as much again while more than a twentieth were refused or had to wait.
type Estimate struct {
	begun  bool
	last   clock.Instant
	wanted uint64 // at last
	short  uint64 // at last
	mean   float64
	asks   float64
}

const (
	rise = 200 * time.Millisecond
	fall = 2 * time.Second
)

// Count takes the numbers, since the process started, of what was wanted (sent, refused and waiting) and how
// much of that was refused or waited because of the share; and the share that was in force, in units a second. It returns what
// to ask for, in units a second.
func (e *Estimate) Count(now clock.Instant, wanted, short uint64, share float64) float64 {
	span, more, missed, ok := e.since(now, wanted, short)
	if !ok {
		return e.asks
	}
	e.follow(float64(more)/span.Seconds(), span)
	return e.ask(share, float64(missed) > float64(more)/20)
}

// Level takes how much is in use and waits, and otherwise what [Estimate.Count] takes: for slots. It returns
// what to ask for.
func (e *Estimate) Level(now clock.Instant, used float64, wanted, short uint64, share float64) float64 {
	span, more, missed, ok := e.since(now, wanted, short)
	if !ok {
		return e.asks
	}
	e.follow(clamp(used, math.MaxFloat64), span)
	return e.ask(share, float64(missed) > float64(more)/20)
}

// since returns what was counted since the last time, if it was long enough ago to say anything.
func (e *Estimate) since(now clock.Instant, wanted, short uint64) (span time.Duration, more, missed uint64, ok bool) {
	if !e.begun {
		e.begun, e.last, e.wanted, e.short = true, now, wanted, short
		return 0, 0, 0, false
	}
	if span = now.Sub(e.last); span < time.Millisecond {
		return 0, 0, 0, false
	}
	// Counts that went back, as after a reload, say nothing.
	if wanted >= e.wanted && short >= e.short {
		more, missed = wanted-e.wanted, short-e.short
	}
	e.last, e.wanted, e.short = now, wanted, short
	return span, more, missed, true
}

// follow moves the mean towards x, of the last span.
func (e *Estimate) follow(x float64, span time.Duration) {
	constant := fall
	if x > e.mean {
		constant = rise
	}
	e.mean += float64((x-e.mean)*float64(span)) / float64(span+constant)
}

func (e *Estimate) ask(share float64, short bool) float64 {
	want := e.mean + float64(2*math.Sqrt(e.mean))
	if short {
		want = max(want, 1.5*share)
	}
	if want > e.asks || want < 0.8*e.asks {
		e.asks = want
	}
	return e.asks
}
