package machine

import (
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gabion-go/gabion/internal/breaker"
	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/internal/latency"
	"github.com/gabion-go/gabion/internal/quota"
	"github.com/gabion-go/gabion/internal/terms"
)

// partition is what is known of one part of a dependency: a host, a tenant, an
// endpoint. A dependency without partitions has one.
type partition struct {
	breaker atomic.Pointer[breaker.Breaker]
	times   atomic.Pointer[times]       // nil until a policy measures
	pacer   atomic.Pointer[pacer]       // nil until calls are first spaced
	quotas  atomic.Pointer[quota.Group] // nil until a policy has some
}

// times are how long attempts take, as far as policies have asked for it.
type times struct {
	all  *latency.Sketch // for percentiles of hedges and of the least time
	tail *latency.Tail   // for the attempt's own time
	cuts *cuts           // made when an attempt first goes past its time
}

// measure makes what r needs to know of times. What is there stays.
func (p *partition) measure(now clock.Instant, r *Rules, shards int) {
	for {
		old := p.times.Load()
		if old.has(r) {
			return
		}
		next := new(times)
		if old != nil {
			*next = *old
		}
		if r.measured && next.all == nil {
			next.all = latency.New(latencySpan, shards)
		}
		if r.timed && next.tail == nil {
			next.tail = latency.NewTail(now, shards)
		}
		if p.times.CompareAndSwap(old, next) {
			return
		}
	}
}

// has reports whether all that r needs is there.
func (t *times) has(r *Rules) bool {
	return t != nil && (!r.measured || t.all != nil) && (!r.timed || t.tail != nil)
}

// pace returns the pacer, and makes it when it is first needed.
func (p *partition) pace() *pacer {
	if old := p.pacer.Load(); old != nil {
		return old
	}
	p.pacer.CompareAndSwap(nil, new(pacer))
	return p.pacer.Load()
}

// reload gives the breaker its new rules. Whether it only observes is its state and no
// rule, and changes only if the policy has changed in that. The shared partition always
// observes.
func (p *partition) reload(now clock.Instant, old, r *Rules, name string) {
	if g := p.quotas.Load(); g != nil && !slices.Equal(old.quotas.shared, r.quotas.shared) {
		g.Reload(now, r.quotas.shared)
		if r.lease != nil {
			g.Share(now, r.partOf)
		}
	}
	b := p.breaker.Load()
	if b == nil {
		return
	}
	b.SetRules(now, r.breakerOf(name))
	if name == terms.Overflow {
		return
	}
	was, is := old.Policy.Breaker.Observe, r.Policy.Breaker.Observe
	if was == is {
		return
	}
	switch st := b.Snapshot(now); {
	case is && st.State != breaker.ForcedOpen && st.State != breaker.Disabled && st.State != breaker.ObserveOnly: // these were set by hand
		b.By("").Observe(now, clock.Never)
	case was && st.State == breaker.ObserveOnly && st.Until == clock.Never: // else a hand set it
		b.By("").Reset(now)
	}
}

// namedPartition is one that calls have named.
type namedPartition struct {
	partition
	name string
	out  atomic.Int32 // calls that are counted in it; below zero once it is evicted
	used atomic.Int64 // when it was last used
}

// evicted is added to the calls of a partition that is to be evicted. There are never
// so many calls.
const evicted = math.MinInt32 / 2

// enter counts one more call, unless the partition is evicted.
func (p *namedPartition) enter() bool {
	if p.out.Add(1) > 0 {
		return true
	}
	p.out.Add(-1)
	return false
}

// evict reports whether the partition was idle, and lets no call in any more if so. It
// looks only when no call is in it and none can come.
func (p *namedPartition) evict(now clock.Instant, r *Rules) bool {
	if !p.out.CompareAndSwap(0, evicted) {
		return false
	}
	if !p.idle(now, r) {
		p.out.Add(-evicted)
		return false
	}
	return true
}

// partitions are those that calls of one dependency have named. Their number is bounded:
// idle ones are evicted, and those past the bound share one.
type partitions struct {
	spilled atomic.Int64 // calls that found no partition of their own

	// cache is where most calls find theirs without the lock, whose cache line all
	// processors would write. Names share its places: the newest has it.
	cache [64]atomic.Pointer[namedPartition]

	mu       sync.RWMutex // guards all below
	byName   map[string]*namedPartition
	order    []*namedPartition // the same in the order in which idle ones are looked for
	next     int               // the next of order to look at
	overflow *namedPartition   // the one that those past the bound share
}

// cached is where the partition of that name may be found.
func (ps *partitions) cached(name string) *atomic.Pointer[namedPartition] {
	const odd = 0x9e3779b97f4a7c15 // 2^64 divided by the golden ratio
	h := uint64(len(name))
	for ; len(name) >= 8; name = name[8:] {
		h = (h ^ eight(name)) * odd
		h ^= h >> 32
	}
	for i := range len(name) {
		h = (h ^ uint64(name[i])) * odd
	}
	return &ps.cache[h>>32%uint64(len(ps.cache))]
}

// eight is the first eight letters, in one load where the processor can.
func eight(s string) uint64 {
	_ = s[7]
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
		uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
}

// find returns the partition of that name, and counts the call in it.
func (ps *partitions) find(now clock.Instant, name string) *namedPartition {
	cached := ps.cached(name)
	if p := cached.Load(); p != nil && p.name == name && p.enter() {
		return p
	}
	ps.mu.RLock()
	defer ps.mu.RUnlock()
	p := ps.byName[name]
	if p == nil {
		return nil
	}
	p.out.Add(1)
	if old := cached.Load(); old == nil || now.Sub(clock.Instant(old.used.Load())) > time.Second { // two busy ones don't replace each other all the time
		cached.Store(p)
	}
	return p
}

// peek returns the partition of that name; [terms.Overflow] is that of the shared one.
func (ps *partitions) peek(name string) *namedPartition {
	ps.mu.RLock()
	defer ps.mu.RUnlock()
	if name == terms.Overflow {
		return ps.overflow
	}
	return ps.byName[name]
}

// enter returns the partition of that name, and counts the call in it. It makes the
// partition if there is room.
func (ps *partitions) enter(s *State, r *Rules, now clock.Instant, name string) *namedPartition {
	if p := ps.find(now, name); p != nil {
		return p
	}
	ps.mu.Lock()
	defer ps.mu.Unlock()
	p := ps.byName[name]
	if p == nil {
		p = ps.add(s, r, now, name)
	}
	p.out.Add(1)
	return p
}

// add makes a partition, or picks the shared one when the bound is reached and none of
// the others is idle.
func (ps *partitions) add(s *State, r *Rules, now clock.Instant, name string) *namedPartition {
	if len(ps.byName) >= r.Policy.Partitions.Max && !ps.evict(now, r) {
		ps.spilled.Add(1)
		if ps.overflow == nil {
			ps.overflow = s.newPartition(now, terms.Overflow)
		}
		return ps.overflow
	}
	p := s.newPartition(now, name)
	if ps.byName == nil {
		ps.byName = make(map[string]*namedPartition)
	}
	ps.byName[name] = p
	ps.order = append(ps.order, p)
	return p
}

// evictScan bounds how many partitions one call looks at for an idle one: a full table
// must not make every call look at a thousand of them.
const evictScan = 32

// evict removes idle partitions among the next few of the order, and starts again at
// its end, so that the same script evicts the same ones twice. One that has calls, or
// whose breaker is not closed, or whose calls are spaced, stays: without what is known
// of it, calls would go to something that is known to be broken.
func (ps *partitions) evict(now clock.Instant, r *Rules) (room bool) {
	for range min(evictScan, len(ps.order)) {
		ps.next %= len(ps.order)
		p := ps.order[ps.next]
		if !p.evict(now, r) {
			ps.next++
			continue
		}
		room = true
		delete(ps.byName, p.name)
		ps.cached(p.name).CompareAndSwap(p, nil)
		last := len(ps.order) - 1
		ps.order[ps.next] = ps.order[last]
		ps.order[last] = nil
		if ps.order = ps.order[:last]; last == 0 {
			break
		}
	}
	return room
}

func (p *namedPartition) idle(now clock.Instant, r *Rules) bool {
	if _, held := p.pacer.Load().held(now); held {
		return false
	}
	if b := p.breaker.Load(); b != nil && !b.Idle(now) {
		return false
	}
	if g := p.quotas.Load(); g != nil && !g.Idle(now) {
		return false
	}
	return now.Sub(clock.Instant(p.used.Load())) >= r.Policy.Partitions.Idle
}

// each calls f for every partition in the order of their names, so that the same
// script runs the same way twice. The shared one comes last.
func (ps *partitions) each(f func(*namedPartition)) {
	ps.mu.RLock()
	defer ps.mu.RUnlock()
	for _, name := range slices.Sorted(maps.Keys(ps.byName)) {
		f(ps.byName[name])
	}
	if ps.overflow != nil {
		f(ps.overflow)
	}
}

// any is each in no order.
func (ps *partitions) any(f func(*namedPartition)) {
	ps.mu.RLock()
	defer ps.mu.RUnlock()
	for _, p := range ps.order {
		f(p)
	}
	if ps.overflow != nil {
		f(ps.overflow)
	}
}

func (c *Call) enterPartition(now clock.Instant, name string) {
	if c.rules.Policy.Partitions.Max <= 0 {
		return
	}
	ps := c.state.partitions()
	if ps == nil {
		ps = c.state.addPartitions()
	}
	c.named = ps.enter(c.state, c.rules, now, BoundedName(name))
	c.part = &c.named.partition
	c.state.furnishPartition(now, c.part, c.rules, c.named.name) // it may be older than the policy
}

// maxName bounds, in bytes, names that come with calls and are kept or become labels.
const maxName = 128

// BoundedName returns the name as it is kept and reported: itself, or of one longer than
// 128 bytes the first 111 or fewer, a tilde, and 16 hex digits of a hash of all of it,
// so that two long names stay two.
func BoundedName(name string) string {
	if len(name) <= maxName {
		return name
	}
	h := uint64(14695981039346656037) // FNV-1a
	for i := range len(name) {
		h = (h ^ uint64(name[i])) * 1099511628211
	}
	cut := maxName - 17
	for cut > 0 && name[cut]&0xc0 == 0x80 { // not inside a rune
		cut--
	}
	const digits = "0123456789abcdef"
	short := append(make([]byte, 0, maxName), name[:cut]...)
	short = append(short, '~')
	for shift := 60; shift >= 0; shift -= 4 {
		short = append(short, digits[h>>shift&15])
	}
	return string(short)
}

func (c *Short) leavePartition(now clock.Instant) {
	if c.named == nil {
		return
	}
	c.named.used.Store(int64(now))
	c.named.out.Add(-1)
	c.named = nil
}
