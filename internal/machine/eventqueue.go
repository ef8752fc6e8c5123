package machine

import (
	"sync"
	"sync/atomic"

	"github.com/gabion-go/gabion/internal/breaker"
	"github.com/gabion-go/gabion/policy"
)

// eventQueueMax bounds how many events about a dependency wait for delivery. Such events are
// rare. So many waiting means that an observer hangs; then the oldest are dropped.
const eventQueueMax = 256

// eventQueue keeps the events about one dependency, in the order in which they happened,
// until they are delivered. They are appended under the locks of the parts, so that
// calls no observer. They are delivered outside every lock, by one caller at a time; other
// callers leave it to that one.
type eventQueue struct {
	pending   atomic.Int32 // events waiting; read without the lock
	listening atomic.Bool  // somebody takes them; else none are kept

	mu     sync.Mutex // guards all below; nothing is called under it
	events []policy.Event
	seq    uint64
	lost   int64
	busy   bool
}

func (o *eventQueue) add(e policy.Event) {
	if !o.listening.Load() {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.listening.Load() {
		return
	}
	o.seq++
	e.Seq = o.seq
	if len(o.events) == eventQueueMax {
		o.events = append(o.events[:0], o.events[1:]...)
		o.lost++
	}
	o.events = append(o.events, e)
	o.pending.Store(int32(len(o.events)))
}

// listen says whether somebody takes the events. What nobody took is forgotten, so that
// whoever listens next is not told of what was before.
func (o *eventQueue) listen(wanted bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.listening.Store(wanted)
	if !wanted {
		o.events, o.lost = nil, 0
		o.pending.Store(0)
	}
}

// deliver passes on everything that waits, unless another caller does so already.
func (o *eventQueue) deliver(emit func(policy.Event)) {
	if o.pending.Load() == 0 || !o.enter() {
		return
	}
	done := false
	defer func() {
		if !done { // emit ended by runtime.Goexit: the next caller goes on
			o.leave()
		}
	}()
	for {
		batch, ok := o.take()
		if !ok {
			done = true
			return
		}
		for _, e := range batch {
			emit(e)
		}
	}
}

func (o *eventQueue) leave() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.busy = false
}

func (o *eventQueue) enter() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.busy {
		return false
	}
	o.busy = true
	return true
}

// take empties the queue, or ends the delivery when there is nothing left.
func (o *eventQueue) take() ([]policy.Event, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.events) == 0 {
		o.busy = false
		return nil, false
	}
	batch := o.events
	if o.lost > 0 {
		o.seq++
		batch = append([]policy.Event{{Kind: policy.KindEventsLost, Count: o.lost, At: batch[0].At, Seq: o.seq}}, batch...)
		o.lost = 0
	}
	o.events = nil
	o.pending.Store(0)
	return batch, true
}

// partitionLog puts a partition's name on its breaker's events.
type partitionLog struct {
	state     *State
	partition string
	rules     *breaker.Rules // nil means those of the policy in force
}

// BreakerMoved implements breaker.Log. It runs under the breaker's lock.
func (l partitionLog) BreakerMoved(c breaker.Change) {
	box := l.state.box()
	if !box.listening.Load() {
		return
	}
	kind := policy.KindBreakerMoved
	if c.From == c.To && c.Exceeded != 0 {
		kind = policy.KindBreakerExceeded
	}
	rules := l.rules
	if r := l.state.rules.Load(); rules == nil && r != nil { // a new State has none yet
		rules = &r.breaker
	}
	box.add(policy.Event{
		Kind: kind, At: c.At, Due: c.Due, Until: c.Until, From: c.From, To: c.To, Cause: c.Cause, Code: c.Who,
		Partition: l.partition,
		Numbers: &policy.Numbers{
			Calls: c.Counts.Calls, Failures: c.Counts.Failures, Slows: c.Counts.Slow,
			Rule: bound(rules, &c),
		},
	})
}

// bound is what decides where a breaker moves for that cause, or zero.
func bound(r *breaker.Rules, c *breaker.Change) float64 {
	switch c.Cause {
	case breaker.FailureRate:
		return r.FailureRate
	case breaker.SlowRate:
		return r.SlowRate
	case breaker.Failures:
		return float64(r.Failures)
	case breaker.Consecutive:
		return float64(c.InRow)
	}
	return 0
}
