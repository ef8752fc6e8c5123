package ratelimitservice

import "time"

// allowance is what is known of one combination of descriptors. Time is an argument. It is for one goroutine at a time.
type allowance struct {
	until   time.Time // of what follows; before now, nothing is known
	isOver  bool      // nothing is allowed
	limited bool      // left counts
	left    uint64    // hits that are allowed, of those that were not told yet when it was answered

	pending uint64    // hits to tell
	asking  bool      // a goroutine tells them
	pausing time.Time // after a failure, no question until then

	waiting []*waiter // calls that wait for the next answer, in their order
	told    int       // how many of them are in the question that is out
}

// waiter is a call that waits.
type waiter struct {
	hits  uint64
	after time.Duration // above zero: it is refused for so long
	done  chan struct{} // closed when that is decided
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

// wait makes a call wait about which nothing is known, and whose hits are counted. It is nil where no answer will come.
func (a *allowance) wait(hits uint64) *waiter {
	if !a.asking {
		return nil
	}
	w := &waiter{hits: hits, done: make(chan struct{})}
	a.waiting = append(a.waiting, w)
	return w
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
	a.asking = true
	return true
}

// take returns the hits of the next question; with none the goroutine ends.
func (a *allowance) take() (hits uint64) {
	hits, a.pending = min(a.pending, 1<<32-1), 0
	a.told = len(a.waiting)
	a.asking = hits > 0
	return hits
}

// learn takes an answer. Hits that came since the question was asked are not in it.
func (a *allowance) learn(now time.Time, got answer) {
	after, left, limited := got.bounds()
	a.until, a.isOver, a.limited, a.left = now.Add(after), got.code == codeOver, limited, 0
	if limited && left > a.pending {
		a.left = left - a.pending
	}
	for i, w := range a.waiting {
		switch {
		case a.isOver:
			w.after = after
		case i < a.told || !limited: // the answer is about these, or about all
		case w.hits > left:
			w.after = after
		default:
			left -= w.hits
		}
	}
	a.release()
}

// release lets those go on who wait.
func (a *allowance) release() {
	for _, w := range a.waiting {
		close(w.done)
	}
	a.waiting, a.told = nil, 0
}

// fail forgets what is known, but for a refusal, which holds until its end. The goroutine that asked ends.
func (a *allowance) fail(now time.Time) {
	if !a.isOver {
		a.until = time.Time{}
	}
	a.pausing, a.pending, a.asking = now.Add(pause), 0, false
	a.release()
}

// idle reports whether nothing is known that is worth keeping.
func (a *allowance) idle(now time.Time) bool {
	return !a.asking && !now.Before(a.until) && !now.Before(a.pausing)
}
