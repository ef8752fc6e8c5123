package bulkhead

import "container/heap"

// SetNewestFirst says in which order the waiters of a class are served: the last one
// first, or, as in a new bulkhead, the first one first. Among the tenants of a fair
// bulkhead it decides between those with as many slots in use. It may be changed while
// calls wait, and costs the number of waiting tenants.
func (b *Bulkhead) SetNewestFirst(on bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.newest == on {
		return
	}
	b.newest = on
	for c := range b.next {
		heap.Init(&b.next[c])
	}
}

// SetStrict says whether a class is served only while no call of a higher class waits, and gives
// its places in a full queue to higher ones: the newest of the lowest class is pushed out. In a new
// bulkhead a class that was skipped 32 times in a row is served first, and none is pushed out.
// Strict is for callers that bound the wait, so that what is never served is refused and does not
// wait for ever.
func (b *Bulkhead) SetStrict(on bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.strict = on
}

// SetTenantMax bounds the slots and the waiters of each tenant of a fair bulkhead; 0 is
// no bound. A tenant that holds as many slots as it may is not served even if slots are
// free, and does not keep others from them. One that has as many waiters as it may is
// refused. A bound that shrinks takes nothing away.
func (b *Bulkhead) SetTenantMax(slots, waiters int) {
	b.mu.Lock()
	b.tenantSlots, b.tenantQueue = int32(min(max(slots, 0), maxLimit)), int32(min(max(waiters, 0), maxQueued))
	for _, t := range b.tenants {
		b.rank(t)
	}
	b.serve()
}

// Tenants returns how many slots a tenant of a fair bulkhead has in use, how many wait
// for one, and how many tenants there are that do either.
func (b *Bulkhead) Tenants(name string) (inUse, waiting, tenants int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if t := b.tenants[name]; t != nil {
		inUse, waiting = t.held, t.waiting
	}
	return inUse, waiting, len(b.tenants)
}

// capped reports whether t holds all the slots that it may. b.mu is held.
func (b *Bulkhead) capped(t *tenant) bool {
	return b.tenantSlots > 0 && t != &b.everyone && t.held >= int(b.tenantSlots)
}

// allCapped reports whether every waiting call is held up by its tenant's bound. b.mu is held.
func (b *Bulkhead) allCapped() bool {
	if b.tenantSlots == 0 {
		return false
	}
	for c := range b.next {
		if b.next[c].Len() > 0 {
			return false
		}
	}
	return true
}

// place reports whether there is a place in the queue, and makes one if it can. b.mu is held.
func (b *Bulkhead) place(name string, class int, wake *wakeList) bool {
	mine := &b.everyone
	if b.fair() {
		mine = b.tenants[name]
	}
	switch {
	case b.tenantQueue > 0 && b.fair() && mine != nil && mine.waiting >= int(b.tenantQueue):
	case b.Queued() < int(b.queueMax), b.pushOut(name, class, wake):
		return true
	}
	return b.strict && mine != nil && b.pushLower(mine, class, wake)
}

// pushLower makes room for a waiter of a class by pushing out one of a lower class of the
// same tenant.
func (b *Bulkhead) pushLower(t *tenant, class int, wake *wakeList) bool {
	out := t.newest()
	if out == nil || int(out.class) <= class {
		return false
	}
	b.dequeue(out, PushedOut)
	wake.add(out)
	return true
}
