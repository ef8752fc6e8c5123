package machine

import (
	"sync"
	"sync/atomic"

	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/policy"
)

// retriesAreOff is the bit of State.flags that switches retries off; spending is set at the beginning and by a
// re-send, until the budget has a whole one again; nextEpoch is what the rest of it counts in.
const (
	retriesAreOff = 1
	spending      = 2
	nextEpoch     = 4
)

// epoch is how often a reload has emptied the budget.
func (s *State) epoch() uint32 { return s.flags.Load() / nextEpoch }

// switching is held by whoever switches retries, of whatever State. That is rare.
var switching sync.Mutex

// StopRetries turns the dependency's retries and hedges off until then, at once and also
// for calls under way. With clock.Never they stay off until ResumeRetries. Who is for the
// event.
func (s *State) StopRetries(now, until clock.Instant, who string) {
	switching.Lock()
	defer switching.Unlock()
	s.lapse(now)
	if s.flags.Load()&retriesAreOff != 0 && s.stopEnds() == until {
		return
	}
	if until != clock.Never {
		s.extend(func(next *parts) {
			if next.resume == nil {
				next.resume = new(atomic.Int64)
			}
		})
	}
	if p := s.part(); p != nil && p.resume != nil {
		p.resume.Store(int64(until))
	}
	s.flags.Or(retriesAreOff)
	s.note(policy.Event{Kind: policy.KindRetriesSwitched, At: now, Until: until, Reason: policy.RetriesOff, Code: who})
}

// ResumeRetries turns them on again.
func (s *State) ResumeRetries(now clock.Instant, who string) {
	switching.Lock()
	defer switching.Unlock()
	s.lapse(now)
	if s.flags.And(^uint32(retriesAreOff))&retriesAreOff != 0 {
		s.note(policy.Event{Kind: policy.KindRetriesSwitched, At: now, Code: who})
	}
}

// stopEnds returns when retries that are off are on again by themselves.
func (s *State) stopEnds() clock.Instant {
	if p := s.part(); p != nil && p.resume != nil {
		return clock.Instant(p.resume.Load())
	}
	return clock.Never
}

// lapse turns retries on again whose time off is over. It is called under switching.
func (s *State) lapse(now clock.Instant) {
	if s.flags.Load()&retriesAreOff == 0 {
		return
	}
	if until := s.stopEnds(); now >= until {
		s.flags.And(^uint32(retriesAreOff))
		s.note(policy.Event{Kind: policy.KindRetriesSwitched, At: now, Due: until})
	}
}

// stopped returns until when the dependency's own retries are off, or zero.
func (s *State) stopped(now clock.Instant) (until clock.Instant, off bool) {
	if s.flags.Load()&retriesAreOff == 0 {
		return 0, false
	}
	if until = s.stopEnds(); now < until {
		return until, true
	}
	switching.Lock()
	defer switching.Unlock()
	s.lapse(now)
	if s.flags.Load()&retriesAreOff == 0 {
		return 0, false
	}
	return s.stopEnds(), true
}

// calm reports whether none of those flags is set and no other switch turns retries off, at the
// cost of three loads. False says nothing.
func (s *State) calm(flags uint32) bool {
	p := s.part()
	return s.flags.Load()&flags == 0 && (p == nil || p.parent == nil && (p.kill == nil || !p.kill.Load()))
}

// retriesOff reports whether retries are off: here, for a State that this one was made
// of, or for the process. Until is when that ends by itself, or clock.Never.
func (s *State) retriesOff(now clock.Instant) (until clock.Instant, off bool) {
	until, off = s.stopped(now)
	p := s.part()
	if p == nil {
		return until, off
	}
	if p.parent != nil {
		if theirs, too := p.parent.retriesOff(now.Add(p.younger)); too {
			until, off = max(until, theirs.Add(-p.younger)), true
		}
	}
	if p.kill != nil && p.kill.Load() {
		until, off = clock.Never, true
	}
	return until, off
}
