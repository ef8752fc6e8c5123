package conformance

import (
	"container/heap"
	"fmt"
	"time"

	"github.com/gabion-go/gabion/internal/breaker"
	"github.com/gabion-go/gabion/internal/chance"
	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/internal/machine"
	"github.com/gabion-go/gabion/policy"
)

// Instant is the time of the machine.
type Instant = clock.Instant

// World is how a virtual run is set up.
type World struct {
	// Origin is the instant at which the script starts. It may be negative.
	Origin Instant

	// Orders names the order of what happens in single instants, which count from
	// the start of the script. Zero is first come, first served; every other number
	// is another order.
	Orders map[time.Duration]uint64
}

// Result is what a virtual run leaves behind.
type Result struct {
	Log    Log
	Faults []string // rules of the machine that were broken
	State  *machine.State
	Now    Instant
}

// Run runs a case in virtual time.
func (w World) Run(c *Case) Result {
	rules, err := machine.Compile(c.Policy)
	if err != nil {
		return Result{Faults: []string{err.Error()}}
	}
	v := &virtual{world: w, now: w.Origin}
	v.state = machine.NewState(v.now, rules, machine.Setup{Seed: c.Seed, Events: true})
	for i := range c.Calls {
		one := &caller{v: v, n: i + 1, plan: &c.Calls[i]}
		v.callers = append(v.callers, one)
		v.at(w.Origin.Add(one.plan.At), one.begin)
		if one.plan.Cancel > 0 {
			v.at(w.Origin.Add(one.plan.Cancel), one.cancel)
		}
	}
	for _, h := range c.Hands {
		v.at(w.Origin.Add(h.At), func() { h.Do(v); v.look() })
	}
	v.run()
	v.audit()
	return Result{v.log, v.faults, v.state, v.now}
}

// virtual is a run: a heap of what happens when.
type virtual struct {
	world   World
	now     Instant
	heap    happenings
	seq     uint64
	state   *machine.State
	callers []*caller
	log     Log
	faults  []string
}

// happening is something due at a time. Nothing is ever taken out of the heap:
// what is stale by then does no harm.
type happening struct {
	at       Instant
	tie, seq uint64
	do       func()
}

type happenings []happening

func (h happenings) Len() int      { return len(h) }
func (h happenings) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *happenings) Push(x any)   { *h = append(*h, x.(happening)) }
func (h happenings) Less(i, j int) bool {
	a, b := &h[i], &h[j]
	switch {
	case a.at != b.at:
		return a.at < b.at
	case a.tie != b.tie:
		return a.tie < b.tie
	}
	return a.seq < b.seq
}

func (h *happenings) Pop() any {
	old := *h
	last := old[len(old)-1]
	*h = old[:len(old)-1]
	return last
}

func (v *virtual) at(t Instant, do func()) {
	if t == clock.Never {
		return
	}
	v.seq++
	e := happening{at: max(t, v.now), seq: v.seq, do: do}
	if order := v.world.Orders[e.at.Sub(v.world.Origin)]; order != 0 {
		e.tie = chance.Bits(order, v.seq, 0, 0)
	}
	heap.Push(&v.heap, e)
}

// most is how many happenings a script may take, so that a machine that spins is
// a failed test and not a hung one.
const most = 1 << 20

func (v *virtual) run() {
	for n := 0; v.heap.Len() > 0; n++ {
		if n == most {
			v.fault("the machine does not come to rest")
			return
		}
		e := heap.Pop(&v.heap).(happening)
		v.now = e.at
		e.do()
	}
}

func (v *virtual) fault(format string, args ...any) {
	if len(v.faults) < 20 {
		v.faults = append(v.faults, fmt.Sprintf("%s: ", v.now.Sub(v.world.Origin))+fmt.Sprintf(format, args...))
	}
}

// say puts what was decided into the log.
func (v *virtual) say(call int, e policy.Event) {
	v.log = append(v.log, Line{e.At.Sub(v.world.Origin), call, relative(e, v.world.Origin)})
}

// relative makes an event's times count from the start of the case.
func relative(e policy.Event, origin Instant) policy.Event {
	for _, t := range []*Instant{&e.At, &e.Due, &e.Until} {
		if *t != 0 && *t != clock.Never {
			*t -= origin
		}
	}
	return e
}

func (v *virtual) deliver() { v.state.Deliver(func(e policy.Event) { v.say(0, e) }) }

// look takes what is due, as a reader of statistics does.
func (v *virtual) look() {
	v.state.Stats(v.now)
	v.deliver()
}

// Reload implements Handle.
func (v *virtual) Reload(p policy.Policy) error {
	rules, err := machine.Compile(p)
	if err == nil {
		v.state.Reload(v.now, rules)
	}
	return err
}

// SetRetries implements Handle.
func (v *virtual) SetRetries(on bool) { switchRetries(v.state, v.now, on) }

func switchRetries(s *machine.State, now Instant, on bool) {
	if on {
		s.ResumeRetries(now, "")
	} else {
		s.StopRetries(now, clock.Never, "")
	}
}

// Move implements Handle.
func (v *virtual) Move(partition string, f func(*breaker.Breaker, Instant)) {
	if b := v.state.Breaker(partition); b != nil {
		f(b, v.now)
	}
}

// audit checks what must be true of a machine at rest.
func (v *virtual) audit() {
	for _, c := range v.callers {
		c.audit()
	}
	v.faults = append(v.faults, Leaks(v.state.Stats(v.now))...)
}

// Leaks names what a dependency at rest still holds.
func Leaks(s policy.Stats) (found []string) {
	if s.Bulkhead.InUse != 0 || s.Bulkhead.Queued != 0 {
		found = append(found, fmt.Sprintf("bulkhead: %d slots in use, %d queued", s.Bulkhead.InUse, s.Bulkhead.Queued))
	}
	for _, l := range append(s.Partitions, s.Main) {
		if l.Breaker.Probes != 0 || l.Breaker.InFlight != 0 {
			found = append(found, fmt.Sprintf("breaker %q: %d probes and %d calls out", l.Name, l.Breaker.Probes, l.Breaker.InFlight))
		}
	}
	return found
}
