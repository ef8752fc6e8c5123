package sim

import (
	"time"

	"github.com/gabion-go/gabion/internal/clock"
)

// queue is who waits at a replica: a list through the attempts, one for each
// priority.
type queue struct {
	lists [3]struct{ first, last uint32 } // slots plus one; 0 is nobody
	n     int
	debt  time.Duration // work that refusals cost and nobody has done yet

	// CoDel's state, by the names of RFC 8289.
	firstAbove clock.Instant
	dropNext   clock.Instant
	count      int
	lastCount  int
	dropping   bool
}

func (q *queue) push(s *sim, v *service, a *attempt) {
	l := &q.lists[0]
	if v.Discipline == ByPriority {
		l = &q.lists[1-int(a.priority)]
	}
	q.n++
	a.next, a.stage = 0, waiting
	switch {
	case l.first == 0:
		l.first, l.last = a.self+1, a.self+1
	case v.Discipline == LIFO:
		a.next = l.first
		l.first = a.self + 1
	default:
		s.attempts.at(l.last - 1).next = a.self + 1
		l.last = a.self + 1
	}
}

func (q *queue) pop(s *sim, v *service) (a *attempt, drop bool) {
	for i := range q.lists {
		l := &q.lists[i]
		if l.first == 0 {
			continue
		}
		a = s.attempts.at(l.first - 1)
		l.first = a.next
		if l.first == 0 {
			l.last = 0
		}
		q.n--
		return a, v.Discipline == CoDel && q.codel(s, v, a)
	}
	return nil, false
}
