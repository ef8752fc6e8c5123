package bulkhead

import (
	"sync/atomic"

	"github.com/gabion-go/gabion/policy"
)

// Priority says who goes first among those who wait.
type Priority = policy.Priority

// The classes of priority.
const (
	Low    = policy.PriorityLow
	Normal = policy.PriorityNormal
	High   = policy.PriorityHigh
)

// patience is how often in a row a class lets a higher one go first.
const patience = 32

const numClasses = 3

// class is the place of p in tables: 0 is served first.
func class(p Priority) int {
	switch {
	case p > 0:
		return 0
	case p < 0:
		return 2
	}
	return 1
}

// Answer says how a stay in the queue stands.
type Answer uint8

// How a stay stands.
const (
	Waiting   Answer = iota // no slot yet
	Granted                 // here is the slot
	PushedOut               // a tenant with less in a fair queue took the place
	Gone                    // over: it left, or took its slot already
)

// Waiter is one stay in the queue. It is made by [Bulkhead.Join] and never used
// again for another stay, so that a late wake can only be spurious.
type Waiter struct {
	prev, next *Waiter // in its line; next also in the chain of those to wake
	waker      Waker
	tenant     *tenant
	seq        uint64
	state      atomic.Uint32 // an Answer; leaves Waiting only under the lock
	class      uint8
}

// Join queues for a slot, and reports false when the queue is full: the caller
// is refused. A slot that came free in the meantime is given at once, queue or
// no queue. In any case w is woken when [Bulkhead.Granted] has an answer,
// possibly before Join returns; without a w (nil) the owner must look by itself.
//
// The stay ends when Granted says so, or by [Bulkhead.Leave]; one of the two
// must come, or a slot may get lost.
func (b *Bulkhead) Join(w Waker, p Priority, tenant string) (*Waiter, bool) {
	var told chain
	b.lock()
	me := b.join(w, p, tenant, &told)
	b.mu.Unlock()
	told.wake()
	return me, me != nil
}

// Granted says how the stay of w stands, and hands over the slot when it is
// there: once, later calls answer Gone.
func (b *Bulkhead) Granted(w *Waiter) (Slot, Answer) {
	if w == nil {
		return Slot{}, Gone
	}
	answer := Answer(w.state.Load())
	if answer != Granted {
		return Slot{}, answer
	}
	if s, ok := w.collect(); ok {
		return s, Granted
	}
	return Slot{}, Gone
}

// Leave ends the stay of w. It reports true when a slot had been handed over
// meanwhile: the slot is then the caller's, to use or to Release.
func (b *Bulkhead) Leave(w *Waiter) (Slot, bool) {
	if w == nil {
		return Slot{}, false
	}
	b.lock()
	if Answer(w.state.Load()) != Waiting {
		b.mu.Unlock()
		return w.collect()
	}
	b.dequeue(w, Gone)
	b.serve()
	return Slot{}, false
}

// collect takes the slot out of a granted stay, once.
func (w *Waiter) collect() (Slot, bool) {
	if w.state.CompareAndSwap(uint32(Granted), uint32(Gone)) {
		return Slot{&w.tenant.source}, true
	}
	return Slot{}, false
}

// join is Join under the lock. It returns nil when the queue is full.
func (b *Bulkhead) join(w Waker, p Priority, name string, told *chain) *Waiter {
	b.pass(told) // a release may be between its word and its pass
	_, free := b.takeFromWord()
	if !free && b.queued() >= b.queueMax && !b.pushOut(name, class(p), told) {
		return nil
	}
	b.seq++
	me := &Waiter{waker: w, tenant: b.tenant(name), seq: b.seq, class: uint8(class(p))}
	if free {
		b.grant(me, told)
		return me
	}
	b.link(me)
	b.word.Add(uint64(oneQueued))
	b.pass(told) // a slot that came free before we were counted is for us to see
	return me
}

// serve ends a verb that has changed the word: it passes, unlocks, wakes.
func (b *Bulkhead) serve() {
	var told chain
	b.pass(&told)
	b.mu.Unlock()
	told.wake()
}

// pass hands what is free to those who wait. It is run under the lock after
// every change of the word that finds somebody queued.
func (b *Bulkhead) pass(told *chain) {
	for {
		w := word(b.word.Load())
		if w.queued() == 0 || !w.room() {
			return
		}
		if !b.word.CompareAndSwap(uint64(w), uint64(w+oneUsed-oneQueued)) {
			continue
		}
		next := b.first()
		b.unlink(next)
		b.grant(next, told)
	}
}

// grant gives w a slot that the word has counted already.
func (b *Bulkhead) grant(w *Waiter, told *chain) {
	b.hold(w.tenant)
	w.state.Store(uint32(Granted))
	told.add(w)
}

// dequeue takes w out of the queue with nothing but an answer.
func (b *Bulkhead) dequeue(w *Waiter, a Answer) {
	b.unlink(w)
	b.settle(w.tenant)
	b.word.Add(^uint64(oneQueued - 1)) // minus oneQueued
	w.state.Store(uint32(a))
}

// first returns who is next, and counts whom that overtakes.
func (b *Bulkhead) first() *Waiter {
	turn := b.turn()
	for c := range b.passed {
		switch {
		case c == turn || b.turns[c].Len() == 0:
			b.passed[c] = 0
		case c > turn:
			b.passed[c]++
		}
	}
	return b.turns[turn].tenants[0].lines[turn].head
}

// turn returns the class that is served next: one out of patience, else the
// highest that anybody waits in.
func (b *Bulkhead) turn() int {
	best := -1
	for c := range b.turns {
		if b.turns[c].Len() == 0 {
			continue
		}
		if b.passed[c] >= patience {
			return c
		}
		if best < 0 {
			best = c
		}
	}
	return best
}

// queued returns how many wait. Under the lock the number stands still.
func (b *Bulkhead) queued() int { return word(b.word.Load()).queued() }

// link puts w at the end of its tenant's line.
func (b *Bulkhead) link(w *Waiter) {
	t := w.tenant
	t.lines[w.class].push(w)
	t.waiting++
	b.rank(t)
}

// unlink takes w out of its tenant's line. The caller settles the tenant.
func (b *Bulkhead) unlink(w *Waiter) {
	t := w.tenant
	t.lines[w.class].remove(w)
	t.waiting--
}

// line is a queue of one tenant and class, in the order of arrival.
type line struct{ head, tail *Waiter }

func (l *line) push(w *Waiter) {
	w.prev = l.tail
	if l.tail == nil {
		l.head = w
	} else {
		l.tail.next = w
	}
	l.tail = w
}

func (l *line) remove(w *Waiter) {
	if w.prev == nil {
		l.head = w.next
	} else {
		w.prev.next = w.next
	}
	if w.next == nil {
		l.tail = w.prev
	} else {
		w.next.prev = w.prev
	}
	w.prev, w.next = nil, nil
}

// chain is those to wake once the lock is free. It is made of their own links,
// which nobody else uses any more: a verb that wakes thousands allocates nothing.
type chain struct{ head, tail *Waiter }

func (c *chain) add(w *Waiter) {
	if c.tail == nil {
		c.head = w
	} else {
		c.tail.next = w
	}
	c.tail = w
}

func (c *chain) wake() {
	for w := c.head; w != nil; {
		next := w.next
		w.next = nil // or a stay that is kept would keep all that were granted after it
		if w.waker != nil {
			w.waker.Wake()
		}
		w = next
	}
}
