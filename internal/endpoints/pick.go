package endpoints

import "github.com/gabion-go/gabion/internal/clock"

// List are the endpoints of a dependency. It never changes: a reload makes another one, which has
// those that stay.
type List struct {
	Rules Rules
	All   []*Endpoint
}

// Query is what is known when an attempt wants an endpoint.
type Query struct {
	Out   Set        // those whose breaker refuses
	Due   Set        // those that one attempt may find out about
	Late  Set        // of Due, those that no call has found out about for a while: any first attempt may
	Tried Set        // those where this call has been
	Full  Set        // those that would have to wait for room in a quota
	Shut  Set        // of Out, those shut by hand: they get nothing while another one is there
	First bool       // the call has sent nothing yet
	Moves bool       // the work may be done at any endpoint, and at another one after it failed
	U     [3]float64 // draws
}

// Why says why an endpoint was chosen.
type Why uint8

// The reasons.
const (
	Usual    Why = iota
	Probe        // to find out whether it works again
	Standing     // a backup, to know that it works
	Panicked     // none works, as far as is known, so none is left out
)

func (l *List) all() Set { return ^Set(0) >> (Max - len(l.All)) }

// Note notes which endpoints are left out now, and returns those of which that is new.
func (l *List) Note(now clock.Instant, gone Set) (changed Set) {
	for i, e := range l.All {
		if e.note(now, gone.Has(i)) {
			changed |= Of(i)
		}
	}
	return changed
}

// Ejected returns which of those that don't work get no attempts: those that were left out first, within
// the bound. Where none works, none is left out.
func (l *List) Ejected(gone Set) (out Set) {
	n := len(l.All)
	if gone = gone & l.all(); gone == 0 || gone == l.all() || l.Rules.Ejected <= 0 {
		return 0
	}
	room := max(int(l.Rules.Ejected*float64(n)), 1)
	for ; room > 0 && gone != 0; room-- {
		first := gone.First()
		for s := gone & (gone - 1); s != 0; s &= s - 1 {
			if i := s.First(); l.All[i].since() < l.All[first].since() {
				first = i
			}
		}
		out, gone = out|Of(first), gone&^Of(first)
	}
	return out
}

func (e *Endpoint) since() clock.Instant {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.changed
}

// Pick chooses the endpoint of an attempt. It goes where the call was not before, if there is
// one that works. A list without endpoints must not be asked.
func (l *List) Pick(now clock.Instant, q *Query) (at int, why Why) {
	gone := (q.Out | q.Due) & l.all()
	panicked := gone == l.all()
	if due := q.asks(panicked) & l.all() &^ q.Tried &^ q.Full; due != 0 {
		return l.probe(due, q), Probe
	}
	open := l.all()
	switch {
	case panicked:
		if others := open &^ q.Shut; others != 0 {
			open = others
		}
	case q.First && !l.Rules.Ordered: // also those past the bound, so that the others are not overrun
		open &^= l.Ejected(gone)
	default:
		open &^= gone
	}
	if roomy := open &^ q.Full; roomy != 0 {
		open = roomy
	}
	if fresh := open &^ q.Tried; fresh != 0 {
		open = fresh
	}
	if panicked {
		why = Panicked
	}
	if l.Rules.Ordered {
		return l.ordered(now, open, q, why)
	}
	return l.equal(now, open, q), why
}

// asks are those that the attempt may find out about.
func (q *Query) asks(panicked bool) Set {
	switch {
	case panicked || q.First && q.Moves:
		return q.Due
	case q.First:
		return q.Due & q.Late
	}
	return 0
}

func (l *List) probe(due Set, q *Query) int {
	if l.Rules.Ordered {
		return due.First()
	}
	return due.pick(q.U[0])
}

// ordered is the first that works, or now and then one of the others.
func (l *List) ordered(now clock.Instant, open Set, q *Query, why Why) (int, Why) {
	first := l.whole(now, open, q).First()
	rest := open &^ Of(first)
	if rest = rest &^ (Of(first) - 1); rest != 0 && why == Usual && q.First && q.Moves && q.U[0] < l.Rules.Standing {
		return rest.pick(q.U[2]), Standing
	}
	return first, why
}

// whole leaves out those that are to get less than their share for now, unless there is no other.
func (l *List) whole(now clock.Instant, open Set, q *Query) Set {
	kept := open
	for s := open; s != 0; s &= s - 1 {
		i := s.First()
		u := q.U[1] + float64(i)*0.618033988749895 // another draw for each
		if u -= float64(int(u)); u >= l.All[i].share(now, l.Rules.SlowStart) {
			kept &^= Of(i)
		}
	}
	if kept == 0 {
		return open
	}
	return kept
}

// equal is the better of two.
func (l *List) equal(now clock.Instant, open Set, q *Query) int {
	open = l.whole(now, open, q)
	a := open.pick(q.U[0])
	rest := open &^ Of(a)
	if rest == 0 {
		return a
	}
	b := rest.pick(q.U[2])
	costA, outA := l.All[a].load(now)
	costB, outB := l.All[b].load(now)
	if costA == 0 || costB == 0 { // one of them is not known yet
		costA, costB = 1, 1
	}
	if float64(costB*float64(outB+1)) < float64(costA*float64(outA+1)) {
		return b
	}
	return a
}
