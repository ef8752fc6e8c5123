package breaker

import (
	"time"

	"github.com/gabion-go/gabion/clock"
)

// A berth remembers when the call that lies in it started. Its serial tells one
// stay from the next, so that a permit that comes home twice frees nobody
// else's. Serial zero is free.
type berth struct {
	start  clock.Instant
	serial uint32
}

// berths are those of the calls that must be known one by one.
type berths struct {
	all  []berth
	out  int
	last uint32
}

// take reports false when as many as the limit are taken.
func (bs *berths) take(now clock.Instant, limit int) (slot uint16, serial uint32, ok bool) {
	if bs.out >= limit {
		return 0, 0, false
	}
	i := 0
	for i < len(bs.all) && bs.all[i].serial != 0 {
		i++
	}
	if i == len(bs.all) {
		bs.all = append(bs.all, berth{})
	}
	bs.last = max(bs.last+1, 1)
	bs.out++
	bs.all[i] = berth{now, bs.last}
	return uint16(i), bs.last, true
}

// free reports false when the berth is no longer the caller's.
func (bs *berths) free(slot uint16, serial uint32) bool {
	if serial == 0 || int(slot) >= len(bs.all) || bs.all[slot].serial != serial {
		return false
	}
	bs.all[slot] = berth{}
	bs.out--
	return true
}

// delay dates a stay later.
func (bs *berths) delay(slot uint16, serial uint32, by time.Duration) {
	if int(slot) < len(bs.all) && bs.all[slot].serial == serial {
		bs.all[slot].start = bs.all[slot].start.Add(by)
	}
}

// clear frees all. Serials go on, so that nobody comes home to another's berth.
func (bs *berths) clear() {
	clear(bs.all)
	bs.out = 0
}

// oldest returns the earliest start, or Never.
func (bs *berths) oldest() clock.Instant {
	first := clock.Never
	for _, b := range bs.all {
		if b.serial != 0 {
			first = min(first, b.start)
		}
	}
	return first
}

// aged appends to into the instants at which the calls that are out by now
// reached the age, as many as have.
func (bs *berths) aged(now clock.Instant, age time.Duration, into []clock.Instant) []clock.Instant {
	for _, b := range bs.all {
		if due := b.start.Add(age); b.serial != 0 && due <= now {
			into = append(into, due)
		}
	}
	return into
}
