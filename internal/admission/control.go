package admission

import (
	"time"

	"github.com/gabion-go/gabion/internal/clock"
)

// control says whether the server is overloaded, by how long requests wait. A queue
// that empties now and then evens out the arrivals. One that stands is of no use: all requests
// wait, and no more gets done. That is CoDel's thought (RFC 8289). Two things are different here.
// Dropping a request does not slow down the others, as it does with packets of TCP: so an overload
// refuses each request that has waited too long, without a law for how many at a time. And the
// overload ends by what arrives and not by what waits: the queue of an overload is short, and may
// be empty by chance.
//
// - It begins when for an interval no request got a slot at once, and none that waited got one
// within the target while the queue had room.
//   - It ends after an interval in which a tenth of the requests found a free slot. If all
//     have to wait again soon after that, it goes on at once: callers who come back when
//     they are no longer refused would else fill the queue for an interval each time.
type control struct {
	target, interval time.Duration

	state state
	since clock.Instant // when the state began; of an overload, the interval that is counted
	ended clock.Instant // when the last overload did, if was
	full  clock.Instant // when the queue had last no room, and hasFull
	came  int           // in the interval that is counted
	found int           // of these, a free slot

	hasFull bool
	was     bool // there was an overload
}

type state uint32

const (
	calm     state = iota // requests are served in time
	standing              // not any more
	overload
)

// Without an overload at least one in enough requests finds a free slot.
const enough = 10

// soon is how many intervals after its end an overload goes on, after a tenth of an interval
// in which all had to wait.
const soon, again = 2, 10

// needs is for how long all must have had to wait.
func (c *control) needs(now clock.Instant) time.Duration {
	if c.was && now.Sub(c.ended) < soon*c.interval {
		return c.interval / again
	}
	return c.interval
}

// late notes that a request waits, or has waited, for the target or longer.
func (c *control) late(now clock.Instant) {
	switch {
	case c.interval <= 0:
	case c.state == calm:
		c.state, c.since = standing, now
	case c.state == standing && now.Sub(c.since) >= c.needs(now):
		c.state, c.since, c.came, c.found = overload, now, 0, 0
	}
}

// noRoom notes that the queue was full. How long the refused requests would have waited is unknown.
func (c *control) noRoom(now clock.Instant) {
	c.full, c.hasFull = now, true
	c.late(now)
}

// served notes how long a request waited that gets a slot now.
func (c *control) served(now clock.Instant, waited time.Duration) {
	if waited >= c.target || c.hasFull && now.Sub(c.full) < c.target {
		c.late(now)
		return
	}
	c.calm()
}

// calm notes that no request has to wait any more, or only those of one tenant.
func (c *control) calm() {
	if c.state == standing {
		c.state = calm
	}
}

// arrived counts a request, and whether it found a free slot. While all is calm it need not be
// called.
func (c *control) arrived(now clock.Instant, free bool) {
	if free {
		c.calm()
	}
	if c.state != overload {
		return
	}
	if lasted := now.Sub(c.since); lasted >= c.interval {
		if lasted >= 2*c.interval || c.found*enough >= c.came {
			c.state, c.ended, c.was = calm, now, true
			return
		}
		c.since, c.came, c.found = now, 0, 0
	}
	c.came++
	if free {
		c.found++
	}
}
