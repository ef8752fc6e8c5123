package natsmsg

import (
	"cmp"
	"slices"
	"time"
)

// A line is what waits for its turn among messages of one order key. It is guarded by the
// subscription's mu.
type line struct {
	key     string
	items   []*item // by their sequence
	claimed bool    // its first is ready, runs, or waits until due
	due     time.Time
}

// place puts a message that came among those that wait. mu is held.
func (s *subscription) place(it *item) {
	s.hand[it.seq] = it
	if it.order == "" {
		s.ready = append(s.ready, it)
		return
	}
	l := s.lines[it.order]
	if l == nil {
		l = &line{key: it.order}
		s.lines[it.order] = l
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
		s.ready = append(s.ready, l.items[0])
	}
}

// take returns the next message to work on if there is room beside the working ones. mu is held.
func (s *subscription) take(working int) *item {
	if s.stopping || len(s.ready) == 0 || working >= s.c.Slots(s.o.Workers) {
		return nil
	}
	if s.o.Order != nil && !s.complete(time.Now()) {
		return nil
	}
	if room, _ := s.c.Room(working); room <= 0 {
		return nil
	}
	it := s.ready[0]
	s.ready[0] = nil
	s.ready = s.ready[1:]
	if it.line != nil {
		it = it.line.items[0] // one that came late may be first
	}
	it.running = true
	return it
}

// over takes a message out of what this process has. mu is held.
func (s *subscription) over(it *item) {
	delete(s.hand, it.seq)
	s.pass(it)
}

// pass lets the next go on that waits for a message. mu is held.
func (s *subscription) pass(it *item) {
	l := it.line
	if l == nil {
		return
	}
	if at := slices.Index(l.items, it); at >= 0 {
		l.items = slices.Delete(l.items, at, at+1)
	}
	if len(l.items) == 0 {
		delete(s.lines, l.key)
		return
	}
	l.due = time.Time{}
	s.ready = append(s.ready, l.items[0])
}

// hold keeps a message that was not done, to work on it again in this process. mu is held.
func (s *subscription) hold(it *item, after time.Duration) {
	it.running = false
	if it.line == nil {
		s.ready = append(s.ready, it)
		return
	}
	it.line.due = time.Now().Add(after)
	s.delayed = append(s.delayed, it.line)
}

// due makes the lines ready whose wait is over. mu is held.
func (s *subscription) due(now time.Time) {
	s.delayed = slices.DeleteFunc(s.delayed, func(l *line) bool {
		if now.Before(l.due) {
			return false
		}
		s.ready = append(s.ready, l.items[0])
		return true
	})
}

// waiting takes out all messages that are not worked on, by their place. mu is held.
func (s *subscription) waiting() (all []*item) {
	for seq, it := range s.hand {
		if !it.running {
			all = append(all, it)
			delete(s.hand, seq)
		}
	}
	s.ready, s.delayed = nil, nil
	for _, l := range s.lines {
		l.items = slices.DeleteFunc(l.items, func(it *item) bool { return !it.running })
	}
	slices.SortFunc(all, func(a, b *item) int { return cmp.Compare(a.seq, b.seq) })
	return all
}
