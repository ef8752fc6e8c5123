package quota

import (
	"slices"

	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/internal/terms"
)

// line is who waits, in the order in which they go: by priority, and then by start-time fair queueing
// (Goyal, Vin and Cheng, 1996) among tenants. A call costs its tenant the largest share of any quota that it needs.
//
// The first of those that need a quota goes first, however much it needs: small ones don't overtake it
// for ever, and as it needs no more than there is in all, it waits a span at most once it is first.
type line struct {
	waiting []*Reservation
	now     float64 // virtual time: the start of what was taken last
	tenants map[string]turn
	joined  uint64
}

// turn is where a tenant is in virtual time.
type turn struct {
	finished float64 // when what it has asked for is over
	used     float64 // when what it got is over
	waiting  int     // of its calls
}

const (
	mostWaiting = 10_000 // a call past that is refused: joining looks at those ahead
	mostTenants = 1_000  // whose turn is remembered
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

// blocks reports whether one that goes before r needs one of the scarce quotas that r needs too.
func (n *line) blocks(r *Reservation, scarce uint8) bool {
	for _, other := range n.waiting {
		if other == r {
			return false
		}
		if other.mask&r.mask&scarce != 0 {
			return true
		}
	}
	return false
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
	r.start, r.number = max(n.now, n.tenants[r.tenant].finished), n.joined
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

// charge moves the tenant's turn by what r costs.
func (n *line) charge(r *Reservation) {
	r.costs = 0
	for i := range r.parts {
		r.costs = max(r.costs, r.parts[i].want/r.parts[i].level.amount())
	}
	if n.tenants == nil {
		n.tenants = make(map[string]turn)
	}
	if len(n.tenants) >= mostTenants {
		for name, t := range n.tenants {
			if t.finished <= n.now && t.waiting == 0 {
				delete(n.tenants, name)
			}
		}
	}
	t, known := n.tenants[r.tenant]
	if r.charged = known || len(n.tenants) < mostTenants; r.charged {
		t.finished = r.start + r.costs
		t.waiting++
		n.tenants[r.tenant] = t
	}
}

// took takes r out of the line, as it goes.
func (n *line) took(r *Reservation) {
	if r.state != waits {
		if len(n.waiting) == 0 {
			n.tenants = nil // all are even
		}
		return
	}
	n.now = max(n.now, r.start)
	if r.charged {
		t := n.tenants[r.tenant]
		t.used = max(t.used, r.start+r.costs)
		n.tenants[r.tenant] = t
	}
	n.leave(r)
}

// leave takes r out of the line. A tenant of which nothing waits any more has had what it got, and not what it
// asked for in vain.
func (n *line) leave(r *Reservation) {
	if r.state != waits {
		return
	}
	if i, found := slices.BinarySearchFunc(n.waiting, r, compare); found {
		n.waiting = slices.Delete(n.waiting, i, i+1)
	}
	if r.charged {
		t := n.tenants[r.tenant]
		if t.waiting--; t.waiting == 0 {
			t.finished = t.used
		}
		n.tenants[r.tenant] = t
		r.charged = false
	}
	r.state = idle
}

// wakes are those that are to ask again. There are no more firsts than quotas.
type wakes struct {
	n    int
	list [terms.MaxQuotas]Waker
}

func (w *wakes) wake() {
	for _, one := range w.list[:w.n] {
		one.Wake()
	}
}

// firsts returns those that go first in some quota, if anything has changed for them.
func (g *Group) firsts(now clock.Instant, changed bool) (w wakes) {
	if !changed || len(g.line.waiting) == 0 {
		return w
	}
	var needed, scarce uint8 = 0, g.scarce(now, nil)
	for _, r := range g.line.waiting {
		if r.mask&needed == 0 && r.waker != nil && w.n < len(w.list) {
			w.list[w.n] = r.waker
			w.n++
		}
		if needed |= r.mask & scarce; w.n == len(w.list) {
			break
		}
	}
	return w
}
