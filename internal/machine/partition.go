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
	"github.com/gabion-go/gabion/policy"
)

// partition is what is known of one part of a dependency: a host, a tenant, an
// endpoint. A dependency without partitions has one.
type partition struct {
	breaker atomic.Pointer[breaker.Breaker]
	latency atomic.Pointer[latency.Sketch]
	pacer   atomic.Pointer[pacer] // nil until the partition is first held back
}

// pace returns the pacer, and makes it when it is first needed.
func (l *partition) pace() *pacer {
	if p := l.pacer.Load(); p != nil {
		return p
	}
	l.pacer.CompareAndSwap(nil, new(pacer))
	return l.pacer.Load()
}

// reload gives the breaker its new rules. Whether it only observes is a state of
// it and not a rule, and is touched only if the policy changed its mind. The shared
// partition always observes.
func (l *partition) reload(now clock.Instant, old, r *Rules, name string) {
	b := l.breaker.Load()
	if b == nil {
		return
	}
	b.SetRules(now, &r.breaker)
	if name == policy.Overflow {
		return
	}
	was, is := old.Policy.Breaker.Observe, r.Policy.Breaker.Observe
	switch {
	case is && !was && b.State() != breaker.ForcedOpen && b.State() != breaker.Disabled: // a hand's word stands
		b.Observe(now)
	case was && !is && b.State() == breaker.ObserveOnly:
		b.Reset(now)
	}
}

// namedPartition is a partition that calls named.
type namedPartition struct {
	partition
	name string
	out  atomic.Int32 // calls in it; below zero once it is evicted
	used atomic.Int64 // when it was last used
}

// evicted is added to the calls in a partition that is to be evicted; there are never so
// many calls.
const evicted = math.MinInt32 / 2

// enter counts one more call in, unless the partition is evicted.
func (l *namedPartition) enter() bool {
	if l.out.Add(1) > 0 {
		return true
	}
	l.out.Add(-1)
	return false
}

// claim evicts the partition if nobody is in it and it is idle. It looks only when nobody
// can come in any more.
func (l *namedPartition) claim(now clock.Instant, r *Rules) bool {
	if !l.out.CompareAndSwap(0, evicted) {
		return false
	}
	if !l.idle(now, r) {
		l.out.Add(-evicted)
		return false
	}
	return true
}

// partitions are those of one dependency. Their number is bounded, and idle ones are evicted.
type partitions struct {
	spilled atomic.Int64 // calls that found no partition of their own

	// spots are where most calls find their partition without the lock, whose word all
	// processors would fight for. Each is of one of the names that share it.
	spots [64]atomic.Pointer[namedPartition]

	mu     sync.RWMutex // guards byName
	byName map[string]*namedPartition
	ring   []*namedPartition // the same, for the hand that looks for idle ones
	hand   int
	spill  *namedPartition // the one that partitions past the bound share
}

// spot is where the partition of that name may be found.
func (ls *partitions) spot(name string) *atomic.Pointer[namedPartition] {
	const odd = 0x9e3779b97f4a7c15 // 2^64 divided by the golden ratio
	h := uint64(len(name))
	for ; len(name) >= 8; name = name[8:] {
		h = (h ^ eight(name)) * odd
		h ^= h >> 32
	}
	for i := range len(name) {
		h = (h ^ uint64(name[i])) * odd
	}
	return &ls.spots[h>>32%uint64(len(ls.spots))]
}

// eight is the first eight letters, in one load where the processor can.
func eight(s string) uint64 {
	_ = s[7]
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
		uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
}

// find returns the partition of that name with the call counted in.
func (ls *partitions) find(now clock.Instant, name string) *namedPartition {
	spot := ls.spot(name)
	if l := spot.Load(); l != nil && l.name == name && l.enter() {
		return l
	}
	ls.mu.RLock()
	defer ls.mu.RUnlock()
	l := ls.byName[name]
	if l == nil {
		return nil
	}
	l.out.Add(1)
	if old := spot.Load(); old == nil || now.Sub(clock.Instant(old.used.Load())) > time.Second { // busy ones don't take turns
		spot.Store(l)
	}
	return l
}

// peek returns the partition of that name, the shared one by its own name.
func (ls *partitions) peek(name string) *namedPartition {
	ls.mu.RLock()
	defer ls.mu.RUnlock()
	if name == policy.Overflow {
		return ls.spill
	}
	return ls.byName[name]
}

// enter returns the partition of that name, making it if there is room.
func (ls *partitions) enter(s *State, r *Rules, now clock.Instant, name string) *namedPartition {
	if l := ls.find(now, name); l != nil {
		return l
	}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l := ls.byName[name]
	if l == nil {
		l = ls.add(s, r, now, name)
	}
	l.out.Add(1)
	return l
}

// add makes a partition, or picks the shared one when the bound is reached and none of
// the others is idle.
func (ls *partitions) add(s *State, r *Rules, now clock.Instant, name string) *namedPartition {
	if len(ls.byName) >= r.Policy.Breaker.Partitions && !ls.evict(now, r) {
		ls.spilled.Add(1)
		if ls.spill == nil {
			ls.spill = s.newPartition(now, policy.Overflow)
		}
		return ls.spill
	}
	l := s.newPartition(now, name)
	if ls.byName == nil {
		ls.byName = make(map[string]*namedPartition)
	}
	ls.byName[name] = l
	ls.ring = append(ls.ring, l)
	return l
}

// evictScan bounds how many partitions one call looks at for an idle one: a full table
// must not make every call walk a thousand of them.
const evictScan = 32

// evict removes idle partitions among the next few, going round as a clock's hand does,
// so that the same script evicts the same partitions twice. A partition in flight, or whose
// breaker is not closed, or that is held back, stays: forgetting it would let
// traffic through to something known to be broken.
func (ls *partitions) evict(now clock.Instant, r *Rules) (room bool) {
	for range min(evictScan, len(ls.ring)) {
		ls.hand %= len(ls.ring)
		l := ls.ring[ls.hand]
		if !l.claim(now, r) {
			ls.hand++
			continue
		}
		room = true
		delete(ls.byName, l.name)
		ls.spot(l.name).CompareAndSwap(l, nil)
		last := len(ls.ring) - 1
		ls.ring[ls.hand] = ls.ring[last]
		ls.ring[last] = nil
		if ls.ring = ls.ring[:last]; last == 0 {
			break
		}
	}
	return room
}

func (l *namedPartition) idle(now clock.Instant, r *Rules) bool {
	if _, held := l.pacer.Load().held(now); held {
		return false
	}
	if b := l.breaker.Load(); b != nil && !b.Idle() {
		return false
	}
	return now.Sub(clock.Instant(l.used.Load())) >= r.Policy.Breaker.PartitionIdle
}

// each calls f for every partition in the order of their names, so that the same
// script runs the same way twice; the shared one comes last.
func (ls *partitions) each(f func(*namedPartition)) {
	ls.mu.RLock()
	defer ls.mu.RUnlock()
	for _, name := range slices.Sorted(maps.Keys(ls.byName)) {
		f(ls.byName[name])
	}
	if ls.spill != nil {
		f(ls.spill)
	}
}

func (c *Call) enterPartition(now clock.Instant, name string) {
	if c.rules.Policy.Breaker.Partitions <= 0 {
		return
	}
	ls := c.state.partitions()
	if ls == nil {
		ls = c.state.addPartitions()
	}
	c.named = ls.enter(c.state, c.rules, now, BoundedName(name))
	c.part = &c.named.partition
	c.state.furnishPartition(now, c.part, c.rules, c.named.name) // it may be older than the policy
}

// maxName bounds, in bytes, names that come with calls and are kept or become labels.
const maxName = 128

// BoundedName returns the name as it is kept and told: itself, or of one longer than
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

func (c *Call) leavePartition(now clock.Instant) {
	if c.named == nil {
		return
	}
	c.named.used.Store(int64(now))
	c.named.out.Add(-1)
	c.named = nil
}
