package sim

import (
	"time"

	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/lab/internal/draw"
)

// job is a plan that is being carried out: by a client, or by a replica for an
// attempt that it works on.
type job struct {
	self, gen uint32
	plan      *plan
	id        uint64
	began     clock.Instant
	root      clock.Instant // when the client's work began that it is a part of
	deadline  clock.Instant
	fleet     int32 // -1 for a replica's
	client    uint32
	instance  int
	attempt   uint32 // a replica's
	agen      uint32
	run       bool // of a message's work: its attempt is a delivery
	step      int
	pending   int
	good, bad int
	failed    bool
}

func (s *sim) newJob(p *plan) *job {
	i, gen, j := s.jobs.take()
	*j = job{self: i, gen: gen, plan: p, began: s.now, root: s.now, deadline: clock.Never, fleet: -1}
	if p.Deadline > 0 {
		j.deadline = s.now.Add(p.Deadline) // its calls have it too, and end it
	}
	return j
}

// who is which of the fleet's clients or of the service's replicas does the job.
func (j *job) who() int {
	if j.fleet >= 0 {
		return int(j.client)
	}
	return j.instance
}

// runJob begins the next step, or ends the job.
func (s *sim) runJob(j *job) {
	for j.step < len(j.plan.Steps) && !j.failed {
		step := &j.plan.Steps[j.step]
		if step.Chance > 0 && step.Chance < 1 {
			d := draw.New(s.seed, forPlans, j.id*31+uint64(j.step))
			if !d.Yes(step.Chance) {
				j.step++
				continue
			}
		}
		n := max(step.Fan, 1)
		j.pending, j.good, j.bad = n, 0, 0
		self, gen, at := j.self, j.gen, j.step
		for k := range n {
			if s.jobs.get(self, gen) == nil || j.step != at {
				return // it ended, or went on, while its calls were being made
			}
			s.startCall(j, j.plan.edges[at], uint64(k))
		}
		return
	}
	s.endJob(j)
}

// called takes the end of a call of a job's step.
func (s *sim) called(j *job, step int, ok bool) {
	if j.pending == 0 || j.step != step {
		return // the step was decided before
	}
	if ok {
		j.good++
	} else {
		j.bad++
	}
	n := max(j.plan.Steps[step].Fan, 1)
	need := j.plan.Steps[step].Quorum
	if need <= 0 {
		need = n
	}
	switch {
	case j.good >= need:
	case j.bad > n-need:
		j.failed = true
	default:
		return
	}
	j.pending = 0
	j.step++
	s.runJob(j)
}

func (s *sim) endJob(j *job) {
	ok := !j.failed
	if j.fleet >= 0 {
		f := &s.fleets[j.fleet]
		s.rec.answered(s, j, ok)
		if f.Loop == Closed {
			s.at(s.now.Add(s.pause(f, j)), evClient, j.client, uint32(j.fleet))
		}
		s.jobs.put(j.self)
		return
	}
	if j.run {
		d := s.deliveries.get(j.attempt, j.agen)
		s.jobs.put(j.self)
		s.ran(d, ok)
		return
	}
	a := s.attempts.get(j.attempt, j.agen)
	s.jobs.put(j.self)
	if a != nil { // else its replica has restarted
		s.finished(a, ok)
	}
}

// breath is how long a client of a closed fleet waits at least after a call that
// was refused in the instant in which it was made: time would stand still otherwise.
const breath = time.Millisecond

func (s *sim) pause(f *fleet, j *job) time.Duration {
	draws := draw.New(s.seed, forThinking, j.id)
	pause := f.Think.Draw(&draws)
	if s.now == j.began {
		pause = max(pause, breath)
	}
	return pause
}
