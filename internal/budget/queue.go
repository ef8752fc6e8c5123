package budget

import (
	"math"
	"time"

	"github.com/gabion-go/gabion/internal/clock"
)

// pace is how long good answers take, and whether they wait in a queue now. What waits
// there and is then answered took the place of another call.
type pace struct {
	usual uint32 // microseconds, smoothed over the last usualOf
	known uint16 // how many there were, at most usualOf
	late  uint8  // in a row took more than lateBy × usual, at most inQueue
}

const (
	usualOf = 512 // of at most four a window: slowness of a minute or two does not count as usual
	pacedBy = 8   // fewer answers say nothing of what is usual
	lateBy  = 3   // with lognormal work one answer in forty

	// inQueue is enough that a burst of a few seconds is over before. What a burst refused is
	// answered after it, so there re-sends help.
	inQueue = 8

	// forgotten is after how many windows without an answer the row begins anew. Clients of rare calls must
	// remember it for longer than a window, or they never know of a queue. In the lab 71 % of the calls are
	// answered with two, and 75 % with six or with any more.
	forgotten = 6
)

// add counts a good answer. One that is late counts as twice the usual time.
func (p *pace) add(took time.Duration) {
	us, usual := min(max(took.Microseconds(), 1), math.MaxUint32), int64(p.usual)
	p.known = min(p.known+1, usualOf)
	if p.known > pacedBy {
		if us > lateBy*usual {
			p.late = min(p.late+1, inQueue)
		} else {
			p.late = 0
		}
		us = min(us, 2*usual)
	}
	step := (us - usual) / int64(p.known)
	if step == 0 && us > usual {
		step = 1 // or a service of microseconds would never become a slower one
	}
	p.usual = uint32(usual + step)
}

// queued reports whether answers wait now. After a window without one that is not known: Took
// follows each mark.
func (e *Earned) queued(now clock.Instant, r *EarnedRules) bool {
	return e.pace.late == inQueue && now.Sub(e.marked[e.newest]) < r.Window
}

// Took tells how long a success took of which Earn said that it is the first in a quarter of the
// window. When eight of these in a row took more than three times what is usual, calls wait for
// each other in the dependency, and a re-send takes the place of another call: then successes earn
// nothing, and re-sends that succeed give nothing back. One answer in the usual time ends this. So
// do a window without an answer, until a late one follows, or for good after six of them; and, with windows of 10 s, a
// quarter of an hour and more, in which the longer time becomes usual.
func (e *Earned) Took(took time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.pace.add(took)
}

// Queued reports whether that is so now.
func (e *Earned) Queued(now clock.Instant, r *EarnedRules) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.queued(now, r)
}
