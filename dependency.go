package gabion

import (
	"errors"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/internal/machine"
	"github.com/gabion-go/gabion/policy"
)

// Dependency is something that is called and may fail, with everything that its
// calls share: breaker, budget, bulkhead, latency. Make one per dependency with
// [New], keep it, and use it from any number of goroutines.
//
// In tests with testing/synctest make it inside the bubble, as one makes an
// http.Transport there: it has timers and channels, and a time that begins with it.
// Calls from a bubble on one made outside are refused as [policy.Invalid]. One that is taken
// out of its bubble is not noticed: the runtime ends the program when it meets a timer
// of the bubble's.
type Dependency struct {
	name  string
	state *machine.State
	epoch time.Time // the origin of this dependency's instants

	audience atomic.Pointer[audience] // nil without observers
	judge    classifier
	discard  func(result any)
	logger   *slog.Logger
	seed     uint64

	tracked bool        // used and out are kept
	parent  *Dependency // whose instance it is, if it is one

	spares  sync.Pool // of *racing[T] or *opening[T], of any T
	begun   sync.Pool // of *beginning
	watches sync.Pool // of *watch
	logs    logs
	timers  timers // per dependency, since a timer belongs to its synctest bubble

	bare atomic.Pointer[bare] // for calls that are part of an attempt; nil before the first

	_         [64]byte     // calls read what is above and write what is below: not on one cache line
	out       atomic.Int64 // calls that a caller waits for or holds open
	used      atomic.Int64 // when the last call began; kept for Registry's eviction
	fallbacks atomic.Int64
	exercised atomic.Uint64 // draws for exercising a fallback
	crashes   atomic.Int64  // observers that panicked
	notes     sync.Map      // *attemptContext to *notes, of attempts that are out and have parts
}

// New makes a dependency. It panics with every finding if p is invalid or name is
// empty, as regexp.MustCompile does, since a policy literal is code; policies that
// come from a file are checked by package config, and [Make] returns the findings.
//
// The name is what errors and events say. It is not
// looked up: two dependencies of one name share nothing, neither breaker nor budget.
func New(name string, p policy.Policy, opts ...Option) *Dependency {
	d, err := Make(name, p, opts...)
	if err != nil {
		panic("gabion.New(" + name + "): " + err.Error())
	}
	return d
}

// Make is [New] for policies that are not literals: instead of panicking it returns
// what is wrong, in which errors.As finds the policy's [policy.Mistakes].
func Make(name string, p policy.Policy, opts ...Option) (*Dependency, error) {
	rules, err := machine.Compile(p)
	if name == "" {
		err = errors.Join(errNoName, err)
	}
	if err = errors.Join(err, misplaced(opts)); err != nil {
		return nil, err
	}
	return open(name, rules, opts, nil), nil
}

var errNoName = errors.New("the name is empty: errors and events would not say who was called")

func open(name string, rules *machine.Rules, opts []Option, parent *Dependency) *Dependency {
	d := &Dependency{name: name, epoch: time.Now(), seed: rand.Uint64(), parent: parent}
	for _, o := range opts {
		if o != nil {
			o.applyTo(d)
		}
	}
	setup := machine.Setup{
		Shards: 4 * runtime.GOMAXPROCS(0),
		Seed:   d.seed,
		Events: true,
		Totals: true,
		Kill:   &retriesOff,
	}
	if parent != nil {
		setup.Parent, setup.Younger = parent.state, d.epoch.Sub(parent.epoch)
	}
	d.state = machine.NewState(d.now(), rules, setup)
	d.state.Listen(d.audience.Load() != nil)
	return d
}

// Name returns the name that errors and events carry.
func (d *Dependency) Name() string { return d.name }

// Policy returns the policy in force with every default written out. It is the
// caller's own: changing it changes nothing here.
func (d *Dependency) Policy() policy.Policy { return d.state.Rules().Policy.Clone() }

// Reload puts another policy in force, or returns every finding and changes
// nothing. A setting without an effect is no finding here, so that one field of what
// [Dependency.Policy] returned can be changed alone. Calls that have begun end on the policy that they began with; breaker,
// budget and bulkhead keep what they know.
func (d *Dependency) Reload(p policy.Policy) error {
	rules, err := machine.Recompile(p)
	if err != nil {
		return err
	}
	d.state.Reload(d.now(), rules)
	d.deliver(nil)
	return nil
}

// now reads the monotonic clock.
func (d *Dependency) now() clock.Instant { return clock.Instant(time.Since(d.epoch)) }

// date is the wall-clock time of an instant.
func (d *Dependency) date(t clock.Instant) time.Time { return d.epoch.Add(time.Duration(t)) }

// instant is the instant of a wall-clock or monotonic time.
func (d *Dependency) instant(t time.Time) clock.Instant { return clock.Instant(t.Sub(d.epoch)) }

// logs is a pool of the logs of calls.
type logs struct{ sync.Pool }

// take returns an empty log for a call.
func (p *logs) take() *machine.Log {
	if l, ok := p.Get().(*machine.Log); ok {
		return l
	}
	return new(machine.Log)
}

// giveBack puts the log of a call that has ended back, if it has one.
func (p *logs) giveBack(l *machine.Log) {
	if l != nil {
		l.Drain()
		p.Put(l)
	}
}

// timers is a pool of timers that do not run.
type timers struct{ sync.Pool }

// start returns a timer that fires after wait.
func (p *timers) start(wait time.Duration) *time.Timer {
	if t, ok := p.Get().(*time.Timer); ok {
		t.Reset(wait)
		return t
	}
	return time.NewTimer(wait)
}

// stop puts a timer back. Since Go 1.23 a stopped timer's channel holds nothing.
func (p *timers) stop(t *time.Timer) {
	t.Stop()
	p.Put(t)
}
