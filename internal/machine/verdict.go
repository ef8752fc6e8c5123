package machine

import (
	"math/bits"
	"time"

	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/policy"
)

// Verdict is how a call ended.
type Verdict struct {
	Reason     policy.Reason // None is success
	Effect     policy.Effect // may it have happened?
	Attempts   int           // how many were sent
	RetryAfter time.Duration
	Cause      string          // BreakerOpen: what opened it, as breaker.Cause says it
	Numbers    *policy.Numbers // nil where the reason has none
}

// Verdict tells how the call ended, or stands.
func (c *Call) Verdict() Verdict {
	effect := c.effect
	if c.out != 0 {
		effect = policy.UnknownEffect
	}
	v := Verdict{Reason: c.reason, Effect: effect, Attempts: int(c.sends), RetryAfter: c.after, Numbers: c.numbers}
	if c.reason == policy.BreakerOpen {
		v.Cause = c.cause.String()
	}
	return v
}

// Partition returns the name of the partition that the call counts in: the one
// that it named, Overflow, or "" where there are none.
func (c *Call) Partition() string { return c.partition() }

// Deadline returns when the call ends at the latest, or clock.Never.
func (c *Call) Deadline() clock.Instant { return c.deadline }

// Hedges reports whether the policy may send a hedge for this call, which needs a
// driver that can run two attempts at once.
func (c *Call) Hedges() bool { return c.hedging }

// Over reports whether the call has ended: Next says Return from now on.
func (c *Call) Over() bool { return c.phase == over }

// Succeeded reports whether the call has ended well.
func (c *Call) Succeeded() bool { return c.phase == over && c.reason == policy.None }

// Resting reports whether the call waits with nothing out before it makes another
// attempt. The result of the attempt before is no longer wanted then, and if it is
// still open it must be released before the next Next.
func (c *Call) Resting() bool { return c.phase == resting || c.phase == away && c.out == 0 }

// Out returns how many attempts are out.
func (c *Call) Out() int { return bits.OnesCount64(c.out) }
