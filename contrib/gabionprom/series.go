package gabionprom

import (
	"sync"
	"time"

	"github.com/gabion-go/gabion/policy"
	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// The sizes of arrays that an enumeration indexes, with room for more values. A test
// compares them with the enumerations.
const (
	numReasons  = 48
	numClasses  = 16
	numStates   = 6
	untilCells  = 9 // attempts until success: 1 to 8, and more
	numVerdicts = 3 // success, failure, canceled
)

type reasons [numReasons]counter

func (r *reasons) add(why policy.Reason) {
	if int(why) >= len(reasonNames) {
		why = policy.UnclassifiedError // of a later version
	}
	r[why].Add(1)
}

// clip is i, or zero if there is no room for it.
func clip(i, n int) int {
	if i >= n {
		return 0
	}
	return i
}

// A dependency is what is counted of one dependency, over all its operations.
type dependency struct {
	name    string
	label   *dto.LabelPair
	created *timestamppb.Timestamp
	zero    bool // what it counts begins at zero

	operations table[operation]
	others     *operation // those past the bound
	sets       counter    // operations and codes in use

	left histogram

	refused, suppressed, skipped, fallbacks, broken reasons

	timeouts    [len(layers)]counter
	waits       words
	hedges      [2]counter // lost, won
	outlived    counter
	resent      counter
	paceSet     counter
	opens       counter
	limits      counter
	reloads     counter
	switched    counter
	eventsLost  counter
	lettersLost counter
	keys        words
	messages    words

	mu         sync.Mutex
	moves      map[move]uint64
	exceeded   map[policy.BreakerCause]uint64
	partitions map[string]bool // names that were exposed
	used       bool            // the breaker of calls that name no partition was seen in use
	moved      bool            // a breaker has moved, or was not closed when it was first seen
}

// move is a change of a breaker's state. There are at most as many as the machine makes.
type move struct {
	from, to policy.BreakerState
	cause    policy.BreakerCause
}

// An operation is what is counted of one operation of a dependency.
type operation struct {
	of      *dependency
	name    string
	raw     string // the dependency's name as events have it, which finds this one
	label   *dto.LabelPair
	created *timestamppb.Timestamp

	// Successes are counted by their histograms alone: one counter less for what happens
	// most.
	plain    piles                         // plain successes: of what follows each is one of took, and one of done
	took     [numVerdicts][2]lazy          // whole calls, by verdict, and by whether a retry was sent
	calls    reasons                       // those that did not succeed
	done     [numKinds]lazy                // attempts that succeeded
	broken   lazy                          // attempts that failed
	attempts [numKinds][numClasses]counter // those that did not succeed
	until    [untilCells]counter           // successes with a retry, by attempts
	untilSum counter
	slow     counter
	codes    words // of what retries repeat
}

// The layers of time.
const (
	layerAttempt = iota
	layerCall
	layerIdle
	layerBody
	layerQueue
)

var layers = [...]string{"attempt", "call", "idle", "body", "queue"}

// The kinds of attempts.
const (
	kindFirst = iota
	kindRetry
	kindHedge
	numKinds
)

var kindNames = [numKinds]string{"first", "retry", "hedge"}

// The verdicts on calls, and the first two on attempts.
const (
	success = iota
	failure
	canceled
)

var verdicts = [numVerdicts]string{"success", "failure", "canceled"}

var yesNo = [2]string{"no", "yes"}

// hotSize is how many operations are found without looking into two maps.
const hotSize = 256

// operation finds what counts for the names of an event.
func (m *Metrics) operation(dependency, name string) *operation {
	slot := &m.hot[hotSlot(dependency, name)]
	o := slot.Load()
	if o != nil && o.raw == dependency && o.name == name {
		return o
	}
	found := m.dependency(dependency).operation(m, name)
	if o == nil && found.name == name && found.of.name == dependency {
		slot.CompareAndSwap(nil, found)
	}
	return found
}

// hotSlot spreads names over the slots. It need not be good: two names that share one are
// told apart, and the second is looked up.
func hotSlot(dependency, operation string) uint {
	h := uint(len(dependency)) ^ uint(len(operation))<<2
	if n := len(dependency); n > 0 {
		h ^= uint(dependency[n-1])<<1 ^ uint(dependency[n/2])<<3
	}
	if n := len(operation); n > 0 {
		h ^= uint(operation[n-1])<<4 ^ uint(operation[n/2])
	}
	return h % hotSize
}

// dependency finds what counts for a name, or what counts for all names past the bound.
func (m *Metrics) dependency(name string) *dependency {
	if d := m.dependencies.get(name); d != nil {
		return d
	}
	if clean := cleanName(name); clean != name {
		return m.dependency(clean)
	}
	if name == other {
		return m.others
	}
	// Without the lock, since every event comes here once the table is full.
	if len(m.dependencies.snapshot()) < m.config.MaxDependencies {
		d := m.dependencies.add(name, func(have int) *dependency {
			if have >= m.config.MaxDependencies {
				return nil
			}
			d := m.newDependency(name)
			d.zero = have < fromZero
			return d
		})
		if d != nil {
			return d
		}
	}
	m.overflow.dependency.Add(1)
	return m.others
}

func (m *Metrics) newDependency(name string) *dependency {
	d := &dependency{name: name, label: pair("dependency", name), created: timestamppb.New(time.Now())}
	d.others = d.newOperation(other)
	return d
}

func (d *dependency) newOperation(name string) *operation {
	return &operation{plain: make(piles, numPiles), of: d, name: name, raw: d.name, label: pair("operation", name), created: timestamppb.New(time.Now())}
}

// operation finds what counts for an operation's name.
func (d *dependency) operation(m *Metrics, name string) *operation {
	if o := d.operations.get(name); o != nil {
		return o
	}
	if clean := cleanName(name); clean != name {
		return d.operation(m, clean)
	}
	if name == other {
		return d.others
	}
	if m.roomFor(d) {
		o := d.operations.add(name, func(int) *operation {
			if !m.take(d) {
				return nil
			}
			return d.newOperation(name)
		})
		if o != nil {
			return o
		}
	}
	m.overflow.operation.Add(1)
	return d.others
}

// roomFor reports whether one more set may be had. Only [Metrics.take] makes sure.
func (m *Metrics) roomFor(d *dependency) bool {
	return int(d.sets.Load()) < m.config.MaxSets && m.sets.Load() < maxSets
}

// take takes one of the sets, if there is one left.
func (m *Metrics) take(d *dependency) bool {
	if d.sets.Add(1) > uint64(m.config.MaxSets) {
		d.sets.Add(^uint64(0))
		return false
	}
	if m.sets.Add(1) > maxSets {
		m.sets.Add(-1)
		d.sets.Add(^uint64(0))
		return false
	}
	return true
}

// code finds the counter of a code that retries of an operation repeat.
func (o *operation) code(m *Metrics, code string) *counter {
	if c := o.codes.get(code); c != nil {
		return c
	}
	if clean := cleanName(code); clean != code {
		return o.code(m, clean)
	}
	if m.roomFor(o.of) {
		c := o.codes.add(code, func(int) *counter {
			if !m.take(o.of) {
				return nil
			}
			return new(counter)
		})
		if c != nil {
			return c
		}
	}
	if code != other {
		m.overflow.code.Add(1)
	}
	return o.codes.add(other, func(int) *counter { return new(counter) })
}
