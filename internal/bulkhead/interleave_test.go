package bulkhead

import (
	"fmt"
	"testing"

	"github.com/gabion-go/gabion/internal/interleave"
)

// house is a bulkhead of eight slots with two shelves of two, and what is known of it
// from outside.
type house struct {
	b      *Bulkhead
	limit  int // the largest that may be in force
	least  int // the smallest
	slots  []Slot
	out    int      // slots that somebody surely has
	most   int      // that somebody may have, or is taking or giving back
	trying []*guest // those who try now
	stays  []*Waiter
	wrong  error
}

// guest tries to get a slot.
type guest struct {
	most   int // the most slots that others may have had meanwhile
	least  int // the smallest limit that may have been in force
	queued int // stays that had begun, when the trying did
}

// newHouse lets in five guests, opens the shelves and lets in three more, whose slots
// go back to the first of them.
func newHouse() *house {
	h := &house{b: New(8, 4, false, 2), limit: 8, least: 8}
	for n := range 8 {
		if n == 5 {
			h.b.OpenShelves()
		}
		h.try(0)
	}
	return h
}

func (h *house) may(n int) {
	h.most += n
	for _, g := range h.trying {
		g.most = max(g.most, h.most-1) // but itself
	}
}

func (h *house) try(shard uint32) bool {
	g := &guest{least: h.least, queued: len(h.stays)}
	h.trying = append(h.trying, g)
	h.may(1)
	s, ok := h.b.TryAcquire(shard, "")
	for i := range h.trying {
		if h.trying[i] == g {
			h.trying = append(h.trying[:i], h.trying[i+1:]...)
			break
		}
	}
	if !ok {
		if h.may(-1); g.most < g.least && len(h.stays) == 0 {
			h.wrong = fmt.Errorf("refused with at most %d of %d out", g.most, g.least)
		}
		return false
	}
	h.got(s)
	for _, w := range h.stays[:g.queued] {
		if w != nil && Answer(w.state.Load()) == Waiting {
			h.wrong = fmt.Errorf("somebody who waits was overtaken")
		}
	}
	return true
}

func (h *house) got(s Slot) {
	h.slots = append(h.slots, s)
	if h.out++; h.out > h.limit {
		h.wrong = fmt.Errorf("%d of %d are out", h.out, h.limit)
	}
}

// release gives back the slot that came last, which is one of a shelf, and leave the
// one that came first, which is not.
func (h *house) release() { h.giveBack(len(h.slots) - 1) }
func (h *house) leave()   { h.giveBack(0) }

func (h *house) giveBack(i int) {
	s := h.slots[i]
	h.slots = append(h.slots[:i], h.slots[i+1:]...)
	h.out--
	h.b.Release(s)
	h.may(-1)
}

// impoverish makes the next one who finds the first shelf empty find it poor, too.
func (h *house) impoverish() { (*h.b.last)[0].missed.Store(2*minMissed - 1) }

func (h *house) join() {
	h.may(1)
	w, ok := h.b.Join(nil, Normal, "")
	if !ok {
		h.wrong = fmt.Errorf("the queue is full")
		return
	}
	h.stays = append(h.stays, w)
}

// quit ends the stay that began last.
func (h *house) quit() {
	last := len(h.stays) - 1
	w := h.stays[last]
	h.stays[last] = nil
	if s, ok := h.b.Leave(w); ok {
		h.got(s)
	} else {
		h.may(-1)
	}
}

func (h *house) resize(limit int) {
	h.limit, h.least = max(h.limit, limit), min(h.least, limit) // what is out stays out
	for _, g := range h.trying {
		g.least = min(g.least, limit)
	}
	h.b.Resize(limit, 4)
	h.least = limit
}

// settled looks after those who wait, sends everybody home and counts the slots.
func (h *house) settled() error {
	limit := h.least
	for _, w := range h.stays {
		switch s, a := h.b.Granted(w); {
		case a == Granted:
			h.got(s)
		case a == Waiting && h.out < limit:
			return fmt.Errorf("somebody waits with %d of %d out", h.out, limit)
		}
	}
	for len(h.slots) > 0 {
		h.release()
	}
	for _, w := range h.stays {
		if s, ok := h.b.Leave(w); ok {
			h.b.Release(s)
		}
	}
	if h.wrong != nil {
		return h.wrong
	}
	if got := h.b.Stats(); got.InUse != 0 || got.Queued != 0 || got.Limit != limit {
		return fmt.Errorf("in the end %+v", got)
	}
	for n := range limit + 1 {
		if _, ok := h.b.TryAcquire(uint32(n), ""); ok != (n < limit) {
			return fmt.Errorf("in the end slot %d of %d is granted: %v", n+1, limit, ok)
		}
	}
	return nil
}

func TestInterleavedShelves(t *testing.T) {
	type verbs []func(h *house)
	release, leave := (*house).release, (*house).leave
	join, quit := (*house).join, (*house).quit
	try := func(shard uint32) func(h *house) { return func(h *house) { h.try(shard) } }
	resize := func(limit int) func(h *house) { return func(h *house) { h.resize(limit) } }
	fair := func(h *house) { h.b.SetFair(true) }
	unfair := func(h *house) { h.b.SetFair(false) }
	open := func(h *house) { h.b.OpenShelves() }
	look := func(h *house) { h.b.Stats() }
	poor := (*house).impoverish
	race := func(h *house) { h.b.races.Store(1) }
	for _, c := range []struct {
		fact    string
		before  verbs
		threads []verbs
	}{
		{"a release, and one that joins", nil, []verbs{{release}, {join}}},
		{"a release to a shelf, and two that join", verbs{release}, []verbs{{release, try(0)}, {join, join}}},
		{"two that try for what is on a shelf", verbs{release}, []verbs{{try(0)}, {try(1)}}},
		{"two that try for the same shelf", verbs{release, release}, []verbs{{try(0), try(0)}, {try(0)}}},
		{"two that try, and one slot is in the word", verbs{release, release, release}, []verbs{{try(0)}, {try(1), release}}},
		{"one that tries, and one that joins", verbs{release}, []verbs{{try(0)}, {join}}},
		{"two that give back to a shelf with room for one", verbs{release}, []verbs{{release}, {release}}},
		{"slots on two shelves, one that tries, and a refusal", verbs{release, release, try(1), release}, []verbs{{try(0), try(0)}, {try(1)}}},
		{"one that tries, and a shrink", verbs{release}, []verbs{{try(0)}, {resize(7), try(1)}}},
		{"one that tries, and growth", verbs{release}, []verbs{{try(0)}, {resize(16), open, try(1)}}},
		{"a release, and growth", nil, []verbs{{release, try(0)}, {resize(16), open}}},
		{"one that tries, and fairness", verbs{release}, []verbs{{try(0)}, {fair, try(1), unfair}}},
		{"a release, and fairness", nil, []verbs{{release, try(0)}, {fair, unfair}}},
		{"a release, and shelves that open", verbs{look}, []verbs{{release, try(1)}, {open}}},
		{"a release, and shelves that open where all is out", verbs{look}, []verbs{{release, try(0)}, {open, join}}},
		{"shelves that open, and one that joins", verbs{release, look}, []verbs{{open, try(0)}, {join, release}}},
		{"shelves that open, and one that tries", verbs{release, look}, []verbs{{open, try(0)}, {try(1), release}}},
		{"shelves that open, and a shrink", verbs{release, look}, []verbs{{open, try(0)}, {resize(7), try(1)}}},
		{"a release, and a look at the numbers", nil, []verbs{{release, try(0)}, {look}}},
		{"two that look", verbs{release}, []verbs{{look, try(0)}, {look}}},
		{"one that joins, and one that gives back and tries", nil, []verbs{{join}, {release, try(0)}}},
		{"one that joins, and the last in the word", verbs{release, release, release}, []verbs{{join}, {try(1), try(1)}}},
		{"two that leave, and one that joins", nil, []verbs{{leave}, {leave}, {join}}},
		{"one that gives up waiting, and a release", verbs{join}, []verbs{{quit}, {release}}},
		{"one that gives up waiting, one that leaves, and one that joins", verbs{join}, []verbs{{quit}, {leave}, {join}}},
		{"growth, and one that leaves while two wait", verbs{join, join}, []verbs{{resize(10)}, {leave}}},
		{"a shrink, and one that leaves while one waits", verbs{join}, []verbs{{resize(7)}, {leave}}},
		{"a fair one's release, and one that joins", verbs{release, fair, try(0)}, []verbs{{release}, {join}}},
		{"a fair one's release, one that leaves, and one that joins", verbs{release, fair, try(0)}, []verbs{{release}, {leave}, {join}}},
		{"a fair one's release, and one that gives up waiting", verbs{release, fair, try(0), join}, []verbs{{release}, {quit}}},
		{"two that try for a fair one's last", verbs{release, fair}, []verbs{{try(0)}, {try(1)}}},
		{"two that leave, and one that tries", nil, []verbs{{leave}, {leave, try(1)}}},
		{"one that leaves, and one that joins", nil, []verbs{{leave}, {join}}},
		{"one that leaves, and a look at the numbers", verbs{release}, []verbs{{leave, try(0)}, {look}}},
		{"one that leaves, and shelves that open", verbs{look}, []verbs{{leave, try(1)}, {open}}},
		{"one that leaves, and a shrink", verbs{release, release}, []verbs{{leave, try(0)}, {resize(7)}}},
		{"a shelf that is too poor, and one that tries", verbs{leave, leave, poor}, []verbs{{try(0)}, {try(1), release}}},
		{"a shelf that is too poor, and one that joins", verbs{leave, poor}, []verbs{{try(0)}, {join, join}}},
		{"two that find a shelf too poor", verbs{leave, leave, release, try(1), poor}, []verbs{{try(0)}, {look, try(0)}}},
		{"a lost race that opens shelves, and one that joins", verbs{look, leave, leave, race}, []verbs{{try(0)}, {try(1), join}}},
		{"a lost race that opens shelves, and one that leaves", verbs{look, leave, leave, race}, []verbs{{try(0), try(1)}, {leave, try(1)}}},
	} {
		t.Run(c.fact, func(t *testing.T) {
			interleave.Explore(t, 3, func() ([]func(), func() error) {
				h := newHouse()
				do := func(v verbs) func() {
					return func() {
						for _, verb := range v {
							verb(h)
						}
					}
				}
				do(c.before)()
				var threads []func()
				for _, v := range c.threads {
					threads = append(threads, do(v))
				}
				return threads, h.settled
			})
		})
	}
}
