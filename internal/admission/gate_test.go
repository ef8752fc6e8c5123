package admission

import (
	"slices"
	"testing"
	"time"

	"github.com/gabion-go/gabion/internal/chance"
	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/policy"
)

// visitor is one request as a test sees it.
type visitor struct {
	Wait
	name     string
	class    policy.Priority
	came     clock.Instant
	deadline clock.Instant
	rung     int
	slot     Slot
}

func (v *visitor) Wake() { v.rung++ }

// played is a gate, and all that is known of it from outside.
type played struct {
	t       testing.TB
	g       *Gate
	r       Rules
	now     clock.Instant
	inside  []*visitor
	waiting []*visitor
	got     map[policy.Priority]clock.Instant // when one of a class who had waited got a slot
	shrunk  bool
}

var visitors = [...]string{"", "a", "b", "c"}

func (p *played) step(verb, arg byte) {
	name := visitors[int(arg)%len(visitors)]
	switch verb % 12 {
	case 0, 1, 2, 3:
		p.come(name, policy.Priority(int(arg/4)%3-1), arg%16 == 15)
	case 4, 5, 6:
		p.release(int(arg))
	case 7:
		p.leave(int(arg))
	case 8, 9:
		if verb%12 == 9 && len(p.inside) > 0 { // those who are woken come late
			v := p.inside[0]
			p.inside = p.inside[1:]
			p.g.Release(p.now, v.slot)
		}
		p.now = p.now.Add(time.Duration(arg) * ms / 16)
		p.timers()
	case 10:
		p.now = p.now.Add(time.Duration(arg) * ms)
		p.timers()
	case 11:
		if arg%8 == 0 {
			p.r.Limit = int(arg / 8 % 6)
			p.g.SetLimit(p.r.Limit)
			p.shrunk = true
		}
	}
	p.collect()
	p.check()
}

func (p *played) come(name string, class policy.Priority, hurried bool) {
	v := &visitor{name: name, class: class, came: p.now, deadline: clock.Never}
	if hurried {
		v.deadline = p.now.Add(7 * ms)
	}
	if s, ok := p.g.Enter(p.now, name); ok {
		v.slot = s
		p.inside = append(p.inside, v)
		return
	}
	switch a := p.g.Join(p.now, &v.Wait, v, class, name, v.deadline); a {
	case Waiting:
		p.waiting = append(p.waiting, v)
	case OverShare:
		if !p.r.Fair || p.held(p.waiting, name) == 0 {
			p.t.Fatalf("%q has no place in the queue and is over its share", name)
		}
		if v.Whole() {
			p.t.Fatal("what one tenant has too much of is not the server's")
		}
	case QueueFull:
		if len(p.waiting) < p.r.Queue {
			p.t.Fatalf("the queue is full with %d of %d", len(p.waiting), p.r.Queue)
		}
	default:
		p.t.Fatalf("Join answers %d", a)
	}
}

func (p *played) held(all []*visitor, name string) (n int) {
	for _, v := range all {
		if v.name == name {
			n++
		}
	}
	return n
}

func (p *played) release(i int) {
	if len(p.inside) == 0 {
		return
	}
	i %= len(p.inside)
	v := p.inside[i]
	p.inside = slices.Delete(p.inside, i, i+1)
	p.g.Release(p.now, v.slot)
	p.collect()
	if _, over := p.g.Stats(); !over || p.r.Interval == 0 {
		return
	}
	for _, v := range p.waiting {
		if p.now.Sub(v.came) >= p.r.Target && len(p.inside) >= p.r.Limit && !p.soon(v) {
			p.t.Fatalf("in an overload %q goes on waiting after %v", v.name, p.now.Sub(v.came))
		}
	}
}

// soon reports whether there are slots enough for such as v: one of a lower class got one
// not long ago, or its tenant has some and fewer than its part.
func (p *played) soon(v *visitor) bool {
	for class, at := range p.got {
		if class < v.class && p.now.Sub(at) < p.r.Interval {
			return true
		}
	}
	names := map[string]bool{}
	for _, v := range append(slices.Clone(p.inside), p.waiting...) {
		names[v.name] = true
	}
	has := p.held(p.inside, v.name)
	return p.r.Fair && has > 0 && has*len(names) < len(p.inside)
}

// leave is a caller who gives up.
func (p *played) leave(i int) {
	if len(p.waiting) > 0 {
		p.quit(p.waiting[i%len(p.waiting)])
	}
}

func (p *played) quit(v *visitor) {
	s, a := p.g.Leave(p.now, &v.Wait)
	p.end(v, s, a)
	late := p.now >= v.deadline
	if a == Gone && (late || p.now >= v.Until()) || a == TooLong && (late || p.now < v.Until() && v.rung == 0) || a == Expired && !late {
		p.t.Fatalf("answer %d %v after it came", a, p.now.Sub(v.came))
	}
}

// timers ends the waits that are over.
func (p *played) timers() {
	for _, v := range slices.Clone(p.waiting) {
		if p.now >= v.Until() && slices.Contains(p.waiting, v) {
			p.quit(v)
			p.collect()
		}
	}
}

// collect asks for all who were woken.
func (p *played) collect() {
	for again := true; again; {
		again = false
		for _, v := range slices.Clone(p.waiting) {
			if v.rung > 0 {
				s, a := p.g.Ask(p.now, &v.Wait)
				if a == Waiting {
					p.t.Fatal("woken for nothing")
				}
				p.end(v, s, a)
				again = true
			}
		}
	}
}

func (p *played) end(v *visitor, s Slot, a Answer) {
	p.waiting = slices.DeleteFunc(p.waiting, func(w *visitor) bool { return w == v })
	if s.Held() != (a == Admitted) || a == Waiting {
		p.t.Fatalf("answer %d with the slot %v", a, s)
	}
	if a == Admitted {
		if p.now >= v.deadline {
			p.t.Fatal("admitted after its deadline")
		}
		v.slot = s
		p.inside = append(p.inside, v)
		p.got[v.class] = p.now
	}
	if again, a := p.g.Ask(p.now, &v.Wait); again.Held() || a == Waiting || a == Admitted {
		p.t.Fatalf("asked again: %v, %d", again, a)
	}
}

// check compares what the gate says with what is known, and looks for a free slot that a waiting
// request may have.
func (p *played) check() {
	s, _ := p.g.Stats()
	if s.InUse != len(p.inside) || s.Queued != len(p.waiting) {
		p.t.Fatalf("%d in use and %d waiting, of %d and %d", s.InUse, s.Queued, len(p.inside), len(p.waiting))
	}
	if !p.shrunk && s.InUse > p.r.Limit {
		p.t.Fatalf("%d in use of %d", s.InUse, p.r.Limit)
	}
	most := p.r.Limit
	if p.r.Fair && p.r.TenantShare > 0 {
		most = max(int(p.r.TenantShare*float64(p.r.Limit)), 1)
	}
	for _, name := range visitors {
		if n := p.held(p.inside, name); !p.shrunk && n > most {
			p.t.Fatalf("%q has %d slots of %d", name, n, most)
		}
		if s.InUse < p.r.Limit && p.held(p.waiting, name) > 0 && p.held(p.inside, name) < most {
			p.t.Fatalf("%q waits and may have a slot: %+v", name, s)
		}
	}
	if !p.g.waitsRight(len(p.waiting)) {
		p.t.Fatal("the list of those who wait is not theirs")
	}
}

func (g *Gate) waitsRight(n int) bool {
	count := 0
	for w := g.waits.head; w != nil; w = w.next {
		if count++; !w.listed || w.next != nil && w.next.came < w.came {
			return false
		}
	}
	return count == n
}

func (p *played) finish() {
	for len(p.waiting) > 0 {
		p.leave(0)
		p.collect()
	}
	for len(p.inside) > 0 {
		p.release(0)
	}
	p.check()
}

func play(t testing.TB, kind byte, script []byte) {
	r := Rules{
		Limit: int(kind%4) + 1, Queue: int(kind / 4 % 8), Order: Order(kind / 32 % 3),
		Target: 5 * ms, Interval: 40 * ms, Fair: kind&1 == 1,
	}
	if kind&3 == 3 {
		r.TenantShare = 0.5
	}
	if kind%7 == 0 {
		r.Interval = 0
	}
	p := &played{t: t, g: New(r), r: r, got: map[policy.Priority]clock.Instant{}}
	for i := 0; i+1 < min(len(script), 4000); i += 2 {
		p.step(script[i], script[i+1])
	}
	p.finish()
}

func TestRandomRequestsLeaveEverySlotFree(t *testing.T) {
	for kind := range byte(250) {
		script := make([]byte, 2000)
		for i := range script {
			script[i] = byte(chance.Bits(uint64(kind), uint64(i), 0, chance.Backoff))
		}
		play(t, kind, script)
	}
}

func FuzzGate(f *testing.F) {
	f.Add(byte(3), []byte{0, 1, 0, 1, 0, 1, 8, 200, 4, 0, 4, 0, 7, 0})
	f.Add(byte(40), []byte{0, 0, 0, 4, 0, 8, 10, 50, 4, 0, 11, 8, 0, 15, 10, 9})
	f.Fuzz(func(t *testing.T, kind byte, script []byte) { play(t, kind, script) })
}

func TestTheNewestGoesFirstInAnOverload(t *testing.T) {
	for _, c := range []struct {
		order Order
		first int // of those who came at 0, 1 and 2 ms of the overload
	}{{FIFO, 0}, {Adaptive, 2}, {LIFO, 2}} {
		g := New(Rules{Limit: 1, Queue: 100, Order: c.order, Target: 50 * ms, Interval: 100 * ms})
		slot, _ := g.Enter(0, "")
		var wait Wait
		g.Join(0, &wait, nil, 0, "", clock.Never)
		g.mu.Lock() // as after an interval in which no request was served in time
		g.control.late(at(0))
		g.control.late(at(100 * ms))
		g.setState()
		g.mu.Unlock()
		g.Leave(at(100*ms), &wait)
		var all [3]visitor
		for i := range all {
			g.Join(at(time.Duration(100+i)*ms), &all[i].Wait, &all[i], 0, "", clock.Never)
		}
		g.Release(at(104*ms), slot)
		for i := range all {
			if woken := all[i].rung > 0; woken != (i == c.first) {
				t.Errorf("order %d: request %d was woken: %v", c.order, i, woken)
			}
		}
	}
}

// A class has its turn, and its places in the queue, only while no request of a higher class waits.
func TestALowerClassGivesWayHoweverOftenItDid(t *testing.T) {
	const high = 100 // more than a bulkhead of a policy lets go first
	g := New(Rules{Limit: 1, Queue: high + 1, Target: 50 * ms, Interval: 100 * ms})
	slot, _ := g.Enter(0, "")
	var all [high + 1]visitor // the first is of the low class
	for i := range all {
		class := policy.PriorityHigh
		if i == 0 {
			class = policy.PriorityLow
		}
		if a := g.Join(0, &all[i].Wait, &all[i], class, "", clock.Never); a != Waiting {
			t.Fatal(a)
		}
	}
	for i := range high {
		g.Release(0, slot)
		v := &all[i+1]
		if slot, _ = g.Ask(0, &v.Wait); !slot.Held() || all[0].rung > 0 {
			t.Fatalf("the low one has its turn after %d of %d high ones", i, high)
		}
	}
	g.Release(0, slot)
	if slot, _ = g.Ask(0, &all[0].Wait); !slot.Held() {
		t.Error("the low one has no turn where it waits alone")
	}
	g.Resize(1, 1)
	low, other := new(visitor), new(visitor)
	g.Join(0, &low.Wait, low, policy.PriorityLow, "", clock.Never)
	if a := g.Join(0, &other.Wait, other, policy.PriorityHigh, "", clock.Never); a != Waiting {
		t.Errorf("a high one finds no place in a queue of low ones: %v", a)
	}
	if _, a := g.Ask(0, &low.Wait); low.rung == 0 || a == Waiting || a == Admitted {
		t.Errorf("the low one was not pushed out: %v", a)
	}
}

func TestAFreeSlotCostsNoAllocation(t *testing.T) {
	for _, fair := range []bool{false, true} {
		g := New(Rules{Limit: 10, Queue: 10, Target: DefaultTarget, Interval: DefaultInterval, Fair: fair, TenantShare: 0.5})
		if n := testing.AllocsPerRun(100, func() {
			s, _ := g.Enter(0, "tenant")
			g.Release(1, s)
		}); n != 0 {
			t.Errorf("fair %v: %v allocations", fair, n)
		}
	}
}
