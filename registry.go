package gabion

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"weak"

	"github.com/gabion-go/gabion/internal/machine"
	"github.com/gabion-go/gabion/internal/terms"
	"github.com/gabion-go/gabion/policy"
)

// Registry holds the dependencies of a program by name, usually those of one
// file. Make one with [NewRegistry]; the zero Registry knows no name and can't be
// reloaded. It is safe for concurrent use.
type Registry struct {
	opts   []Option
	joined atomic.Bool // it is a member of a fleet

	mu        sync.RWMutex // guards all below
	declared  map[string]*Dependency
	gone      map[string]weak.Pointer[Dependency] // declared once, and perhaps still held by a caller
	instances map[instanceOf]*Dependency
	left      map[instanceOf]weak.Pointer[Dependency] // instances of names that are gone, likewise
	spilled   int64                                   // calls of Instance that got the shared one
	observing []*subscription                         // of Observe
}

// instanceOf names an instance. The two names are kept apart, since either may
// contain the slash that joins them in the dependency's own name.
type instanceOf struct{ declared, instance string }

func (i instanceOf) String() string { return i.declared + "/" + i.instance }

// The bounds of a Registry's instances. A name that comes from traffic, such as a
// host, must not be able to fill the memory.
const (
	maxInstances = 1000
	instanceIdle = 10 * time.Minute
)

// NewRegistry makes a dependency for every policy, or returns every finding. The
// options apply to each.
func NewRegistry(policies map[string]policy.Policy, opts ...Option) (*Registry, error) {
	rules, err := compileAll(policies)
	if err = errors.Join(err, misplaced(opts)); err != nil {
		return nil, err
	}
	r := &Registry{
		opts: opts, declared: map[string]*Dependency{},
		gone: map[string]weak.Pointer[Dependency]{}, instances: map[instanceOf]*Dependency{},
		left: map[instanceOf]weak.Pointer[Dependency]{},
	}
	for name, rule := range rules {
		r.declared[name] = r.open(name, rule, nil)
	}
	return r, nil
}

// open makes a dependency that those who observe the registry observe, too.
func (r *Registry) open(name string, rules *machine.Rules, parent *Dependency, more ...Option) *Dependency {
	opts := append(slices.Clip(r.opts), more...)
	for _, s := range r.observing {
		opts = append(opts, optionFunc(func(d *Dependency) { d.attach(s) }))
	}
	return open(name, rules, opts, parent)
}

// compileAll makes every policy ready, or none. Names of equal policies share their rules,
// which are more than a kilobyte and never change.
func compileAll(policies map[string]policy.Policy) (map[string]*machine.Rules, error) {
	rules, same := make(map[string]*machine.Rules, len(policies)), map[string]*machine.Rules{}
	var wrong []error
	for _, name := range slices.Sorted(maps.Keys(policies)) {
		text := fmt.Sprintf("%#v", policies[name])
		rule, err := same[text], error(nil)
		if rule == nil {
			rule, err = machine.Compile(policies[name])
			same[text] = rule
		}
		if name == "" {
			err = errors.Join(errNoName, err)
		}
		if err != nil {
			wrong = append(wrong, fmt.Errorf("%s: %w", name, err))
			continue
		}
		rules[name] = rule
	}
	return rules, errors.Join(wrong...)
}

// Get returns the dependency of that name. An unknown name is an [*Error] with
// reason UnknownDependency that lists the known ones.
func (r *Registry) Get(name string) (*Dependency, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if d := r.declared[name]; d != nil {
		return d, nil
	}
	return nil, r.unknown(name)
}

// Instance returns a dependency of its own for one instance of a declared one,
// such as a host that is only known at run time, with the declared one's policy.
// There are at most 1000 at a time: when there is no room, those that were idle for
// 10 minutes and whose breaker is closed are forgotten, and instances past the
// bound share one. Do not keep
// what Instance returns for longer than a call.
func (r *Registry) Instance(name, instance string) (*Dependency, error) {
	which := instanceOf{name, machine.BoundedName(instance)}
	r.mu.RLock()
	d := r.instances[which]
	r.mu.RUnlock()
	if d != nil {
		return d, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	parent := r.declared[name]
	if parent == nil {
		return nil, r.unknown(name)
	}
	return r.instance(parent, which), nil
}

// manyNames bounds how many names an error lists.
const manyNames = 10

// unknown is the error for a name that is not declared. The name may come from
// anywhere, so it is quoted unless it is plain.
func (r *Registry) unknown(name string) error {
	err := errors.New("none is declared")
	if len(r.declared) > 0 {
		known := slices.Sorted(maps.Keys(r.declared))
		more := ""
		if n := len(known) - manyNames; n > 0 {
			known, more = known[:manyNames], fmt.Sprintf(" and %d more", n)
		}
		for i := range known {
			known[i] = plainName(known[i])
		}
		err = fmt.Errorf("known are %s%s", strings.Join(known, ", "), more)
	}
	return &Error{Dependency: plainName(name), Reason: policy.UnknownDependency, Err: err}
}

// plainName is a name as an error shows it: bounded, and quoted if it holds what does
// not print.
func plainName(name string) string {
	name = machine.BoundedName(name)
	if quoted := strconv.Quote(name); quoted[1:len(quoted)-1] != name {
		return quoted
	}
	return name
}

// Spilled returns how often Instance had no room and answered with the instance
// that all shared.
func (r *Registry) Spilled() int64 {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.spilled
}

// instance makes an instance, or picks the shared one when there is no room.
func (r *Registry) instance(parent *Dependency, which instanceOf) *Dependency {
	if d := r.instances[which]; d != nil {
		return d
	}
	if len(r.instances) >= maxInstances && r.evict() == 0 {
		which.instance = terms.Overflow
		r.spilled++
		if d := r.instances[which]; d != nil {
			return d
		}
	}
	d := r.left[which].Value()
	delete(r.left, which)
	if d != nil && d.parent == parent {
		d.state.Reload(d.now(), parent.state.Rules().Own())
	} else {
		d = r.open(which.String(), parent.state.Rules().Own(), parent, optionFunc(track))
	}
	r.instances[which] = d
	return d
}

// track keeps what eviction must know of an instance.
func track(d *Dependency) {
	d.tracked = true
	d.used.Store(int64(d.now()))
}

// evictScan bounds how many instances one call looks at for idle ones: when there
// is no room, not every call for one more must walk all of them.
const evictScan = 32

// evict forgets idle instances among a few, and says how many. One that is called
// right now, or whose breaker is not closed, stays.
func (r *Registry) evict() (gone int) {
	seen := 0
	for which, d := range r.instances {
		if d.idle() {
			delete(r.instances, which)
			gone++
		}
		if seen++; seen == evictScan {
			break
		}
	}
	return gone
}

func (d *Dependency) idle() bool {
	quiet := time.Duration(int64(d.now()) - d.used.Load())
	return d.out.Load() == 0 && quiet >= instanceIdle && d.state.Quiet(d.now())
}

// Reload puts other policies in force, or returns every finding and changes nothing. A
// dependency whose name stays keeps its state and gets its new policy, and new names are
// added.
//
// A name that is missing is forgotten. A program that has its dependency can go on calling it,
// under the policy that it had; if the name comes back before it is collected, it is that
// dependency again. That a name is missing is no error: compare [Registry.Names] if none may be
// dropped.
func (r *Registry) Reload(policies map[string]policy.Policy) error {
	rules, err := compileAll(policies)
	if err != nil {
		return err
	}
	r.mu.Lock()
	moved := r.swap(rules)
	r.mu.Unlock()
	for _, d := range moved {
		d.deliver(nil)
	}
	return nil
}

func (r *Registry) swap(rules map[string]*machine.Rules) (moved []*Dependency) {
	r.forget(rules)
	for name, rule := range rules {
		d := r.declared[name]
		if d == nil {
			d = r.gone[name].Value()
			delete(r.gone, name)
		}
		if d == nil {
			r.declared[name] = r.open(name, rule, nil)
			continue
		}
		r.declared[name] = d
		d.state.Reload(d.now(), rule)
		moved = append(moved, d)
	}
	for which, d := range r.instances {
		if rule := rules[which.declared]; rule != nil {
			d.state.Reload(d.now(), rule)
			moved = append(moved, d)
		} else {
			delete(r.instances, which)
			r.left[which] = weak.Make(d)
		}
	}
	return moved
}

// forget takes the names out that rules don't have. Who holds a dependency of theirs
// keeps it, and it must be the same one if its name comes back.
func (r *Registry) forget(rules map[string]*machine.Rules) {
	maps.DeleteFunc(r.gone, func(_ string, d weak.Pointer[Dependency]) bool { return d.Value() == nil })
	maps.DeleteFunc(r.left, func(_ instanceOf, d weak.Pointer[Dependency]) bool { return d.Value() == nil })
	for name, d := range r.declared {
		if rules[name] == nil {
			r.gone[name] = weak.Make(d)
			delete(r.declared, name)
		}
	}
}

// Observe sends every event about the dependencies and their calls to o from now on, until
// stop is called: of those that are declared, of their instances, and of those that come
// later. For the rest it is [Dependency.Observe].
func (r *Registry) Observe(o Observer) (stop func()) {
	if o == nil {
		return func() {}
	}
	s := newSubscription(o)
	r.mu.Lock()
	r.observing = append(r.observing, s)
	all := r.reachable()
	r.mu.Unlock()
	for _, d := range all { // one that is being forgotten or made twice is attached once: see attach
		d.attach(s)
	}
	return func() {
		s.ended.Store(true)
		r.mu.Lock()
		r.observing = slices.DeleteFunc(r.observing, func(have *subscription) bool { return have == s })
		all := r.reachable()
		r.mu.Unlock()
		for _, d := range all {
			d.prune()
		}
	}
}

// reachable returns every dependency that can be called: those that are known, and those whose
// names are gone and that a caller still holds.
func (r *Registry) reachable() []*Dependency {
	all := slices.AppendSeq(slices.Collect(maps.Values(r.declared)), maps.Values(r.instances))
	for _, weak := range r.gone {
		all = append(all, weak.Value())
	}
	for _, weak := range r.left {
		all = append(all, weak.Value())
	}
	return slices.DeleteFunc(all, func(d *Dependency) bool { return d == nil })
}

// All returns every dependency that is declared, and every instance, in the order of their
// names.
func (r *Registry) All() []*Dependency {
	r.mu.RLock()
	all := slices.AppendSeq(slices.Collect(maps.Values(r.declared)), maps.Values(r.instances))
	r.mu.RUnlock()
	slices.SortFunc(all, func(a, b *Dependency) int { return strings.Compare(a.name, b.name) })
	return all
}

// Names returns the names of the declared dependencies in order.
func (r *Registry) Names() []string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return slices.Sorted(maps.Keys(r.declared))
}

// Stats returns a snapshot of every dependency and instance, by name.
func (r *Registry) Stats() []Stats {
	all := r.All()
	stats := make([]Stats, len(all))
	for i, d := range all {
		stats[i] = d.Stats()
	}
	return stats
}
