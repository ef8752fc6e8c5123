package machine

import (
	"time"

	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/policy"
)

// shortOf notes that the deadline is too near for an attempt after a wait.
func (c *Call) shortOf(now clock.Instant, wait time.Duration) {
	c.end.numbers = &policy.Numbers{Left: c.deadline.Sub(now), Need: wait + c.margin(now)}
}

// tooLate notes that the dependency asked for more time than the policy allows, or that
// after that wait the deadline is too near.
func (c *Call) tooLate(now clock.Instant, wait time.Duration) {
	if most := c.rules.Policy.Retry.MaxAfter; c.end.after > most {
		c.tooLong(c.end.after, most)
		return
	}
	c.shortOf(now, wait)
}

// crowded notes that the slots are taken.
func (c *Call) crowded(waited time.Duration) {
	inUse, limit, queued := c.state.bulkhead().Occupancy()
	shared := c.state.rules.Load().sharing(OfSlots)
	c.end.numbers = &policy.Numbers{Limit: limit, InUse: inUse, Queued: queued, Waited: waited, Shared: shared}
}

// throttled notes what the throttle has counted.
func (c *Call) throttled(now clock.Instant) {
	requests, accepts := c.state.throttle().Counts(now)
	c.end.numbers = &policy.Numbers{Requests: requests, Accepts: accepts, Over: c.rules.Policy.Throttle.K}
}

// tooLong notes that a wait is longer than the call may wait.
func (c *Call) tooLong(need, may time.Duration) {
	c.end.numbers = &policy.Numbers{Left: max(may, 0), Need: need}
}

// left is the time until the call's deadline, for events.
func (c *Short) left(now clock.Instant) time.Duration {
	if c.deadline == clock.Never {
		return policy.NoDeadline
	}
	return c.deadline.Sub(now)
}
