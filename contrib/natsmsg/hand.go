package natsmsg

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// An item is a delivery that this process keeps.
type item struct {
	raw       *nats.Msg
	seq       uint64 // in the stream
	delivered int
	order     string
	line      *line     // that it stands in, nil if it is not ordered
	came      time.Time // when it was delivered
	kept      time.Time // when the broker was last told that it is worked on
	running   bool      // from its beginning until the broker has heard of its end
	tries     int       // in this process since it came

	said  []byte    // the last reply to the broker about its end
	ended time.Time // when that was sent first
	asked time.Time // when that was sent last
}

// A line is what waits for its turn among messages of one order key. It is guarded by the hand's
// mu.
type line struct {
	key     string
	items   []*item // by their sequence
	claimed bool    // its first is ready, runs, or waits until due
	due     time.Time
}

// A hand is the messages that this process has, from when they come until the broker has heard of
// their end, and the order in which they are begun. Of each line one message at most is ready, runs
// or waits until it is due.
type hand struct {
	ordered    bool
	ahead      int           // messages that are kept beside those that are worked on, if they are ordered
	visibility time.Duration // for which the broker keeps a delivery from others

	mu      sync.Mutex // guards all below
	all     map[uint64]*item
	lines   map[string]*line
	ready   []*item
	delayed []*line
	arrival arrival
	closed  bool // nothing comes and nothing is begun any more
}

// count is how many messages it has.
func (h *hand) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.all)
}

// stands reports whether all that it has waits for others of its order, or is worked on.
func (h *hand) stands() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.ordered && len(h.ready) == 0
}

// add keeps a delivery, and reports whether it does: a closed hand does not. Who has the message
// already answers for this delivery too.
func (h *hand) add(it *item, p place) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return false
	}
	if h.ordered {
		h.arrival.note(p, it.came, h.visibility)
	}
	if old := h.all[it.seq]; old == nil {
		h.place(it)
	} else if !old.running {
		old.raw, old.delivered, old.kept = it.raw, it.delivered, it.came
	}
	return true
}

// place puts a message among those that wait. mu is held.
func (h *hand) place(it *item) {
	h.all[it.seq] = it
	if it.order == "" {
		h.ready = append(h.ready, it)
		return
	}
	l := h.lines[it.order]
	if l == nil {
		l = &line{key: it.order}
		h.lines[it.order] = l
	}
	it.line = l
	at, _ := slices.BinarySearchFunc(l.items, it.seq, func(a *item, seq uint64) int {
		if a.seq < seq {
			return -1
		}
		return 1
	})
	if at == 0 && len(l.items) > 0 && (l.items[0].running || l.items[0].tries > 0) {
		at = 1 // what began comes first, and then what came late
	}
	l.items = slices.Insert(l.items, at, it)
	if !l.claimed {
		l.claimed = true
		h.ready = append(h.ready, l.items[0])
	}
}

// next returns the next message to work on, if there is one and room for it, which is asked for under the
// lock. slots is how many are worked on at once.
func (h *hand) next(slots int, room func() bool) *item {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed || len(h.ready) == 0 || h.ordered && !h.arrival.complete(time.Now(), len(h.all) >= slots+h.ahead) || !room() {
		return nil
	}
	it := h.ready[0]
	h.ready[0] = nil
	h.ready = h.ready[1:]
	if it.line != nil {
		it = it.line.items[0] // one that came late may be first
	}
	it.running = true
	return it
}

// over takes out a message, and lets the next go on that waits for it.
func (h *hand) over(it *item) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.all, it.seq)
	h.pass(it)
}

// ended lets the next go on that waits for a message. The message stays until forget.
func (h *hand) ended(it *item) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.pass(it)
}

// forget takes out messages that have ended, by their places.
func (h *hand) forget(ended ...uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, seq := range ended {
		delete(h.all, seq)
	}
}

// pass lets the next go on that waits for a message. mu is held.
func (h *hand) pass(it *item) {
	l := it.line
	if l == nil {
		return
	}
	if at := slices.Index(l.items, it); at >= 0 {
		l.items = slices.Delete(l.items, at, at+1)
	}
	if len(l.items) == 0 {
		delete(h.lines, l.key)
		return
	}
	l.due = time.Time{}
	h.ready = append(h.ready, l.items[0])
}

// hold keeps a message to work on it again in this process, and reports whether it does: a closed
// hand does not. Only one of a line waits. tried says that it was begun.
func (h *hand) hold(it *item, after time.Duration, tried bool) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return false
	}
	if tried {
		it.tries++
	}
	it.running = false
	if it.line == nil {
		h.ready = append(h.ready, it)
	} else {
		it.line.due = time.Now().Add(after)
		h.delayed = append(h.delayed, it.line)
	}
	return true
}

// due makes the lines ready whose wait is over.
func (h *hand) due(now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.delayed = slices.DeleteFunc(h.delayed, func(l *line) bool {
		if now.Before(l.due) {
			return false
		}
		h.ready = append(h.ready, l.items[0])
		return true
	})
}

// longest is how long a message is kept that can't be begun, since the policy refuses.
const longest = 5 * time.Minute

// keep returns where the messages are answered that need a heartbeat to the broker, and takes out
// those that were kept for too long.
func (h *hand) keep(now time.Time) (beats []string, back []*item) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, it := range h.all {
		switch {
		case it.running:
		case it.line == nil && now.Sub(it.came) > longest:
			back = append(back, it)
		case now.Sub(it.kept) > h.visibility/3:
			it.kept = now
			beats = append(beats, it.raw.Reply)
		}
	}
	for _, it := range back {
		delete(h.all, it.seq)
	}
	if len(back) > 0 {
		h.ready = slices.DeleteFunc(h.ready, func(it *item) bool { return slices.Contains(back, it) })
	}
	return beats, back
}

// close takes out all messages that are not worked on, by their place. It takes no more.
func (h *hand) close() (back []*item) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	for seq, it := range h.all {
		if !it.running {
			back = append(back, it)
			delete(h.all, seq)
		}
	}
	h.ready, h.delayed = nil, nil
	for _, l := range h.lines {
		l.items = slices.DeleteFunc(l.items, func(it *item) bool { return !it.running })
	}
	slices.SortFunc(back, func(a, b *item) int { return cmp.Compare(a.seq, b.seq) })
	return back
}
