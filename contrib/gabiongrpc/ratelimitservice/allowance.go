package ratelimitservice

import "time"

// allowance is what is known of one combination of descriptors. Time is an argument. It is for one goroutine at a time.
type allowance struct {
	until   time.Time // of what follows; before now, nothing is known
	isOver  bool      // nothing is allowed
	limited bool      // left counts
	left    uint64    // hits that are allowed, of those that were not told yet when it was answered

	pending  uint64        // hits to tell
	asking   bool          // a goroutine tells them
	answered chan struct{} // closed when the question that is out, or the next one, is over
	pausing  time.Time     // after a failure, no question until then
}

// verdict is what is known of a call.
type verdict uint8

const (
	allowed verdict = iota
	refused
	unknown
)

// admit decides about a call, and counts its hits unless it is refused.
func (a *allowance) admit(now time.Time, hits uint64) (v verdict, after time.Duration) {
	known := now.Before(a.until)
	if known && (a.isOver || a.limited && a.left < hits) {
		return refused, a.until.Sub(now)
	}
	a.pending += hits
	if !known {
		return unknown, 0
	}
	if a.limited {
		a.left -= hits
	}
	return allowed, 0
}

// over reports whether nothing is allowed, and for how long.
func (a *allowance) over(now time.Time) (time.Duration, bool) {
	return a.until.Sub(now), a.isOver && now.Before(a.until)
}

// ask reports whether a question has to be begun.
func (a *allowance) ask(now time.Time) bool {
	switch {
	case a.asking:
		return false
	case now.Before(a.pausing):
		a.pending = 0 // those were let through, as without the service
		return false
	}
	a.asking, a.answered = true, make(chan struct{})
	return true
}

// take returns the hits of the next question; with none the goroutine ends.
func (a *allowance) take() (hits uint64) {
	hits, a.pending = min(a.pending, 1<<32-1), 0
	if hits == 0 {
		a.end()
	}
	return hits
}

func (a *allowance) end() {
	if a.asking {
		close(a.answered)
	}
	a.asking, a.answered = false, nil
}

// learn takes an answer. Hits that came since the question was asked are not in it.
func (a *allowance) learn(now time.Time, got answer) {
	defer a.signal()
	after, left, limited := got.bounds()
	a.until, a.isOver, a.limited, a.left = now.Add(after), got.code == codeOver, limited, 0
	if limited && left > a.pending {
		a.left = left - a.pending
	}
}

// signal wakes those who wait for an answer.
func (a *allowance) signal() {
	if a.answered != nil {
		close(a.answered)
		a.answered = make(chan struct{})
	}
}

// fail forgets what is known, but for a refusal, which holds until its end.
func (a *allowance) fail(now time.Time) {
	if !a.isOver {
		a.until = time.Time{}
	}
	a.pausing, a.pending = now.Add(pause), 0
	a.signal()
}

// idle reports whether nothing is known that is worth keeping.
func (a *allowance) idle(now time.Time) bool {
	return !a.asking && !now.Before(a.until) && !now.Before(a.pausing)
}
