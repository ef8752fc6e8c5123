package breaker

import (
	"time"

	"github.com/gabion-go/gabion/internal/clock"
)

// trackedCall is a call that must be known by itself. Its serial tells it from others
// that had the same slot, so that a permit that is settled twice does not end another
// call. Serial zero is a free slot.
type trackedCall struct {
	start  clock.Instant // when it was asked for; if its result lives on, when its verdict was given
	serial uint32
	lives  bool // the answer is good so far, and its result lives on
	slow   bool // and it was slow
}

// trackedCalls are calls that must be known one by one.
type trackedCalls struct {
	all  []trackedCall
	out  int
	last uint32
}

// add reports false when as many as the limit are tracked.
func (cs *trackedCalls) add(now clock.Instant, limit int) (slot uint16, serial uint32, ok bool) {
	if cs.out >= limit {
		return 0, 0, false
	}
	i := 0
	for i < len(cs.all) && cs.all[i].serial != 0 {
		i++
	}
	if i == len(cs.all) {
		cs.all = append(cs.all, trackedCall{})
	}
	cs.last = max(cs.last+1, 1)
	cs.out++
	cs.all[i] = trackedCall{start: now, serial: cs.last}
	return uint16(i), cs.last, true
}

// find returns the call, or nil when it is not tracked any more.
func (cs *trackedCalls) find(slot uint16, serial uint32) *trackedCall {
	if serial == 0 || int(slot) >= len(cs.all) || cs.all[slot].serial != serial {
		return nil
	}
	return &cs.all[slot]
}

// remove reports false when the call is not tracked any more.
func (cs *trackedCalls) remove(slot uint16, serial uint32) bool {
	if cs.find(slot, serial) == nil {
		return false
	}
	cs.all[slot] = trackedCall{}
	cs.out--
	return true
}

// delay makes a call start later.
func (cs *trackedCalls) delay(slot uint16, serial uint32, by time.Duration) {
	if c := cs.find(slot, serial); c != nil {
		c.start = c.start.Add(by)
	}
}

// clear removes all. Serials go on, so that no permit of before matches a later call.
func (cs *trackedCalls) clear() {
	clear(cs.all)
	cs.out = 0
}

// oldest returns the earliest start, or Never.
func (cs *trackedCalls) oldest() clock.Instant {
	_, start := cs.first()
	return start
}

// first returns the slot with the earliest start, and that start, or Never. Of several
// it is one that was answered, if any was, and best a quick one.
func (cs *trackedCalls) first() (slot uint16, start clock.Instant) {
	start = clock.Never
	var best uint32
	for i, c := range cs.all {
		rank := 2 * one(c.lives)
		if c.slow {
			rank--
		}
		if c.serial != 0 && (c.start < start || c.start == start && rank > best) {
			slot, start, best = uint16(i), c.start, rank
		}
	}
	return slot, start
}

// aged appends to into the instants at which the calls that are out by now
// reached the age, as many as have.
func (cs *trackedCalls) aged(now clock.Instant, age time.Duration, into []clock.Instant) []clock.Instant {
	for _, c := range cs.all {
		if due := c.start.Add(age); c.serial != 0 && due <= now {
			into = append(into, due)
		}
	}
	return into
}
