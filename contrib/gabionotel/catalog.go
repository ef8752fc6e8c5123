package gabionotel

import (
	"slices"
	"strings"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// The bounds of what is remembered, and of the label sets of metrics. Names may come from
// traffic, such as hosts, and must not fill the memory.
const (
	maxDependencies = 2000 // a Registry has at most 1000 instances
	maxOperations   = 200  // of a dependency
	maxSets         = 200  // of a dependency: label sets of calls, and likewise of attempts
	maxName         = 128  // bytes of an operation's name, or of a code

	overflow = "_other" // what does not fit
)

// catalog has the names and label sets of the dependencies that were seen, made once
// each.
type catalog struct {
	dependencies bounded[string, dependency]
	spare        atomic.Pointer[dependency] // of those past the bound
}

// dependency has what was made for one dependency.
type dependency struct {
	name       string
	set        measured // with the dependency alone
	operations bounded[string, operation]
	other      *operation // for those past the bound, and for calls and attempts past the bound of label sets
	sets       [2]atomic.Int32
	rest       bounded[labels, measured] // of instruments with few labels
}

// What label sets are of.
const (
	ofCalls = iota
	ofAttempts
)

// operation has what was made for one operation of a dependency.
type operation struct {
	name                  string
	call, attempt, result string // names of spans
	plain                 measured
	calls                 bounded[uint8, measured] // by reason
	attempts              bounded[ended, measured]
	bounded               bool // its label sets are few by themselves
}

// ended is how an attempt ended.
type ended struct {
	kind  uint8 // first, retry, hedge
	class uint8
	code  string
}

// labels are those of an instrument with few of them.
type labels struct {
	what    byte
	a, b, c string
}

// measured is one label set, as instruments want it.
type measured struct {
	add    []metric.AddOption
	record []metric.RecordOption
	set    attribute.Set
}

// newMeasured makes a label set. Labels that are empty are left off.
func newMeasured(as ...attribute.KeyValue) *measured {
	as = slices.DeleteFunc(as, func(a attribute.KeyValue) bool { return a.Value.AsString() == "" })
	set := attribute.NewSet(as...)
	o := metric.WithAttributeSet(set)
	return &measured{[]metric.AddOption{o}, []metric.RecordOption{o}, set}
}

func (c *catalog) dependency(name string) *dependency {
	if d := c.dependencies.get(name); d != nil {
		return d
	}
	if d := c.dependencies.put(name, maxDependencies, func() *dependency { return newDependency(strings.Clone(name)) }); d != nil {
		return d
	}
	if c.spare.Load() == nil {
		c.spare.CompareAndSwap(nil, newDependency(overflow))
	}
	return c.spare.Load()
}

func newDependency(name string) *dependency {
	d := &dependency{name: name, set: *newMeasured(keyDependency.String(name))}
	d.other = newOperation(name, overflow)
	d.other.bounded = true
	return d
}

func (d *dependency) operation(name string) *operation {
	if o := d.operations.get(name); o != nil {
		return o
	}
	if len(name) > maxName {
		return d.other
	}
	if o := d.operations.put(name, maxOperations, func() *operation { return newOperation(d.name, strings.Clone(name)) }); o != nil {
		return o
	}
	return d.other
}

func newOperation(dependency, name string) *operation {
	call := dependency
	if name != "" {
		call += " " + name
	}
	return &operation{
		name: name, call: call, attempt: call + " attempt", result: call + " result",
		plain: *newMeasured(keyDependency.String(dependency), keyOperation.String(name)),
	}
}

// room reports whether there is room for one more label set of d. Those of an operation
// that are few by themselves always have room.
func (d *dependency) room(o *operation, of int) bool {
	return o.bounded || d.sets[of].Add(1) <= maxSets
}
