package machine

import (
	"sync/atomic"
	"time"

	"github.com/gabion-go/gabion/internal/budget"
	"github.com/gabion-go/gabion/internal/bulkhead"
	"github.com/gabion-go/gabion/internal/learned"
	"github.com/gabion-go/gabion/internal/ratelimit"
	"github.com/gabion-go/gabion/internal/throttle"
	"github.com/gabion-go/gabion/policy"
)

// parts are what not every dependency has. They are replaced as a whole.
type parts struct {
	bulkhead   *bulkhead.Bulkhead
	learned    *learned.Limit // of the bulkhead; made when a policy first has it learned
	window     *budget.Window
	tokens     *budget.Bucket
	share      *budget.Share
	repeats    *budget.Window // after conflicts; made at the first one
	limiter    *ratelimit.Limiter
	throttle   *throttle.Throttle
	partitions *partitions
	box        *eventQueue
	kill       *atomic.Bool // retries are switched off for the whole process
	parent     *State       // its retries are this one's
	younger    time.Duration
	resume     *atomic.Int64      // when retries that are off are on again; nil until they were off for a time
	totals     *totals            // nil where nobody asks for them
	places     *places            // nil without endpoints
	followed   *[]policy.Endpoint // those that stand in the place of the policy's; nil means none
	trials     *trials            // of repeats that nothing has paid for; nil until there is one
	streams    *streams           // nil until a result outlives its attempt's time
	spends     *spends            // nil until an answer says what it cost
	lease      *Lease             // nil outside of a fleet
	memory     *recollection      // what others know; nil unless a fleet said something
}

func (s *State) part() *parts { return s.more.Load() }

func (s *State) bulkhead() *bulkhead.Bulkhead {
	if p := s.part(); p != nil {
		return p.bulkhead
	}
	return nil
}

func (s *State) limiter() *ratelimit.Limiter {
	if p := s.part(); p != nil {
		return p.limiter
	}
	return nil
}
func (s *State) throttle() *throttle.Throttle { return s.part().throttle }

func (s *State) window() *budget.Window {
	if p := s.part(); p != nil {
		return p.window
	}
	return nil
}

func (s *State) tokens() *budget.Bucket {
	if p := s.part(); p != nil {
		return p.tokens
	}
	return nil
}

func (s *State) share() *budget.Share {
	if p := s.part(); p != nil {
		return p.share
	}
	return nil
}

func (s *State) partitions() *partitions {
	if p := s.part(); p != nil {
		return p.partitions
	}
	return nil
}

// contention is the budget of what is sent again after a conflict. The calls that pay in
// are those that met one.
func (s *State) contention() *budget.Window {
	for {
		if p := s.part(); p != nil && p.repeats != nil {
			return p.repeats
		}
		s.extend(func(next *parts) {
			if next.repeats == nil {
				w := budget.MakeWindow(contentionWindow, 1)
				next.repeats = &w
			}
		})
	}
}

func (s *State) box() *eventQueue {
	if p := s.part(); p != nil {
		return p.box
	}
	return nil
}
