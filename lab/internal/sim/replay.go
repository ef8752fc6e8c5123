package sim

import (
	"sort"
	"time"
)

// Met is what a recorded call met at its service: how long the work took, and what it
// brought. Attempts meet it when they are worked on, so that queues and faults are there
// as well.
type Met struct {
	Took   time.Duration
	Status int // of HTTP; 429 and from 500 on it is a failure, 0 a connection that broke, and below 0 none at all
}

// answer is what the status is to a caller.
func (m *Met) answer() answer {
	switch {
	case m.Status < 0:
		return refused
	case m.Status == 0:
		return broken
	case m.Status == 429, m.Status >= 500:
		return answer(m.Status)
	}
	return answered
}

// met returns what was recorded for an attempt, or nil. The first attempt of a call meets
// what the call met; a later one what the next recorded call met, for that was the
// service's state then.
func (s *sim) met(a *attempt, c *call) *Met {
	if c.place == 0 {
		return nil
	}
	f := &s.fleets[s.edges[a.edge].caller]
	if a.try == 1 {
		return &f.Met[c.place-1]
	}
	sent := time.Duration(a.sent)
	k := sort.Search(len(f.At), func(k int) bool { return f.At[k] >= sent })
	return &f.Met[min(max(k, c.place), len(f.Met)-1)]
}

// place is where in a recording the work of a job is, from 1; 0 is in none.
func (s *sim) place(j *job) int {
	if j.fleet < 0 || s.fleets[j.fleet].Met == nil {
		return 0
	}
	return int(j.id & (1<<fleetShift - 1))
}
