// Package overdue tells of what lasts longer than most. One timer serves all, since a timer for each costs as much as what is short.
package overdue

import (
	"sync"
	"time"
)

// Soon is after how long a Waiter learns that it is overdue, at the latest. It learns that after half of it at the earliest.
const Soon = 10 * time.Millisecond

// Waiter is what may become overdue.
type Waiter interface {
	// Overdue is called once at most, by another goroutine and with the list's lock, so it must not wait, and must not use the list.
	Overdue()
}

// List has those that wait. The zero List is empty. It is safe for concurrent use and must not be copied.
type List struct {
	mu       sync.Mutex // guards all, and all Places
	new, old *Place     // those that came since the timer rang, and before
	timer    *time.Timer
	rings    bool
}

// Place is that of a Waiter in a List. The zero Place is in none.
type Place struct {
	at   **Place // what points to it; nil means that it is in no list
	next *Place
	of   Waiter
}

// Add puts w into the list, at a place that is in none.
func (l *List) Add(p *Place, w Waiter) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p.at, p.next, p.of = &l.new, l.new, w
	if p.next != nil {
		p.next.at = &p.next
	}
	l.new = p
	switch {
	case l.rings:
		return
	case l.timer == nil:
		l.timer = time.AfterFunc(Soon/2, l.ring)
	default:
		l.timer.Reset(Soon / 2)
	}
	l.rings = true
}

// Remove takes a place out, if it is in the list. After that its Waiter is not called.
func (l *List) Remove(p *Place) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p.leave()
}

func (p *Place) leave() {
	if p.at == nil {
		return
	}
	if *p.at = p.next; p.next != nil {
		p.next.at = p.at
	}
	*p = Place{}
}

// ring tells those that were there when the timer rang before.
func (l *List) ring() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.old != nil {
		w := l.old.of
		l.old.leave()
		w.Overdue()
	}
	if l.old, l.new = l.new, nil; l.old != nil {
		l.old.at = &l.old
	}
	if l.rings = l.old != nil; l.rings {
		l.timer.Reset(Soon / 2)
	}
}
