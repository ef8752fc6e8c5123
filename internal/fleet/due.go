package fleet

import (
	"encoding/json"
	"time"
)

// This file says when a pool is divided anew, and who does it. Nothing else judges how old a pool is, but for what a clock
// that stepped back makes of leases.

// Due reports that the process should divide the pool that it just read, nil without one. U is a draw from
// [0, 1). A pool is due when a quarter of a lease has passed. Then some eight processes of the fleet try in
// an interval, however many there are; one that is half as old again is divided by anyone who sees it. A
// process that has no share, or less than it could have, or wants a resource that is new, divides earlier, and the whole fleet
// does not do so more than 24 times in a lease.
func (h *Holder) Due(storeNow time.Time, p *Pool, u float64) bool {
	if p == nil {
		return true
	}
	age, interval, pod := p.Age(storeNow), h.length/4, p.Pod(h.id)
	switch {
	case age < -h.length/tolerance || h.outdated(p): // the store's clock stepped back, or the whole pool has to be read
		return true
	case age >= interval*3/2:
		return true
	case age >= interval && u*float64(p.Live()) < 8:
		return true
	}
	return age >= p.sooner(h.length) && (pod == nil || pod.Until <= 0 || h.hungry() || h.lacks(p))
}

// Busy reports whether another process divides the pool that p is, or of which it is a part, as a record says. One that
// has not ended after a twelfth of a lease is not waited for, nor is any where the pool is as old as half of one, nor a record that
// makes no sense.
func (h *Holder) Busy(turn []byte, p *Pool, storeNow time.Time) bool {
	var t Turn
	if json.Unmarshal(turn, &t) != nil || p != nil && (t.At <= p.At || p.Age(storeNow) > h.length/2) {
		return false
	}
	age := storeNow.Sub(time.UnixMicro(t.At))
	return age >= 0 && age < h.gap()
}

// sooner is the least age at which a process may have a pool divided anew because it wants more: more in a large fleet,
// where that costs more.
func (p *Pool) sooner(length time.Duration) time.Duration {
	const few = 250
	return min(length/24*time.Duration(max(p.Live(), few))/few, length/8)
}
