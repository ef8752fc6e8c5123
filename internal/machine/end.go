package machine

import (
	"math/bits"
	"time"

	"github.com/gabion-go/gabion/internal/breaker"
	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/policy"
)

// End is how a call ended.
type End struct {
	Reason     policy.Reason // None is success
	Endpoint   string        // to which the call is bound, or where it was last; empty where there are none
	Effect     policy.Effect // may it have happened?
	Attempts   int           // how many were sent
	RetryAfter time.Duration
	Cause      string          // BreakerOpen: what opened it, as breaker.Cause says it
	Numbers    *policy.Numbers // nil where the reason has none
}

// ending is how a call ends, as far as is known.
type ending struct {
	numbers *policy.Numbers // where the reason has some
	after   time.Duration   // when to come back, if known
	reason  policy.Reason
	effect  policy.Effect
	cause   breaker.Cause // BreakerOpen: what opened it
}

// End returns how the call has ended, or how it stands. It changes nothing.
func (c *Call) End() End {
	effect := c.end.effect
	if c.sent.out != 0 {
		effect = policy.UnknownEffect
	}
	v := End{Reason: c.end.reason, Effect: effect, Attempts: int(c.sent.n), RetryAfter: c.end.after, Numbers: c.end.numbers}
	if c.sent.at != nil {
		v.Endpoint = c.sent.at.place()
	}
	if c.end.reason == policy.BreakerOpen {
		v.Cause = c.end.cause.String()
	}
	return v
}

// refuser is the breaker that has refused the call: that of the endpoint to which it is bound, or its own.
func refuser(c *Call, now clock.Instant) *breaker.Breaker {
	if c.sent.at != nil {
		if _, stranded := c.sent.at.stranded(now); stranded {
			return c.sent.at.bound().guard.breaker
		}
	}
	return c.part.breaker.Load()
}

// Partition returns the name of the partition that the call counts in: the one
// that it named, Overflow, or "" where there are none.
func (c *Call) Partition() string { return c.partitionName() }

// Deadline returns when the call ends at the latest, or clock.Never.
func (c *Call) Deadline() clock.Instant { return c.deadline }

// Hedges reports whether the policy may send a hedge for this call, which needs a
// driver that can run two attempts at once.
func (c *Call) Hedges() bool { return c.hedge.on }

// Over reports whether the call has ended: Next says Return from now on.
func (c *Call) Over() bool { return c.phase == over }

// Succeeded reports whether the call has ended well.
func (c *Call) Succeeded() bool { return c.phase == over && c.end.reason == policy.None }

// Resting reports whether the call waits, with nothing out, before it makes another
// attempt. The result of the attempt before is of no use then; if it is still open, it
// must be released before Next is called again.
func (c *Call) Resting() bool { return c.phase == resting || c.phase == away && c.sent.out == 0 }

// Out returns how many attempts are out.
func (c *Call) Out() int { return bits.OnesCount64(c.sent.out) }
