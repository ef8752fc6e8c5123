package bulkhead

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gabion-go/gabion/internal/interleave"
)

// scene is a bulkhead of three slots, and what is known of it from outside.
type scene struct {
	b      *Bulkhead
	limit  int // the largest that may be in force
	least  int // the smallest
	slots  []Slot
	shard  uint32     // of the next slot
	out    int        // slots that are surely held
	most   int        // slots that may be held, or are being taken or given back
	trying []*attempt // those under way
	waits  []*Waiter
	wrong  error
}

// attempt is one TryAcquire.
type attempt struct {
	most   int // the most slots that others may have had meanwhile
	least  int // the smallest limit that may have been in force
	queued int // waits that had begun before it
}

// newScene takes all slots.
func newScene() *scene {
	s := &scene{b: New(3, 4, false), limit: 3, least: 3}
	for range 3 {
		s.try()
	}
	return s
}

// next makes threads meet on two stripes.
func (s *scene) next() uint32 {
	s.shard++
	return s.shard % 2
}

// open opens the stripes for a slot each.
func (s *scene) open() {
	s.b.mu.Lock()
	s.b.spread.open(word(s.b.word.Load()), 1)
	s.b.mu.Unlock()
}

func (s *scene) may(n int) {
	s.most += n
	for _, a := range s.trying {
		a.most = max(a.most, s.most-1) // but itself
	}
}

func (s *scene) try() {
	a := &attempt{least: s.least, queued: len(s.waits)}
	s.trying = append(s.trying, a)
	s.may(1)
	slot, ok := s.b.TryAcquire("", s.next())
	s.trying = slices.DeleteFunc(s.trying, func(x *attempt) bool { return x == a })
	if !ok {
		if s.may(-1); a.most < a.least && len(s.waits) == 0 {
			s.wrong = fmt.Errorf("refused with at most %d of %d out", a.most, a.least)
		}
		return
	}
	s.got(slot)
	for _, w := range s.waits[:a.queued] {
		if w != nil && Answer(w.state.Load()) == Waiting {
			s.wrong = fmt.Errorf("a new call got a slot before a waiter")
		}
	}
}

func (s *scene) got(slot Slot) {
	s.slots = append(s.slots, slot)
	if s.out++; s.out > s.limit {
		s.wrong = fmt.Errorf("%d of %d are out", s.out, s.limit)
	}
}

// release gives back the slot that was taken last, leave the one that was taken first.
// They differ where the last was taken while the bulkhead was fair.
func (s *scene) release() { s.giveBack(len(s.slots) - 1) }
func (s *scene) leave()   { s.giveBack(0) }

func (s *scene) giveBack(i int) {
	slot := s.slots[i]
	s.slots = slices.Delete(s.slots, i, i+1)
	s.out--
	s.b.Release(slot, s.next())
	s.may(-1)
}

func (s *scene) join() {
	s.may(1)
	w, ok := s.b.Join(nil, Normal, "")
	if !ok {
		s.wrong = fmt.Errorf("the queue is full")
		return
	}
	s.waits = append(s.waits, w)
}

// quit ends the wait that began last.
func (s *scene) quit() {
	last := len(s.waits) - 1
	w := s.waits[last]
	s.waits[last] = nil
	if slot, ok := s.b.Leave(w); ok {
		s.got(slot)
	} else {
		s.may(-1)
	}
}

func (s *scene) resize(limit int) {
	s.limit, s.least = max(s.limit, limit), min(s.least, limit) // what is out stays out
	for _, a := range s.trying {
		a.least = min(a.least, limit)
	}
	s.b.Resize(limit, 4)
	s.least = limit
}

// settled looks for waiters that were forgotten, gives all back and counts the slots.
func (s *scene) settled() error {
	limit := s.least
	for _, w := range s.waits {
		switch slot, a := s.b.Granted(w); {
		case a == Granted:
			s.got(slot)
		case a == Waiting && s.out < limit:
			return fmt.Errorf("a call waits with %d of %d out", s.out, limit)
		}
	}
	for len(s.slots) > 0 {
		s.release()
	}
	for _, w := range s.waits {
		if slot, ok := s.b.Leave(w); ok {
			s.b.Release(slot, 0)
		}
	}
	if s.wrong != nil {
		return s.wrong
	}
	if got := s.b.Stats(); got.InUse != 0 || got.Queued != 0 || got.Limit != limit {
		return fmt.Errorf("in the end %+v", got)
	}
	for n := range limit + 1 {
		if _, ok := s.b.TryAcquire("", 0); ok != (n < limit) {
			return fmt.Errorf("in the end slot %d of %d is granted: %v", n+1, limit, ok)
		}
	}
	return nil
}

func TestInterleaved(t *testing.T) {
	type verbs []func(s *scene)
	release, leave, try := (*scene).release, (*scene).leave, (*scene).try
	join, quit := (*scene).join, (*scene).quit
	resize := func(limit int) func(s *scene) { return func(s *scene) { s.resize(limit) } }
	fair := func(s *scene) { s.b.SetFair(true) }
	unfair := func(s *scene) { s.b.SetFair(false) }
	open := (*scene).open
	look := func(s *scene) { s.b.Stats() }
	for _, c := range []struct {
		fact    string
		before  verbs
		threads []verbs
	}{
		{"a release, and one that joins", nil, []verbs{{release}, {join}}},
		{"two releases, and one that joins", nil, []verbs{{release}, {release}, {join}}},
		{"a release, and two that join", verbs{release}, []verbs{{release, try}, {join, join}}},
		{"two that try for the last slot", verbs{release}, []verbs{{try}, {try}}},
		{"two that try for two slots, one of them twice", verbs{release, release}, []verbs{{try, try}, {try}}},
		{"two that try, and a release", verbs{release}, []verbs{{try}, {try, release}}},
		{"one that tries and one that joins for the last slot", verbs{release}, []verbs{{try}, {join}}},
		{"one that joins, and one that tries twice", verbs{release, release}, []verbs{{join}, {try, try}}},
		{"one that joins, and one that releases and tries", nil, []verbs{{join}, {release, try}}},
		{"two releases", nil, []verbs{{release}, {release}}},
		{"two releases, and one that tries", nil, []verbs{{release}, {release, try}}},
		{"one that tries, and a shrink", verbs{release}, []verbs{{try}, {resize(2), try}}},
		{"a release and a try, and a shrink", verbs{release}, []verbs{{release, try}, {resize(2)}}},
		{"one that tries, and growth", verbs{release}, []verbs{{try}, {resize(5), try}}},
		{"a release and a try, and growth", nil, []verbs{{release, try}, {resize(5)}}},
		{"growth, and a release while two wait", verbs{join, join}, []verbs{{resize(4)}, {release}}},
		{"a shrink, and a release while one waits", verbs{join}, []verbs{{resize(2)}, {release}}},
		{"one that tries, and fairness", verbs{release}, []verbs{{try}, {fair, try, unfair}}},
		{"a release and a try, and fairness", nil, []verbs{{release, try}, {fair, unfair}}},
		{"a release, and a look at the numbers", nil, []verbs{{release, try}, {look}}},
		{"one that gives up waiting, and a release", verbs{join}, []verbs{{quit}, {release}}},
		{"one that gives up waiting, a release, and one that joins", verbs{join}, []verbs{{quit}, {release}, {join}}},
		{"a fair release, and one that joins", verbs{release, fair, try}, []verbs{{release}, {join}}},
		{"a fair release, another, and one that joins", verbs{release, fair, try}, []verbs{{release}, {leave}, {join}}},
		{"a fair release, and one that gives up waiting", verbs{release, fair, try, join}, []verbs{{release}, {quit}}},
		{"two that try for the last slot of a fair one", verbs{release, fair}, []verbs{{try}, {try}}},
		{"a spare slot, and two that try", verbs{open, release}, []verbs{{try}, {try}}},
		{"two spare slots, and two that try", verbs{open, release, release}, []verbs{{try, try}, {try}}},
		{"a spare slot, and one that joins", verbs{open, release}, []verbs{{try}, {join}}},
		{"a release and a try on stripes, and one that joins", verbs{open}, []verbs{{release, try}, {join}}},
		{"two releases on stripes, and one that joins", verbs{open}, []verbs{{release}, {release}, {join}}},
		{"spare slots, and a shrink", verbs{open, release, release}, []verbs{{try}, {resize(2), try}}},
		{"a release and a try on stripes, and growth", verbs{open}, []verbs{{release, try}, {resize(5)}}},
		{"spare slots, and fairness", verbs{open, release, release}, []verbs{{try}, {fair, try, unfair}}},
		{"stripes that are opened, a release, and one that tries", nil, []verbs{{open}, {release, try}}},
		{"stripes that are opened, a release, and one that joins", nil, []verbs{{open}, {release}, {join}}},
		{"stripes that are opened again, and two that try", verbs{open, release}, []verbs{{try, release}, {open, try}}},
		{"stripes that are opened after a try, and one that tries", verbs{release, release}, []verbs{{try}, {try, open, release, try}}},
		{"stripes that are opened, a release on another, and two that try", verbs{release}, []verbs{{open, try}, {try, release, try}}},
		{"one that gives up waiting, stripes that are opened, and a release", verbs{join}, []verbs{{quit, open}, {release, try}}},
		{"a spare slot, and a look at the numbers", verbs{open, release}, []verbs{{try, release}, {look}}},
	} {
		t.Run(c.fact, func(t *testing.T) {
			interruptions := 5
			if strings.Contains(c.fact, "stripes") || strings.Contains(c.fact, "spare") {
				interruptions = 3 // they have many more steps
			}
			interleave.Explore(t, interruptions, func() ([]func(), func() error) {
				s := newScene()
				do := func(v verbs) func() {
					return func() {
						for _, verb := range v {
							verb(s)
						}
					}
				}
				do(c.before)()
				var threads []func()
				for _, v := range c.threads {
					threads = append(threads, do(v))
				}
				return threads, s.settled
			})
		})
	}
}
