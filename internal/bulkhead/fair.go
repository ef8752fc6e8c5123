package bulkhead

import (
	"cmp"
	"container/heap"
	"slices"
)

// tenant is what one tenant holds and who waits in its name. A slot points to
// it, so an entry lives as long as it holds or waits, and no longer.
type tenant struct {
	source  source // of its slots
	name    string
	held    int // slots in use
	waiting int
	lines   [numClasses]line
	at      [numClasses + 1]int // its place in each ranking, plus one; zero is not in it
	next    *tenant             // among the spares
}

// maxSpares bounds the entries kept for use again. They save the allocation
// when tenants come and go, and a hundred or so cover what comes and goes
// between two calls; more would be memory for nothing.
const maxSpares = 128

// tryFair is TryAcquire of a fair bulkhead: what each tenant holds is counted.
func (b *Bulkhead) tryFair(name string) (Slot, bool) {
	b.lock()
	defer b.mu.Unlock()
	if _, ok := b.takeFromWord(); !ok {
		return Slot{}, false
	}
	t := b.tenant(name)
	b.hold(t)
	return Slot{&t.source}, true
}

// releaseFair is Release of a slot that belongs to a tenant.
func (b *Bulkhead) releaseFair(t *tenant) {
	b.lock()
	if t.held == 0 {
		b.mu.Unlock()
		panic(overdrawn)
	}
	t.held--
	b.settle(t)
	b.word.Add(^uint64(oneUsed - 1)) // minus oneUsed
	b.serve()
}

// tenant returns the entry that somebody new counts for. The caller gives it
// something to hold or to wait for.
func (b *Bulkhead) tenant(name string) *tenant {
	if !b.fair {
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
		t = new(tenant)
		t.source.tenant = t
		return t
	}
	b.spare, t.next = t.next, nil
	b.spares--
	return t
}

// hold counts a slot for t. Slots of everyone are counted in the word alone, so
// that they need no lock.
func (b *Bulkhead) hold(t *tenant) {
	if t != &b.everyone {
		t.held++
	}
	b.settle(t)
}

// settle follows a change of t: its ranks, and whether it is still there.
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

// rank puts t where it now belongs. Everyone has no place in the crowd.
func (b *Bulkhead) rank(t *tenant) {
	for c := range b.turns {
		if in := t.lines[c].head != nil; in || t.at[c] != 0 {
			b.turns[c].place(t, in)
		}
	}
	if t != &b.everyone {
		b.crowd.place(t, t.waiting > 0)
	}
}

// pushOut makes room in a full queue for a joiner of a tenant that has fewer
// waiting than another. Nobody is pushed out by a lower class than his own.
func (b *Bulkhead) pushOut(name string, class int, told *chain) bool {
	if !b.fair || b.crowd.Len() == 0 {
		return false
	}
	waiting := 0
	if t := b.tenants[name]; t != nil {
		waiting = t.waiting
	}
	most := b.crowd.tenants[0]
	out := most.newest()
	if waiting >= most.waiting || int(out.class) < class {
		return false
	}
	b.dequeue(out, PushedOut)
	told.add(out)
	return true
}

// newest returns who of t is pushed out first: the last to come of its lowest
// class.
func (t *tenant) newest() *Waiter {
	for c := numClasses - 1; c >= 0; c-- {
		if w := t.lines[c].tail; w != nil {
			return w
		}
	}
	return nil
}

// merge lets everybody queue in the order of arrival.
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
	for _, l := range t.lines {
		for w := l.head; w != nil; w = w.next {
			all = append(all, w)
		}
	}
	return all
}

// turnBefore orders tenants by whose turn it is in class c: fewest slots in use,
// then first come.
func turnBefore(c int) func(t, u *tenant) bool {
	return func(t, u *tenant) bool {
		if t.held != u.held {
			return t.held < u.held
		}
		return t.lines[c].head.seq < u.lines[c].head.seq
	}
}

// moreCrowded orders tenants by who has to give up a place: most waiting, then
// lowest class, then last come.
func moreCrowded(t, u *tenant) bool {
	if t.waiting != u.waiting {
		return t.waiting > u.waiting
	}
	v, w := t.newest(), u.newest()
	if v.class != w.class {
		return v.class > w.class
	}
	return v.seq > w.seq
}

// ranking is a heap of tenants that knows where each of them is, so that a free
// slot costs the logarithm of the tenants and not their number.
type ranking struct {
	id      int
	less    func(t, u *tenant) bool
	tenants []*tenant
}

// place puts t in or out, or where it belongs after a change.
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
