package bulkhead

import (
	"sync/atomic"

	"github.com/gabion-go/gabion/policy"
)

// Priority says who goes first among waiters.
type Priority = policy.Priority

// The classes of priority.
const (
	Low    = policy.PriorityLow
	Normal = policy.PriorityNormal
	High   = policy.PriorityHigh
)

// patience is how often in a row a class lets a higher one go first before it is served.
const patience = 32

const numClasses = 3

// class returns the class of a priority. Class 0 is served first.
func class(p Priority) int {
	switch {
	case p > 0:
		return 0
	case p < 0:
		return 2
	}
	return 1
}

// Answer says what has become of a wait.
type Answer uint8

// The answers.
const (
	Waiting   Answer = iota // no slot yet
	Granted                 // here is the slot
	PushedOut               // a tenant with fewer waiters took the place in a fair queue
	Gone                    // the wait is over: it was left, or its slot was taken already
)

// Waiter is one wait in the queue. It is made by [Bulkhead.Join] and never used for
// another wait, so a late wake does no harm.
type Waiter struct {
	prev, next *Waiter // in its fifo; next also in a wakeList
	waker      Waker
	tenant     *tenant
	seq        uint64
	state      atomic.Uint32 // an Answer; leaves Waiting only under the lock
	class      uint8
}

// Join waits in the queue for a slot. It reports false when the queue is full: the
// caller is refused. A slot that has come free meanwhile is given at once, also without
// a queue. In any case w is woken when [Bulkhead.Granted] has an answer, perhaps before
// Join returns. With a nil w the caller has to ask by itself.
//
// The wait ends when Granted says so, or with [Bulkhead.Leave]. One of the two must be
// called, or a slot may be lost.
func (b *Bulkhead) Join(w Waker, p Priority, tenant string) (*Waiter, bool) {
	var wake wakeList
	b.mu.Lock()
	b.spread.close(&b.word)
	me := b.join(w, p, tenant, &wake)
	b.mu.Unlock()
	wake.run()
	return me, me != nil
}

// Granted says what has become of a wait. A slot is handed over once: later calls
// answer Gone.
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

// Leave ends a wait. It reports true when a slot had been handed over meanwhile: the
// slot is then the caller's, to use or to release.
func (b *Bulkhead) Leave(w *Waiter) (Slot, bool) {
	if w == nil {
		return Slot{}, false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if Answer(w.state.Load()) != Waiting {
		return w.collect()
	}
	b.dequeue(w, Gone)
	return Slot{}, false
}

// collect takes the slot of a granted wait, once.
func (w *Waiter) collect() (Slot, bool) {
	if w.state.CompareAndSwap(uint32(Granted), uint32(Gone)) {
		return Slot{w.tenant}, true
	}
	return Slot{}, false
}

// join is Join under the lock. It returns nil when the queue is full.
func (b *Bulkhead) join(w Waker, p Priority, name string, wake *wakeList) *Waiter {
	b.handOver(wake) // a release may have changed the word and not handed over yet
	free := b.take(name)
	if !free && !b.place(name, class(p), wake) {
		return nil
	}
	b.seq++
	me := &Waiter{waker: w, tenant: b.tenant(name), seq: b.seq, class: uint8(class(p))}
	if free {
		b.grant(me, wake)
		return me
	}
	b.link(me)
	b.word.Add(uint64(oneQueued))
	b.handOver(wake) // a release before that did not see this waiter
	return me
}

// serve ends a method that has changed the word: it hands over, unlocks and wakes.
func (b *Bulkhead) serve() {
	var wake wakeList
	b.handOver(&wake)
	b.mu.Unlock()
	wake.run()
}

// handOver gives what is free to waiters. It runs under the lock after every change of
// the word that finds a waiter.
func (b *Bulkhead) handOver(wake *wakeList) {
	for {
		w := word(b.word.Load())
		if w.queued() == 0 || !w.room() || b.allCapped() {
			return
		}
		if !b.word.CompareAndSwap(uint64(w), uint64(w+oneUsed-oneQueued)) {
			continue
		}
		next := b.first()
		b.unlink(next)
		b.grant(next, wake)
	}
}

// grant gives w a slot that the word has counted already.
func (b *Bulkhead) grant(w *Waiter, wake *wakeList) {
	b.hold(w.tenant)
	w.state.Store(uint32(Granted))
	wake.add(w)
}

// dequeue takes w out of the queue without a slot.
func (b *Bulkhead) dequeue(w *Waiter, a Answer) {
	b.unlink(w)
	b.settle(w.tenant)
	b.word.Add(^uint64(oneQueued - 1)) // minus oneQueued
	w.state.Store(uint32(a))
}

// first returns the next waiter, and counts for lower classes that they were skipped.
func (b *Bulkhead) first() *Waiter {
	class := b.nextClass()
	for c := range b.skipped {
		switch {
		case c == class || b.next[c].Len() == 0:
			b.skipped[c] = 0
		case c > class:
			b.skipped[c]++
		}
	}
	return b.turn(b.next[class].tenants[0], class)
}

// turn returns which waiter of a tenant and class is served next.
func (b *Bulkhead) turn(t *tenant, class int) *Waiter {
	if b.newest {
		return t.waiters[class].tail
	}
	return t.waiters[class].head
}

// nextClass returns the class that is served next: one that was skipped too often, else
// the highest with a waiter.
func (b *Bulkhead) nextClass() int {
	best := -1
	for c := range b.next {
		if b.next[c].Len() == 0 {
			continue
		}
		if b.skipped[c] >= patience && !b.strict {
			return c
		}
		if best < 0 {
			best = c
		}
	}
	return best
}

// link puts w at the end of its tenant's waiters.
func (b *Bulkhead) link(w *Waiter) {
	t := w.tenant
	t.waiters[w.class].push(w)
	t.waiting++
	b.rank(t)
}

// unlink takes w out of its tenant's waiters. The caller settles the tenant.
func (b *Bulkhead) unlink(w *Waiter) {
	t := w.tenant
	t.waiters[w.class].remove(w)
	t.waiting--
}

// fifo is the waiters of one tenant and class, in the order of arrival.
type fifo struct{ head, tail *Waiter }

func (q *fifo) push(w *Waiter) {
	w.prev = q.tail
	if q.tail == nil {
		q.head = w
	} else {
		q.tail.next = w
	}
	q.tail = w
}

func (q *fifo) remove(w *Waiter) {
	if w.prev == nil {
		q.head = w.next
	} else {
		w.prev.next = w.next
	}
	if w.next == nil {
		q.tail = w.prev
	} else {
		w.next.prev = w.prev
	}
	w.prev, w.next = nil, nil
}

// wakeList is who to wake once the lock is free. It uses the links of the waiters, which
// are in no fifo any more: waking thousands allocates nothing.
type wakeList struct{ head, tail *Waiter }

func (l *wakeList) add(w *Waiter) {
	if l.tail == nil {
		l.head = w
	} else {
		l.tail.next = w
	}
	l.tail = w
}

func (l *wakeList) run() {
	for w := l.head; w != nil; {
		next := w.next
		w.next = nil // or one waiter would keep all later ones in memory
		if w.waker != nil {
			w.waker.Wake()
		}
		w = next
	}
}
