package budget

import (
	"time"

	"github.com/gabion-go/gabion/internal/clock"
)

// pace is how long good answers take, and whether they wait in a queue now. What waits
// there and is then answered took the place of another call.
type pace struct {
	usual time.Duration // smoothed over the last usualOf
	known uint16        // how many there were, at most usualOf
	late  uint8         // in a row took more than lateBy × usual, at most inQueue
	at    clock.Instant // when the last one came
}

const (
	usualOf = 512 // of at most four a window: slowness of a minute or two does not count as usual
	pacedBy = 8   // fewer answers say nothing of what is usual
	lateBy  = 3   // with lognormal work one answer in forty

	// inQueue is so many that a burst of a few seconds is over before. What a burst refused is
	// answered after it, so there re-sends help.
	inQueue = 8
)

// add counts a good answer. One that is late counts as twice the usual time.
func (p *pace) add(now clock.Instant, took time.Duration) {
	p.at = now
	p.known = min(p.known+1, usualOf)
	if p.known > pacedBy {
		if took > lateBy*p.usual {
			p.late = min(p.late+1, inQueue)
		} else {
			p.late = 0
		}
		took = min(took, 2*p.usual)
	}
	p.usual += (took - p.usual) / time.Duration(p.known)
}

// queued reports whether answers wait now. After a while without one that is not known.
func (p *pace) queued(now clock.Instant, while time.Duration) bool {
	return p.late == inQueue && now.Sub(p.at) < while
}

// Took tells how long a success took of which Earn said that it is the first in a quarter of the
// window. When eight of these in a row took more than three times what is usual, calls wait for
// each other in the dependency, and a re-send takes the place of another call: then successes earn
// nothing, and re-sends that succeed give nothing back. One answer in the usual time ends this. So
// do a window without an answer, and some minutes, in which the longer time becomes usual.
func (e *Earned) Took(now clock.Instant, took time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.pace.add(now, max(took, 0))
}

// Queued reports whether that is so now.
func (e *Earned) Queued(now clock.Instant, r *EarnedRules) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.pace.queued(now, r.Window)
}
