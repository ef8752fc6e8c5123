package quota

import (
	"slices"

	"github.com/gabion-go/gabion/policy"
)

// line is who waits, in the order in which they go: by priority, and then by start-time fair queueing
// (Goyal, Vin and Cheng, 1996) among tenants. A call costs its tenant the largest share of any quota that it needs.
//
// The first of those that need a quota goes first, however much it needs: small ones don't overtake it
// for ever, and as it needs no more than there is in all, it waits a span at most once it is first.
type line struct {
	waiting  []*Reservation
	now      float64            // virtual time: the start of what was taken last
	finished map[string]float64 // by tenant: when what it has asked for is over in virtual time
	joined   uint64
}

const (
	mostWaiting = 10_000 // a call past that is refused: joining looks at those ahead
	mostTenants = 1_000  // whose finish is remembered
)

// compare orders two that wait.
func compare(a, b *Reservation) int {
	switch {
	case a.priority != b.priority:
		return int(b.priority) - int(a.priority)
	case a.start < b.start:
		return -1
	case a.start > b.start:
		return 1
	case a.number < b.number:
		return -1
	case a.number > b.number:
		return 1
	}
	return 0
}

// blocks reports whether one that waits needs a quota that r needs too.
func (n *line) blocks(r *Reservation) bool {
	for _, other := range n.waiting {
		if other.mask&r.mask != 0 {
			return true
		}
	}
	return false
}

// first reports whether none that goes before r needs a quota that r needs too.
func (n *line) first(r *Reservation) bool {
	for _, other := range n.waiting {
		if other == r {
			return true
		}
		if other.mask&r.mask != 0 {
			return false
		}
	}
	return true
}

// before returns those that go before r, which may not wait yet.
func (n *line) before(r *Reservation) []*Reservation {
	if r.state == idle {
		n.place(r)
	}
	i, _ := slices.BinarySearchFunc(n.waiting, r, compare)
	return n.waiting[:i]
}

// place gives r its place in the order.
func (n *line) place(r *Reservation) {
	r.start, r.number = max(n.now, n.finished[r.tenant]), n.joined
	n.joined++
}

func (n *line) join(r *Reservation) bool {
	if len(n.waiting) >= mostWaiting {
		return false
	}
	n.place(r)
	r.state = waits
	n.insert(r)
	n.charge(r)
	return true
}

func (n *line) insert(r *Reservation) {
	i, _ := slices.BinarySearchFunc(n.waiting, r, compare)
	n.waiting = slices.Insert(n.waiting, i, r)
}

// charge moves the tenant's finish by what r costs.
func (n *line) charge(r *Reservation) {
	cost := 0.0
	for i := range r.parts {
		cost = max(cost, r.parts[i].want/r.parts[i].level.amount())
	}
	if n.finished == nil {
		n.finished = make(map[string]float64)
	}
	if len(n.finished) >= mostTenants {
		for name, at := range n.finished {
			if at <= n.now {
				delete(n.finished, name)
			}
		}
	}
	if _, known := n.finished[r.tenant]; known || len(n.finished) < mostTenants {
		n.finished[r.tenant] = r.start + cost
	}
}

// took takes r out of the line, as it goes.
func (n *line) took(r *Reservation) {
	if r.state != waits {
		if len(n.waiting) == 0 {
			n.finished = nil // all are even
		}
		return
	}
	n.now = max(n.now, r.start)
	n.leave(r)
}

func (n *line) leave(r *Reservation) {
	if r.state != waits {
		return
	}
	if i, found := slices.BinarySearchFunc(n.waiting, r, compare); found {
		n.waiting = slices.Delete(n.waiting, i, i+1)
	}
	r.state = idle
}

// wakes are those that are to ask again. There are no more firsts than quotas.
type wakes struct {
	n    int
	list [policy.MaxQuotas]Waker
}

func (w *wakes) wake() {
	for _, one := range w.list[:w.n] {
		one.Wake()
	}
}

// firsts returns those that go first in some quota, if anything has changed for them.
func (g *Group) firsts(changed bool) (w wakes) {
	if !changed || len(g.line.waiting) == 0 {
		return w
	}
	var needed, all uint8 = 0, 1<<len(g.levels) - 1
	for _, r := range g.line.waiting {
		if r.mask&needed == 0 && r.waker != nil && w.n < len(w.list) {
			w.list[w.n] = r.waker
			w.n++
		}
		if needed |= r.mask; needed == all {
			break
		}
	}
	return w
}
