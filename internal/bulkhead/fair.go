package bulkhead

import (
	"cmp"
	"container/heap"
	"slices"
)

// tenant is what one tenant holds and who waits for it. Its entry in the table lives as
// long as it holds or waits.
type tenant struct {
	name    string
	held    int // slots in use
	waiting int
	waiters [numClasses]fifo
	at      [numClasses + 1]int // its place in each ranking, plus one; 0 if it is not in it
	next    *tenant             // among the spares
}

// maxSpares is how many entries are kept for use again, so that tenants that come and go
// cost no allocation.
const maxSpares = 128

// tryFair is TryAcquire of a fair bulkhead. It counts what each tenant holds.
func (b *Bulkhead) tryFair(name string) (Slot, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.take(name) {
		return Slot{}, false
	}
	t := b.tenant(name)
	b.hold(t)
	return Slot{t}, true
}

// releaseFair is Release of a slot of a tenant, or of none.
func (b *Bulkhead) releaseFair(t *tenant) {
	if t == nil {
		return
	}
	b.mu.Lock()
	if t.held == 0 {
		b.mu.Unlock()
		panic(overdrawn)
	}
	t.held--
	b.settle(t)
	b.word.Add(^uint64(oneUsed - 1)) // minus oneUsed
	b.serve()
}

// tenant returns the entry for a new slot or waiter. The caller adds either.
func (b *Bulkhead) tenant(name string) *tenant {
	if !b.fair() {
		return &b.everyone
	}
	t := b.tenants[name]
	if t == nil {
		t = b.entry()
		t.name = name
		b.tenants[name] = t
	}
	return t
}

// entry returns an empty tenant, a used one if there is any.
func (b *Bulkhead) entry() *tenant {
	t := b.spare
	if t == nil {
		return new(tenant)
	}
	b.spare, t.next = t.next, nil
	b.spares--
	return t
}

// hold counts a slot for t. Those of everyone are counted in the word only: they are
// taken and given back without the lock.
func (b *Bulkhead) hold(t *tenant) {
	if t != &b.everyone {
		t.held++
	}
	b.settle(t)
}

// settle updates the rankings after a change of t, and drops it when it neither holds
// nor waits.
func (b *Bulkhead) settle(t *tenant) {
	b.rank(t)
	if t == &b.everyone || t.held > 0 || t.waiting > 0 {
		return
	}
	delete(b.tenants, t.name)
	t.name = ""
	if b.spares < maxSpares {
		b.spare, t.next = t, b.spare
		b.spares++
	}
}

// rank moves t to its place in the rankings. A tenant that holds all that it may is not
// served. Everyone is not in mostWaiting: its waiters are not pushed out.
func (b *Bulkhead) rank(t *tenant) {
	capped := b.capped(t)
	for c := range b.next {
		if in := t.waiters[c].head != nil && !capped; in || t.at[c] != 0 {
			b.next[c].place(t, in)
		}
	}
	if t != &b.everyone {
		b.mostWaiting.place(t, t.waiting > 0)
	}
}

// pushOut makes room in a full queue for a waiter of a tenant that has fewer waiting
// than another. No waiter is pushed out by one of a lower class.
func (b *Bulkhead) pushOut(name string, class int, wake *wakeList) bool {
	if !b.fair() || b.mostWaiting.Len() == 0 {
		return false
	}
	waiting := 0
	if t := b.tenants[name]; t != nil {
		waiting = t.waiting
	}
	most := b.mostWaiting.tenants[0]
	out := most.newest()
	if waiting >= most.waiting || int(out.class) < class {
		return false
	}
	b.dequeue(out, PushedOut)
	wake.add(out)
	return true
}

// newest returns the waiter of t that is pushed out first: the last one of its lowest
// class.
func (t *tenant) newest() *Waiter {
	for c := numClasses - 1; c >= 0; c-- {
		if w := t.waiters[c].tail; w != nil {
			return w
		}
	}
	return nil
}

// merge makes all waiters wait in the order of arrival.
func (b *Bulkhead) merge() {
	var all []*Waiter
	for _, t := range b.tenants {
		all = t.appendWaiters(all)
	}
	all = b.everyone.appendWaiters(all)
	for _, w := range all {
		b.unlink(w)
		b.settle(w.tenant)
	}
	slices.SortFunc(all, func(v, w *Waiter) int { return cmp.Compare(v.seq, w.seq) })
	for _, w := range all {
		w.tenant = &b.everyone
		b.link(w)
	}
}

func (t *tenant) appendWaiters(all []*Waiter) []*Waiter {
	for _, q := range t.waiters {
		for w := q.head; w != nil; w = w.next {
			all = append(all, w)
		}
	}
	return all
}

// nextBefore orders tenants by who is served next in class c: fewest slots in use, then
// first come; last come where the newest goes first.
func (b *Bulkhead) nextBefore(c int) func(t, u *tenant) bool {
	return func(t, u *tenant) bool {
		if t.held != u.held {
			return t.held < u.held
		}
		v, w := b.turn(t, c), b.turn(u, c)
		return v.seq < w.seq != b.newest
	}
}

// moreWaiting orders tenants by who has to give up a place in the queue: most waiting,
// then lowest class, then last come.
func moreWaiting(t, u *tenant) bool {
	if t.waiting != u.waiting {
		return t.waiting > u.waiting
	}
	v, w := t.newest(), u.newest()
	if v.class != w.class {
		return v.class > w.class
	}
	return v.seq > w.seq
}

// ranking is a heap of tenants in which each knows its place. A free slot costs the
// logarithm of the number of tenants.
type ranking struct {
	id      int
	less    func(t, u *tenant) bool
	tenants []*tenant
}

// place adds t, removes it, or moves it after a change.
func (r *ranking) place(t *tenant, in bool) {
	at := t.at[r.id]
	switch {
	case in && at == 0:
		heap.Push(r, t)
	case in && len(r.tenants) > 1:
		heap.Fix(r, at-1)
	case !in && at != 0:
		heap.Remove(r, at-1)
	}
}

// Len, Less, Swap, Push and Pop are what container/heap asks for.
func (r *ranking) Len() int           { return len(r.tenants) }
func (r *ranking) Less(i, j int) bool { return r.less(r.tenants[i], r.tenants[j]) }

func (r *ranking) Swap(i, j int) {
	ts := r.tenants
	ts[i], ts[j] = ts[j], ts[i]
	ts[i].at[r.id], ts[j].at[r.id] = i+1, j+1
}

func (r *ranking) Push(x any) {
	t := x.(*tenant)
	r.tenants = append(r.tenants, t)
	t.at[r.id] = len(r.tenants)
}

func (r *ranking) Pop() any {
	last := len(r.tenants) - 1
	t := r.tenants[last]
	r.tenants[last] = nil
	r.tenants = r.tenants[:last]
	t.at[r.id] = 0
	return t
}
