package admission

import (
	"github.com/gabion-go/gabion/internal/bulkhead"
	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/policy"
)

// Answer says what has become of a request.
type Answer uint8

// The answers.
const (
	Waiting   Answer = iota // for a slot
	Admitted                // here is the slot
	QueueFull               // refused: the queue is full
	TooLong                 // refused: it waited for as long as it may
	PushedOut               // refused: its place in the queue went to a tenant with fewer there, or to a higher class
	OverShare               // refused: its tenant has all that one may have
	Expired                 // its deadline passed before its turn came
	Gone                    // its caller gave up before its turn came
	Short                   // refused: too little time is left for the work
	NumAnswers
)

// Wait is one request in the queue. [Gate.Join] fills it, and it is not used again.
type Wait struct {
	wait     *bulkhead.Waiter
	waker    bulkhead.Waker
	tenant   string
	came     clock.Instant
	until    clock.Instant // when it may wait no longer
	deadline clock.Instant
	last     clock.Instant // when it may be begun at the latest
	class    int           // of its priority, the lowest is 0
	prev     *Wait
	next     *Wait // in a list
	listed   bool
	slot     Slot   // handed over while it was being refused
	answer   Answer // Waiting until the gate has refused it
	whole    bool
}

// Wake implements [bulkhead.Waker].
func (w *Wait) Wake() {
	if w.waker != nil {
		w.waker.Wake()
	}
}

// Until is when the wait is over: the caller must then call [Gate.Leave].
func (w *Wait) Until() clock.Instant { return w.until }

// Whole reports, of a request that was refused, whether that was in an overload of the
// whole server: neither only its tenant nor only its priority asks for too much. Asking
// again soon is then of no use to anybody.
func (w *Wait) Whole() bool { return w.whole }

// Join puts a request in the queue. The deadline is the caller's; clock.Never means no deadline. It
// answers Waiting, and then calls waker when [Gate.Ask] has another answer, perhaps before Join
// returns; or it answers why the request is refused.
func (g *Gate) Join(now clock.Instant, w *Wait, waker bulkhead.Waker, p policy.Priority, tenant string, deadline clock.Instant) Answer {
	last := g.last(now, deadline)
	*w = Wait{waker: waker, tenant: tenant, came: now, until: last, last: last, deadline: deadline, class: class(p)}
	if i := g.rules.Interval; i > 0 {
		w.until = min(last, now.Add(i))
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.control.arrived(now, false)
	if g.room() {
		g.control.calm()
	} else if g.waitsLong(now) {
		g.control.late(now)
	}
	bw, ok := g.b.Join(w, p, tenant)
	if ok {
		w.wait = bw
		g.waits.push(w)
	} else {
		g.noRoom(now, w)
	}
	g.setState()
	return w.answer
}

// last is when a request must be begun at the latest. Where it is tried though it has too
// little time, that is its deadline.
func (g *Gate) last(now, deadline clock.Instant) clock.Instant {
	if g.worth == nil || deadline == clock.Never {
		return deadline
	}
	left, least := deadline.Sub(now), g.worth.took.Least(now)
	if left < least || g.worth.lacks(now, left) {
		return deadline
	}
	return deadline.Add(-least)
}

// tooLate is the answer to one who is not begun because it is too late: Waiting if it is not.
func (g *Gate) tooLate(now clock.Instant, w *Wait) Answer {
	switch {
	case now >= w.deadline:
		return Expired
	case now >= w.last, w.last < w.deadline && g.worth.lacks(now, w.deadline.Sub(now)):
		return Short
	}
	return Waiting
}

// noRoom refuses a request for which there is no room in the queue. g.mu is held.
func (g *Gate) noRoom(now clock.Instant, w *Wait) {
	if g.crowds(w) {
		w.answer = OverShare
		return
	}
	g.control.noRoom(now)
	w.answer, w.whole = QueueFull, g.control.state == overload
}

// Ask says what has become of a wait. The slot is the caller's if the answer is Admitted, which
// it is once. With any other answer the gate has none for it, or has given it back.
func (g *Gate) Ask(now clock.Instant, w *Wait) (Slot, Answer) {
	g.mu.Lock()
	if w.answer != Waiting {
		return g.collect(now, w)
	}
	s, a := g.b.Granted(w.wait)
	switch a {
	case bulkhead.Granted:
		return g.granted(now, w, s)
	case bulkhead.PushedOut:
		g.end(w)
		w.answer = PushedOut
	}
	defer g.mu.Unlock()
	return Slot{}, w.answer
}

// granted ends a wait with a slot. One that comes too late for the request goes back to the gate. It unlocks.
func (g *Gate) granted(now clock.Instant, w *Wait, s Slot) (Slot, Answer) {
	g.end(w)
	if g.room() {
		g.control.calm()
	} else {
		g.control.served(now, now.Sub(w.came))
	}
	g.setState()
	g.served[w.class] = now
	w.answer = Admitted
	if late := g.tooLate(now, w); late != Waiting {
		w.answer = late
	}
	answer := w.answer
	g.mu.Unlock()
	if answer != Admitted {
		g.Release(now, s)
		return Slot{}, answer
	}
	return s, Admitted
}

// Leave ends a wait because its time is over, or because its caller is gone. The answer
// is Admitted, with the slot, if that was handed over meanwhile.
func (g *Gate) Leave(now clock.Instant, w *Wait) (Slot, Answer) {
	g.mu.Lock()
	if w.answer != Waiting {
		return g.collect(now, w)
	}
	if s, ok := g.b.Leave(w.wait); ok {
		return g.granted(now, w, s)
	}
	defer g.mu.Unlock()
	g.end(w)
	switch late := g.tooLate(now, w); {
	case late != Waiting && now >= w.until:
		w.answer = late
	case now >= w.until:
		g.refuse(w)
	default:
		w.answer = Gone
	}
	return Slot{}, w.answer
}

// collect is the answer of a wait that the gate has ended. It unlocks.
func (g *Gate) collect(now clock.Instant, w *Wait) (Slot, Answer) {
	if s := w.slot; s.Held() {
		w.slot = Slot{}
		return g.granted(now, w, s)
	}
	defer g.mu.Unlock()
	if w.answer == Admitted {
		return Slot{}, Gone // it was handed over already
	}
	return Slot{}, w.answer
}

// shed refuses those who have waited for too long in an overload. g.mu is held.
func (g *Gate) shed(now clock.Instant, refused *list) {
	for w := g.waits.head; w != nil && g.control.state == overload && now.Sub(w.came) >= g.rules.Target; {
		next := w.next
		if g.isNext(now, w) {
			w = next
			continue
		}
		s, ok := g.b.Leave(w.wait)
		g.end(w)
		if ok {
			w.slot, w.answer = s, Admitted // and woken already
		} else {
			g.refuse(w)
			refused.push(w)
		}
		w = next
	}
}

// isNext reports whether a request waits only for the next slots to come free, and not for lack of
// them: one of a lower class got a slot not long ago, so that there are enough for the
// class; or its tenant has slots, and fewer than its part. Where all work takes as long,
// slots come free together, and no request gets one in between. g.mu is held.
func (g *Gate) isNext(now clock.Instant, w *Wait) bool {
	for _, at := range g.served[:w.class] {
		if now.Sub(at) < g.rules.Interval {
			return true
		}
	}
	if !g.rules.Fair {
		return false
	}
	has, _, tenants := g.b.Tenants(w.tenant)
	used, _, _ := g.b.Occupancy()
	return has > 0 && has*tenants < used
}

// class is that of a priority, from the lowest one on.
func class(p policy.Priority) int {
	switch {
	case p < policy.PriorityNormal:
		return 0
	case p > policy.PriorityNormal:
		return 2
	}
	return 1
}

// refuse answers one who has waited for too long. g.mu is held.
func (g *Gate) refuse(w *Wait) {
	w.answer, w.whole = TooLong, g.control.state == overload && !g.crowds(w)
}

// end takes a wait out of the list. g.mu is held.
func (g *Gate) end(w *Wait) {
	g.waits.remove(w)
	if g.waits.head == nil {
		g.control.calm()
		g.setState()
	}
}

// crowds reports whether the tenant of a request that gets no place in the queue has more
// requests there than the others, with this one. g.mu is held.
func (g *Gate) crowds(w *Wait) bool {
	if !g.rules.Fair {
		return false
	}
	_, waiting, tenants := g.b.Tenants(w.tenant)
	queued := g.b.Queued()
	return waiting > 0 && (waiting+1)*tenants > queued+1 || g.places > 0 && waiting >= g.places
}

// list is waits in the order in which they came.
type list struct{ head, tail *Wait }

func (l *list) push(w *Wait) {
	w.prev, w.next, w.listed = l.tail, nil, true
	if l.tail == nil {
		l.head = w
	} else {
		l.tail.next = w
	}
	l.tail = w
}

func (l *list) remove(w *Wait) {
	if !w.listed {
		return
	}
	if w.prev == nil {
		l.head = w.next
	} else {
		w.prev.next = w.next
	}
	if w.next == nil {
		l.tail = w.prev
	} else {
		w.next.prev = w.prev
	}
	w.prev, w.next, w.listed = nil, nil, false
}

// wake wakes all in a list that only the caller has. No lock is held.
func (l *list) wake() {
	for w := l.head; w != nil; {
		next := w.next
		w.prev, w.next = nil, nil
		w.Wake()
		w = next
	}
}
