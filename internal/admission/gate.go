// Package admission decides which requests a server works on now, which wait, and which
// it refuses. The server in production and the services of the lab run this code.
//
// Slots and queue are those of package bulkhead. What is added is time: how long a
// request may wait, and who is refused when more arrives than can be done. Nothing here
// reads a clock, blocks or starts a goroutine.
package admission

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gabion-go/gabion/internal/bulkhead"
	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/policy"
)

// Order says which waiter of a class is served next.
type Order uint8

// The orders.
const (
	FIFO     Order = iota // the first
	Adaptive              // the first; in an overload the last, who may still be in time
	LIFO                  // the last
)

// What Target and Interval are where nothing else is said: see docs/adr/0059-admission.md.
const (
	DefaultTarget   = 20 * time.Millisecond
	DefaultInterval = time.Second
)

// Rules are what a gate goes by.
type Rules struct {
	Limit int // requests at once
	Queue int // requests that wait
	Order Order

	// Target is how long a request may wait in an overload. Interval is how long it may
	// wait otherwise, and for how long all must have waited longer than Target until it
	// is an overload. Without an Interval no request is refused for having waited.
	Target, Interval time.Duration

	// Fair shares slots and queue among tenants, as [bulkhead.New] says.
	Fair bool

	// TenantShare is the share of slots and queue that one tenant may have at most, even if
	// all others are idle. It is at least one slot. 0 is no bound. It needs Fair.
	TenantShare float64

	// Shards is over how many counters is spread what the work takes, about as many as there are
	// processors. 0 means that it is not found out, and then all work is worth beginning.
	Shards int
}

// Slot is the right to be worked on. The zero Slot holds no slot.
type Slot = bulkhead.Slot

// Gate admits requests. Make one with [New]. All methods are safe for concurrent use.
type Gate struct {
	b     *bulkhead.Bulkhead
	state atomic.Uint32 // control.state, to be read without the lock

	mu      sync.Mutex
	rules   Rules
	control control
	waits   list
	places  int // in the queue, of one tenant at most; 0 = no bound

	worth  *worth           // nil where all work is worth beginning
	served [3]clock.Instant // when a request that had waited got a slot last, by class
}

// New returns a gate.
func New(r Rules) *Gate {
	g := &Gate{b: bulkhead.New(r.Limit, r.Queue, r.Fair), rules: r}
	g.control.target, g.control.interval = r.Target, r.Interval
	g.b.SetNewestFirst(r.Order == LIFO)
	g.b.SetStrict(true) // a wait here is bounded, so a class that never has its turn is refused
	g.boundTenants()
	for c := range g.served {
		g.served[c] = math.MinInt64
	}
	if r.Shards > 0 {
		g.worth = newWorth(r.Shards)
	}
	return g
}

func (g *Gate) boundTenants() {
	if r := &g.rules; r.Fair && r.TenantShare > 0 {
		g.places = max(int(r.TenantShare*float64(r.Queue)), 1)
		g.b.SetTenantMax(max(int(r.TenantShare*float64(r.Limit)), 1), g.places)
	}
}

// SetLimit changes how many requests are worked on at once.
func (g *Gate) SetLimit(limit int) { g.Resize(limit, -1) }

// Resize changes how many requests are worked on at once, and how many wait; a negative queue
// leaves the queue's length as it is. No request is sent away.
func (g *Gate) Resize(limit, queue int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if queue < 0 {
		queue = g.rules.Queue
	}
	if g.rules.Limit == limit && g.rules.Queue == queue {
		return
	}
	g.rules.Limit, g.rules.Queue = limit, queue
	g.boundTenants()
	g.b.Resize(limit, queue)
}

// Stats returns the numbers of one moment, and whether it is an overload.
func (g *Gate) Stats() (s policy.BulkheadStats, overloaded bool) {
	return g.b.Stats(), state(g.state.Load()) == overload
}

// Occupancy is [bulkhead.Bulkhead.Occupancy]. It takes no lock.
func (g *Gate) Occupancy() (inUse, limit, queued int) { return g.b.Occupancy() }

// Worth reports whether work is worth beginning that must be done by the deadline: whether
// enough time is left, by what the work took and by what became of others with as much time.
// Now and then it is true where too little time is left: else work that gets quicker would
// never be begun. It takes no lock.
func (g *Gate) Worth(now, deadline clock.Instant) bool {
	if g.worth == nil || deadline == clock.Never || !g.worth.lacks(now, deadline.Sub(now)) {
		return true
	}
	return g.worth.tries(now, g.room())
}

// Ended counts work that had a slot from began on, for [Gate.Worth]. It was done, or its
// caller went before it was. The deadline is that of the request. It takes no lock.
func (g *Gate) Ended(now, began, deadline clock.Instant, done bool) {
	if g.worth != nil {
		g.worth.ended(now, began, deadline, done)
	}
}

// Enter takes a slot if one is free and no waiting request may have it. The tenant matters only to
// a fair gate.
func (g *Gate) Enter(now clock.Instant, tenant string) (Slot, bool) {
	s, ok := g.b.TryAcquire(tenant, 0)
	if ok && g.state.Load() != 0 {
		g.mu.Lock()
		g.control.arrived(now, true)
		g.setState()
		g.mu.Unlock()
	}
	return s, ok
}

// Release gives a slot back, and hands it to the next waiter. In an overload those who
// have waited for too long are refused then, and not before: so the slot goes to whose
// turn it is, and none is free while anybody waits.
func (g *Gate) Release(now clock.Instant, s Slot) {
	queued := g.b.Queued()
	g.b.Release(s, 0)
	if queued == 0 || g.rules.Interval <= 0 {
		return
	}
	var refused list
	g.mu.Lock()
	if g.waitsLong(now) {
		g.late(now)
		g.shed(now, &refused)
	}
	g.mu.Unlock()
	refused.wake()
}

// waitsLong reports whether the first request in the queue has waited for the target or longer.
// g.mu is held.
func (g *Gate) waitsLong(now clock.Instant) bool {
	return g.waits.head != nil && now.Sub(g.waits.head.came) >= g.rules.Target
}

// late tells the control that a request waits or has waited for long, unless only its tenant's
// bound holds it up. g.mu is held.
func (g *Gate) late(now clock.Instant) {
	if g.room() {
		g.control.calm()
	} else {
		g.control.late(now)
	}
	g.setState()
}

// room reports whether a slot is free, which those who wait may not have.
func (g *Gate) room() bool {
	used, limit, _ := g.b.Occupancy()
	return used < limit
}

// Lacks reports whether a request was refused because no slot was free at one moment, for a limit
// that is learned. Where there is a queue, who is refused shows no such moment: all slots were
// in use for long, which the limit sees by itself.
func (g *Gate) Lacks(a Answer) bool {
	if a != QueueFull || g.room() {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.rules.Queue <= 0
}

// setState puts in force what the control was told. g.mu is held.
func (g *Gate) setState() {
	is, was := g.control.state, state(g.state.Load())
	if is == was {
		return
	}
	g.state.Store(uint32(is))
	if g.rules.Order == Adaptive && (is == overload) != (was == overload) {
		g.b.SetNewestFirst(is == overload)
	}
}

// What a learned limit begins with and stays within, where nothing else is said.
const (
	UsualLimit = 100
	MostLimit  = 1000
)

// QueueFor is how many may wait where nothing else is said: twice the limit, and 128 at
// least. With a short queue before few workers a server at nine tenths of what it can do
// would refuse requests that it can do.
func QueueFor(limit int) int { return max(2*limit, 128) }
