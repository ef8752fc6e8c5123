package machine

import (
	"sync/atomic"
	"time"

	"github.com/gabion-go/gabion/internal/breaker"
	"github.com/gabion-go/gabion/internal/bulkhead"
	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/internal/learned"
	"github.com/gabion-go/gabion/policy"
)

// streams counts the results that outlive their attempt's time.
type streams struct {
	open atomic.Int64
	ever atomic.Int64
}

func (s *State) streams() *streams {
	if p := s.part(); p != nil {
		return p.streams
	}
	return nil
}

func (s *State) addStreams() *streams {
	s.extend(func(next *parts) {
		if next.streams == nil {
			next.streams = new(streams)
		}
	})
	return s.streams()
}

// Limits bound a result that lives on after its attempt was settled.
type Limits struct {
	Slot clock.Instant // until when it has its attempt's slot: see [Call.Outlive]
	Body clock.Instant // until when it must have ended; Never = no bound
	Idle time.Duration // for how long it may bring nothing while somebody reads; zero = for ever
}

// usualAttempt is the attempt's time of a policy that says nothing about it.
var usualAttempt = policy.Policy{}.Resolved().Timeout.Attempt

// Limits returns those of a result whose attempt is settled now. The slot is kept for the
// attempt's own time, counted from when it was sent, or for the policy's upper bound where
// that time is measured. Where the policy sets no such time, it is the default's. Where the
// attempt had more than others, it is theirs, from the answer on.
func (c *Call) Limits(now clock.Instant, t *Ticket) Limits {
	p := &c.rules.Policy.Timeout
	l := Limits{Slot: t.Deadline, Body: clock.Never, Idle: on(p.Idle)}
	if c.measured(t) > 0 || c.sent.at.isBrief(t) { // it is about how soon an answer begins
		l.Slot = min(t.Sent.Add(p.Attempt), c.deadline)
	}
	if t.lone || t.longer { // so is this, and the answer may have come late
		l.Slot = min(l.Slot, now.Add(p.Attempt))
	}
	if l.Slot == clock.Never {
		l.Slot = t.Sent.Add(usualAttempt)
	}
	if p.Body > 0 {
		l.Body = now.Add(p.Body)
	}
	return l
}

// Outlive gives back the slot of a result that is still open when its attempt's own time
// is over, or that is known to last: it is a stream then, and no longer work that needs a
// slot. The ticket must be the one that Release will get. Outlive does nothing for a
// result that is not open, and nothing the second time.
func (c *Call) Outlive(now clock.Instant, t *Ticket) {
	bit := t.bit()
	if c.sent.open&^c.sent.lasting&bit == 0 {
		return
	}
	c.sent.lasting |= bit
	live := c.state.addStreams()
	live.open.Add(1)
	live.ever.Add(1)
	if c.log != nil {
		*c.log.next(policy.KindOutlived) = policy.Event{Kind: policy.KindOutlived, At: now, Attempt: t.Attempt, Hedge: t.Hedge, Took: now.Sub(t.Sent)}
	}
	c.settleOpen(now, t, false) // it lived well for an attempt's time, which ends a row of failures
	slot := t.held.slot
	t.held.slot = bulkhead.Slot{}
	if slot.Held() {
		c.state.bulkhead().Release(slot, c.shard)
	}
	if c.phase == over {
		c.whenIdle(now)
	}
}

// Release ends a result that lived on after its attempt was settled, such as a response
// body: the slot is given back. If the result broke, the attempt is a failure to the
// breaker: one that was counted as a success is counted as a failure instead. A cancel by
// the caller does not break a result. How the call ended does not change.
func (c *Call) Release(now clock.Instant, t Ticket, broke bool) { c.Strike(now, t, policy.None, broke) }

// Strike is [Call.Release] of a result that reached one of its Limits, which the event
// names. It broke if the caller was waiting for more of it.
func (c *Call) Strike(now clock.Instant, t Ticket, why policy.Reason, broke bool) {
	bit := t.bit()
	if c.sent.open&bit == 0 {
		return
	}
	c.sent.open &^= bit
	c.settleOpen(now, &t, broke)
	if (broke || why != policy.None) && c.log != nil {
		*c.log.next(policy.KindBodyFailed) = policy.Event{Kind: policy.KindBodyFailed, At: now, Reason: why, Attempt: t.Attempt, Hedge: t.Hedge, Took: now.Sub(t.Sent)}
	}
	if c.sent.lasting&bit != 0 {
		c.sent.lasting &^= bit
		c.state.streams().open.Add(-1)
	}
	if c.sent.worked&bit != 0 && t.held.slot.Held() && !broke {
		c.learnLimit(now, now.Sub(t.Sent), learned.Worked)
	}
	c.sent.worked &^= bit
	if t.held.slot.Held() {
		c.state.bulkhead().Release(t.held.slot, c.shard)
	}
	if c.phase == over {
		c.whenIdle(now)
	}
}

// settleOpen corrects what the breaker has counted, now that more is known of a result
// that lived on.
func (c *Call) settleOpen(now clock.Instant, t *Ticket, broke bool) {
	if c.sent.at != nil {
		c.sent.at.ended(now, t, broke)
	}
	permit := t.held.permit
	if !permit.Held() {
		permit = c.taken.permit
	}
	if !permit.Held() || !c.sent.judged {
		return
	}
	switch b := c.part.breaker.Load(); {
	case broke && c.sent.last != breaker.Bad:
		b.Fail(now, c.shard, permit, c.sent.receipt)
	case !broke && c.sent.last == breaker.Good:
		b.Whole(now, permit)
	}
}
