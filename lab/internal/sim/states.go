package sim

import (
	"time"

	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/internal/machine"
	"github.com/gabion-go/gabion/internal/outcome"
	"github.com/gabion-go/gabion/policy"
)

// edge is one Edge in use: who calls, and what each of its instances knows.
type edge struct {
	*Edge
	caller  int // a fleet, or -1 minus a service
	rules   *machine.Rules
	repeats *outcome.Repeats // as the rules: those that count now
	states  []*machine.State // nil for an instance that knows nothing
	blank   *blanks          // nil where every instance keeps its own
	cache   *cache           // nil unless there is one
	conns   []conns          // of each instance; nil unless they count
	n       *Counts
}

// state returns what an instance of a caller knows of a callee. It is made when it
// is first needed: of a million clients some never call.
func (s *sim) state(i, instance int) *machine.State {
	e := &s.edges[i]
	if e.blank != nil {
		e.blank.seen(s, e, instance)
	}
	if e.states[instance] == nil {
		e.states[instance] = s.newState(e, i, instance)
	}
	return e.states[instance]
}

func (s *sim) newState(e *edge, i, instance int) *machine.State {
	setup := machine.Setup{Seed: policySeed(s.seed, i, instance), Events: s.watches(e.caller, instance), Totals: s.world.shares(e.caller)}
	if e.blank == nil {
		return machine.NewState(s.now, e.rules, setup)
	}
	if st := e.blank.take(); st != nil {
		st.Deliver(func(policy.Event) {}) // they were about another client
		return st
	}
	setup.Seed += uint64(s.now)                                // it may be this client's second
	setup.Events = s.watch != nil && s.watch.Fleet == e.caller // it may come to the watched client later
	return machine.NewState(s.now, e.rules, setup)
}

// many is the instances from which on states that know nothing change hands. Below
// it they take some megabytes, and keeping them keeps every client's draws its own.
const many = 1 << 16

// blanks lends states of clients that have not called for so long that their states
// know no more than new ones to clients that call. So a fleet needs as many as it
// has clients that called a moment ago, and not as many as it has clients.
type blanks struct {
	span  time.Duration // of an epoch; a state that none of the last epochs saw is blank
	epoch uint64        // that now is in
	last  []uint8       // for each instance, the epoch in which it called last, by its last digits
	users [epochs + 1][]uint32
	free  []*machine.State
}

// epochs is how many make up the time that states remember: the more, the sooner a
// blank one is noticed, and the more lists there are.
const epochs = 4

// newBlanks returns nil where states stay with their instances.
func newBlanks(r *machine.Rules, instances, many int) *blanks {
	memory := remembers(r)
	if instances < many || memory == 0 {
		return nil
	}
	return &blanks{span: memory/epochs + 1, last: make([]uint8, instances)}
}

// remembers returns for how long after the beginning of its last call a state
// differs from a new one, at most; 0 when it is not known. It is known of states
// that hold nothing but a budget and a time until which calls are held back.
func remembers(r *machine.Rules) time.Duration {
	p := &r.Policy
	if !p.Breaker.Off || !p.Bulkhead.Off || p.RateLimit.Rate > 0 || p.Throttle.K > 0 || p.Hedge.Percentile > 0 || p.Timeout.Fit > 0 || p.Timeout.Percentile > 0 ||
		p.Timeout.Call <= 0 {
		return 0
	}
	after := max(p.Pace.Max, 0)
	if !p.Timeout.Strict && p.Timeout.Attempt > 0 { // that attempts were cut off is known for so long
		after = max(after, time.Minute+time.Second, 4*p.Timeout.Attempt+time.Second)
	}
	if b := p.Retry.Budget; !b.Off {
		switch b.Shape {
		case policy.BudgetEarned, policy.BudgetTokens, policy.BudgetGRPC, policy.BudgetQuota: // what is spent stays spent
			return 0
		}
		after = max(after, b.Window+b.Window/4) // a window keeps one slice more, a seventh of it
	}
	return p.Timeout.Call + after + time.Second
}

// seen notes that an instance calls.
func (b *blanks) seen(s *sim, e *edge, instance int) {
	for now := uint64(s.now) / uint64(b.span); b.epoch < now; {
		if now-b.epoch > uint64(len(b.users)) {
			b.epoch = now - uint64(len(b.users)) // all that are listed fall out of what comes
		}
		b.epoch++
		b.sweep(e)
	}
	digit := uint8(b.epoch%uint64(len(b.users))) + 1
	if b.last[instance] != digit {
		b.last[instance] = digit
		b.users[digit-1] = append(b.users[digit-1], uint32(instance))
	}
}

// sweep empties the list that the new epoch will use. An instance whose last call was in the list's
// old epoch has not called in the epochs since.
func (b *blanks) sweep(e *edge) {
	at := b.epoch % uint64(len(b.users))
	for _, i := range b.users[at] {
		if b.last[i] != uint8(at)+1 {
			continue
		}
		b.last[i] = 0
		if st := e.states[i]; st != nil {
			b.free = append(b.free, st)
			e.states[i] = nil
		}
	}
	b.users[at] = b.users[at][:0]
}

func (b *blanks) take() *machine.State {
	if len(b.free) == 0 {
		return nil
	}
	last := len(b.free) - 1
	st := b.free[last]
	b.free = b.free[:last]
	return st
}

// forget makes instances begin anew.
func (e *edge) forget(instance int) {
	e.states[instance] = nil
	if e.conns != nil {
		e.conns[instance].hangUp()
	}
}

func (e *edge) forgetAll() {
	clear(e.states)
	e.hangUp()
}

// hangUp closes all connections that are not in use.
func (e *edge) hangUp() {
	for i := range e.conns {
		e.conns[i].hangUp()
	}
}

// reload gives all who know something other rules.
func (e *edge) reload(now clock.Instant, f *Fault) {
	r := f.Rules
	e.rules, e.repeats = r, f.Repeats
	for _, st := range e.states {
		if st != nil {
			st.Reload(now, r)
		}
	}
	e.blank = nil // free states still follow the old rules
}
