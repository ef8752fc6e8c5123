package h1

import (
	"sync"
	"time"
)

// soon is after how long the request's context is watched at the latest, if more of the answer is waited for. To watch one costs eleven
// allocations, and a deadline of the connection a timer; most answers are whole sooner. A cancel is seen this much later.
const soon = 10 * time.Millisecond

// hurried are exchanges whose contexts are not watched yet. Their readers are woken when a timer has rung twice, and begin to watch.
type hurried struct {
	mu       sync.Mutex // guards all
	new, old *exchange  // those that came since it rang, and before
	timer    *time.Timer
	rings    bool
}

// turn is an exchange's place among those that hurry.
type turn struct {
	at         **exchange // what points to it; nil means that it is not among them
	next       *exchange
	overlooked bool // it was woken
}

// hurries puts off the watch over the context, and reports whether it did.
func (x *exchange) hurries() bool {
	if x.c.tls != nil || x.c.socket == nil {
		return false
	}
	if end, timed := x.ctx.Deadline(); timed && time.Until(end) < soon {
		return false
	}
	x.t.hurried.add(x)
	return true
}

func (h *hurried) add(x *exchange) {
	h.mu.Lock()
	defer h.mu.Unlock()
	x.link(&h.new)
	switch {
	case h.rings:
		return
	case h.timer == nil:
		h.timer = time.AfterFunc(soon/2, h.ring)
	default:
		h.timer.Reset(soon / 2)
	}
	h.rings = true
}

func (x *exchange) link(first **exchange) {
	x.turn = turn{at: first, next: *first}
	if x.turn.next != nil {
		x.turn.next.turn.at = &x.turn.next
	}
	*first = x
}

// remove takes an exchange out, and reports whether its connection is fit for another one.
func (h *hurried) remove(x *exchange) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if x.turn.at != nil {
		*x.turn.at = x.turn.next
		if x.turn.next != nil {
			x.turn.next.turn.at = x.turn.at
		}
		x.turn.at, x.turn.next = nil, nil
	}
	return !x.turn.overlooked || x.c.SetReadDeadline(time.Time{}) == nil
}

// ring wakes those that it has seen before.
func (h *hurried) ring() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for x := h.old; x != nil; x = x.turn.next {
		x.turn.overlooked = true
		_ = x.c.SetReadDeadline(time.Unix(1, 0))
	}
	for h.old != nil { // they may stay asleep in a body that nobody reads
		x := h.old
		h.old, x.turn.at, x.turn.next = x.turn.next, nil, nil
	}
	if h.old = h.new; h.old != nil {
		h.old.turn.at = &h.old
		h.new = nil
	}
	if h.rings = h.old != nil; h.rings {
		h.timer.Reset(soon / 2)
	}
}
