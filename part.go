package gabion

import (
	"sync"

	"github.com/gabion-go/gabion/internal/adapter"
	"github.com/gabion-go/gabion/internal/machine"
	"github.com/gabion-go/gabion/policy"
)

// part is a call that is part of an attempt of the same dependency: the attempt has its
// slot, its permit and its place in every count already. Such a call is made once, by a
// machine that has no layers, and tells the attempt what it came to.
type part struct {
	of    *attemptContext
	means *policy.Outcome // what it came to, once that is known
}

// around returns the attempt of d that a call is part of whose context belongs to the attempt a,
// which may be nil, or nil. It is one that is still out, or whose result is still open, also if an
// attempt of another dependency lies between.
func (a *attemptContext) around(d *Dependency) *attemptContext {
	for a != nil && (a.d != d || a.is(ended|struck)) {
		a = attemptOf(a.Context)
	}
	return a
}

// partOf is what such a call is part of, or nil.
func partOf(d *Dependency, at *attemptContext) *part {
	if at == nil { // nearly always
		return nil
	}
	if at = at.around(d); at == nil {
		return nil
	}
	return &part{of: at}
}

// bare is the machine's state of calls that are parts: the policy's timeouts, and no layer
// that refuses, waits or counts.
type bare struct {
	from  *machine.Rules // of the policy in force when it was made
	state *machine.State
}

// bareState returns the state that a part begins on.
func (d *Dependency) bareState() *machine.State {
	rules := d.state.Rules()
	if b := d.bare.Load(); b != nil && b.from == rules {
		return b.state
	}
	b := &bare{from: rules, state: machine.NewState(d.now(), rules.Bare(), machine.Setup{Shards: 1, Seed: d.seed})}
	d.bare.Store(b)
	return b.state
}

// settled tells the attempt around a part what the part came to. Safe is whether doing it
// again does no harm.
func (p *part) settled(o *policy.Outcome, safe bool) {
	said := *o
	said.Open, said.Fixed = false, false // the work makes its request anew
	p.means = &said
	p.of.note(&said, safe)
}

// explain makes the error of a part one that lets the attempt around it go on as its policy
// says. The deadline that ended it is the attempt's.
func (p *part) explain(r *runner, e *Error) {
	e.part = p.means
	if e.Reason == policy.CallTimeout && r.o.Deadline != 0 && r.call.Deadline() == r.o.Deadline {
		e.Reason = p.of.cause
	}
}

// notes is what the parts of an attempt came to.
type notes struct {
	mu      sync.Mutex
	last    policy.Outcome // of the part that ended last
	touched bool           // one that is not safe to repeat may have had an effect
}

// note remembers what a part of the attempt came to.
func (a *attemptContext) note(o *policy.Outcome, safe bool) {
	kept, _ := a.d.notes.LoadOrStore(a, new(notes))
	n := kept.(*notes)
	n.mu.Lock()
	n.last = *o
	n.touched = n.touched || !safe && !o.NeverSent && !o.Undone && (o.Class == policy.ClassSuccess || o.Effect != policy.NoEffect)
	n.mu.Unlock()
	a.marks.Or(noted)
	if a.is(ended) { // end may have looked before
		a.d.notes.Delete(a)
	}
}

// recall corrects what an attempt came to by what its parts did. An error that the work
// made of an answer, and that says nothing by itself, means what its last part came to, and
// so does an answer that is the work's result. Where a part before may have done something,
// the attempt did, too, whatever the last one proves of itself.
func (a *attemptContext) recall(result any, o *policy.Outcome) {
	kept, ok := a.d.notes.Load(a)
	if !ok {
		return
	}
	n := kept.(*notes)
	n.mu.Lock()
	defer n.mu.Unlock()
	silent := o.Class == policy.ClassUnclassified || o.Class == policy.ClassSuccess && adapter.IsAnswer != nil && adapter.IsAnswer(result)
	if silent && n.last.Class != policy.ClassSuccess {
		*o = n.last
	}
	if n.touched && o.Class != policy.ClassSuccess {
		o.NeverSent, o.Undone, o.Effect = false, false, policy.UnknownEffect
	}
}
