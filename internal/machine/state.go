package machine

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/gabion-go/gabion/internal/breaker"
	"github.com/gabion-go/gabion/internal/budget"
	"github.com/gabion-go/gabion/internal/bulkhead"
	"github.com/gabion-go/gabion/internal/chance"
	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/internal/learned"
	"github.com/gabion-go/gabion/internal/ratelimit"
	"github.com/gabion-go/gabion/internal/terms"
	"github.com/gabion-go/gabion/internal/throttle"
	"github.com/gabion-go/gabion/policy"
)

// State is what all calls of one dependency share. It is safe for concurrent use.
// A part is made when a policy first asks for it, and keeps what it knows when the
// policy changes. Every call passes the rules of the policy that it began with.
type State struct {
	rules  atomic.Pointer[Rules]
	main   partition     // of calls that name no partition
	earned budget.Earned // made when a policy first has one
	more   atomic.Pointer[parts]
	draws  atomic.Uint64 // number of the last call that drew; starts at the seed
	shards uint16
	funded bool          // earned is made; written before the rules that need it
	flags  atomic.Uint32 // retriesAreOff, and above it how often the budget was emptied by a reload
}

// Setup is what a State needs besides its policy.
type Setup struct {
	// Shards is over how many cache lines counters are spread; it is rounded up to
	// a power of two. Zero means 1, which is right where calls don't run at once.
	Shards int

	// Seed names the stream of this dependency's draws.
	Seed uint64

	// Events makes place for what happens to the dependency, for Deliver. It is kept
	// from the start; Listen changes that.
	Events bool

	// Totals counts calls and takes the time of attempts for Stats.
	Totals bool

	// Kill is a switch that turns all retries off while it is true, shared by any
	// number of States. Nil means none.
	Kill *atomic.Bool

	// Parent is a State whose retries, once switched off, switch off this one's too.
	// Nil means none. Younger is how much later than the parent's the instants of this
	// State begin.
	Parent  *State
	Younger time.Duration
}

// NewState makes the shared state of a dependency.
func NewState(now clock.Instant, r *Rules, setup Setup) *State {
	s := &State{shards: uint16(min(max(setup.Shards, 1), maxShards))}
	s.draws.Store(chance.Bits(setup.Seed, 0, 0, 0) | 1)
	if setup.Events || setup.Totals || setup.Kill != nil || setup.Parent != nil {
		p := &parts{kill: setup.Kill, parent: setup.Parent, younger: setup.Younger}
		if setup.Events {
			p.box = new(eventQueue)
			p.box.listening.Store(true)
		}
		if setup.Totals {
			p.totals = newTotals(int(s.shards))
		}
		s.more.Store(p)
	}
	s.flags.Store(spending) // what a new process has is looked at
	s.furnish(now, r)
	s.rules.Store(r)
	return s
}

// reloading is held by a reload, of whatever State. Reloads are rare, so one lock for
// all States is better than eight bytes in each.
var reloading sync.Mutex

// maxShards bounds the spread of counters; more processors share.
const maxShards = 256

// Reload puts another policy in force. Calls under way end on the policy that
// they began with. Breakers, budget, bulkhead and all other parts keep what they know.
func (s *State) Reload(now clock.Instant, r *Rules) {
	reloadLocked(s, now, r).wake()
}

func reloadLocked(s *State, now clock.Instant, r *Rules) (late *turnLine) {
	reloading.Lock()
	defer reloading.Unlock()
	if p := s.part(); p != nil && p.followed != nil {
		r = r.with(*p.followed)
	}
	return reload(s, now, r)
}

// reload is called under reloading, and returns who has to be woken after that.
func reload(s *State, now clock.Instant, r *Rules) (late *turnLine) {
	shared := leaseOf(s) != nil || s.rules.Load().base != nil
	if shared {
		r = r.Own().under(now, leaseOf(s))
	}
	s.furnish(now, r)
	old := s.rules.Load()
	if shared {
		swap(s, now, r)
	} else {
		s.rules.Store(r)
	}
	s.eachPartition(func(p *partition, name string) {
		s.furnishPartition(now, p, r, name)
		p.reload(now, old, r, name)
	})
	if l := s.limiter(); l != nil && old.rate != r.rate && !shared {
		l.Reset() // turns of a slower limit may lie far ahead
	}
	s.resize(now, old, r) // last, because it wakes those who wait
	if shared {
		late = r.late(old)
	}
	s.note(policy.Event{Kind: policy.KindReloaded, At: now})
	return late
}

// resize gives the bulkhead its new bounds. Where there is no bulkhead any more, those
// who queue under the old policy are let in.
func (s *State) resize(now clock.Instant, old, r *Rules) {
	b := s.bulkhead()
	if b == nil {
		return
	}
	was := b.Stats().Limit
	limit, queue := bulkhead.Off, 0
	if r.bulkhead {
		limit, queue = s.slots(r)
		b.SetFair(r.Policy.Bulkhead.Fair)
	}
	b.Resize(limit, queue)
	if old.bulkhead != r.bulkhead || old.Policy.Bulkhead.Limit != r.Policy.Bulkhead.Limit || limit != was {
		s.note(policy.Event{Kind: policy.KindLimitMoved, At: now, Count: int64(limit)})
	}
}

// furnish makes the parts that r needs and that are not there yet.
func (s *State) furnish(now clock.Instant, r *Rules) {
	old := s.rules.Load()
	if r.earns && !s.funded {
		s.earned = budget.MakeEarned(r.earned, int(s.shards))
		s.funded = true
	}
	if r.parts {
		s.addParts(now, r, old)
	}
	if w := s.window(); r.windowed && w.Span() != r.Policy.Retry.Budget.Window {
		w.Resize(now, r.Policy.Retry.Budget.Window)
		s.flags.Add(nextEpoch) // earlier reservations are not refunded into it
	}
	furnishPlaces(s, now, r)
	s.furnishPartition(now, &s.main, r, "")
}

func (s *State) addParts(now clock.Instant, r, old *Rules) {
	p := &r.Policy
	s.extend(func(next *parts) {
		if r.limit != nil && next.learned == nil {
			next.learned = learned.New(now, r.limit(), int(s.shards))
			next.learned.Watch(func() int { return next.bulkhead.Stats().InUse })
		}
		if b := p.Bulkhead; r.bulkhead && next.bulkhead == nil {
			limit, queue := r.slots(next.learned)
			next.bulkhead = bulkhead.New(limit, queue, b.Fair)
		}
		if r.windowed && next.window == nil {
			w := budget.MakeWindow(p.Retry.Budget.Window, int(s.shards))
			next.window = &w
		}
		if r.bucket && next.tokens == nil {
			next.tokens = new(budget.Bucket)
		}
		if r.shares && next.share == nil {
			b := budget.MakeShare(int(s.shards))
			next.share = &b
		}
		if r.rate.Interval > 0 && next.limiter == nil {
			next.limiter = new(ratelimit.Limiter)
		}
		if p.Throttle.K > 0 && (next.throttle == nil || old.Policy.Throttle.Window != p.Throttle.Window) {
			t := throttle.Make(p.Throttle.Window)
			next.throttle = &t
		}
	})
}

// extend adds parts to those that are there. A State whose rules need none has none.
func (s *State) extend(f func(*parts)) {
	for {
		old := s.more.Load()
		var before parts
		if old != nil {
			before = *old
		}
		next := before
		f(&next)
		if next == before || s.more.CompareAndSwap(old, &next) {
			return
		}
	}
}

// addPartitions makes the table of partitions when the first call names one.
func (s *State) addPartitions() *partitions {
	s.extend(func(next *parts) {
		if next.partitions == nil {
			next.partitions = new(partitions)
		}
	})
	return s.partitions()
}

// latencySpan is how far back a percentile of latency looks: long enough for a hundred
// samples of a quiet dependency, short enough to notice soon that it became slow.
const latencySpan = time.Minute

// furnishPartition gives a partition the parts that r needs.
func (s *State) furnishPartition(now clock.Instant, p *partition, r *Rules, name string) {
	if r.guarded && p.breaker.Load() == nil {
		rules := r.breakerOf(name)
		b := breaker.New(rules, int(s.shards), s.draws.Add(1), s.breakerLog(name))
		if rules.Observe {
			b.By("").Observe(now, clock.Never)
		}
		p.breaker.CompareAndSwap(nil, b)
	}
	if len(r.quotas.shared) > 0 {
		p.furnishQuotas(now, r, name)
	}
	if r.measured || r.timed {
		p.measure(now, r, s.sketchShards(name))
	}
}

// sketchShards is one for a partition: sketches take kilobytes a shard, and there
// may be thousands of partitions.
func (s *State) sketchShards(name string) int {
	if name != "" {
		return 1
	}
	return int(s.shards)
}

func (s *State) breakerLog(name string) breaker.Log {
	if s.box() != nil {
		return partitionLog{state: s, partition: name}
	}
	return nil
}

func (s *State) newPartition(now clock.Instant, name string) *namedPartition {
	p := &namedPartition{name: name}
	r := s.rules.Load()
	s.furnishPartition(now, &p.partition, r, name) // a reload that is under way reaches only older ones
	recall(s, now, &p.partition, r, name)
	return p
}

// eachPartition calls f for the partition of calls that name none, and for every named
// one.
func (s *State) eachPartition(f func(p *partition, name string)) {
	f(&s.main, "")
	if ps := s.partitions(); ps != nil {
		ps.each(func(p *namedPartition) { f(&p.partition, p.name) })
	}
}

// anyPartition is eachPartition of s in no order: to sort ten thousand names several times a second costs more than to look at them.
func anyPartition(s *State, f func(p *partition)) {
	f(&s.main)
	if ps := s.partitions(); ps != nil {
		ps.any(func(p *namedPartition) { f(&p.partition) })
	}
}

// Note adds an event about the dependency to those that wait for Deliver.
func (s *State) Note(e policy.Event) { s.note(e) }

func (s *State) note(e policy.Event) {
	if box := s.box(); box != nil {
		box.add(e)
	}
}

// Rules returns the rules in force.
func (s *State) Rules() *Rules { return s.rules.Load() }

// Listen says whether anybody wants to know what happens to the dependency. While nobody
// does, nothing is kept for Deliver. A State without Setup.Events keeps nothing.
func (s *State) Listen(wanted bool) {
	if box := s.box(); box != nil {
		box.listen(wanted)
	}
}

// Pending reports, at the cost of one load, whether Deliver has anything to do.
func (s *State) Pending() bool {
	box := s.box()
	return box != nil && box.pending.Load() > 0
}

// Deliver passes the events about the dependency that wait for it to emit, in order. One
// caller at a time delivers; the others return at once. emit runs outside every lock and
// must not panic.
func (s *State) Deliver(emit func(policy.Event)) {
	if box := s.box(); box != nil {
		box.deliver(emit)
	}
}

// Breaker returns the breaker of that partition, or of the calls that name none,
// to be moved by hand or looked at. It is nil when there is none.
func (s *State) Breaker(partition string) *breaker.Breaker {
	if !s.rules.Load().guarded {
		return nil
	}
	if partition == "" {
		return s.main.breaker.Load()
	}
	if ps := s.partitions(); ps != nil {
		if p := ps.peek(partition); p != nil {
			return p.breaker.Load()
		}
	}
	if p := placesOf(s).find(partition); p != nil {
		return p.guard.breaker
	}
	return nil
}

// Resent charges the budget with n re-sends that something below made by itself.
func (s *State) Resent(now clock.Instant, n int) {
	r := s.rules.Load()
	for range min(n, terms.MaxSends) {
		s.charge(now, r)
	}
	s.note(policy.Event{Kind: policy.KindResent, At: now, Count: int64(n)})
}
