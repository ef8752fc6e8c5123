package breaker

import (
	"time"

	"github.com/gabion-go/gabion/internal/clock"
)

// A berth remembers when the call that lies in it started. Its serial tells one
// stay from the next, so that a permit that comes home twice frees nobody
// else's. Serial zero is free.
type berth struct {
	start  clock.Instant // when it was asked for; of one that lives on, when its verdict was given
	serial uint32
	lives  bool // the answer is good so far, and its result lives on
	slow   bool // and it was slow
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
	bs.all[i] = berth{start: now, serial: bs.last}
	return uint16(i), bs.last, true
}

// of returns the berth, or nil when it is no longer the caller's.
func (bs *berths) of(slot uint16, serial uint32) *berth {
	if serial == 0 || int(slot) >= len(bs.all) || bs.all[slot].serial != serial {
		return nil
	}
	return &bs.all[slot]
}

// free reports false when the berth is no longer the caller's.
func (bs *berths) free(slot uint16, serial uint32) bool {
	if bs.of(slot, serial) == nil {
		return false
	}
	bs.all[slot] = berth{}
	bs.out--
	return true
}

// delay dates a stay later.
func (bs *berths) delay(slot uint16, serial uint32, by time.Duration) {
	if b := bs.of(slot, serial); b != nil {
		b.start = b.start.Add(by)
	}
}

// clear frees all. Serials go on, so that nobody comes home to another's berth.
func (bs *berths) clear() {
	clear(bs.all)
	bs.out = 0
}

// oldest returns the earliest start, or Never.
func (bs *berths) oldest() clock.Instant {
	_, start := bs.first()
	return start
}

// first returns the slot with the earliest start, and that start, or Never. Of several
// it is one that was answered, if any was, and best a quick one.
func (bs *berths) first() (slot uint16, start clock.Instant) {
	start = clock.Never
	var best uint32
	for i, b := range bs.all {
		rank := 2 * one(b.lives)
		if b.slow {
			rank--
		}
		if b.serial != 0 && (b.start < start || b.start == start && rank > best) {
			slot, start, best = uint16(i), b.start, rank
		}
	}
	return slot, start
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
