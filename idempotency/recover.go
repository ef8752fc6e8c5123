package idempotency

import (
	"context"
	"time"
)

// findOut asks the application what a lost run did, and settles the record
// accordingly. The claim to find out was sent at begun.
func (c *core) findOut(ctx context.Context, id ID, lost Record, begun time.Time) {
	defer c.seats.leave()
	var x execution
	x.start(ctx, c, id, lost, begun)
	defer x.life.end(nil)
	change := Change{State: StateUnknown}
	defer func() { // also when Recover panics
		x.stop()
		if err := c.apply(ctx, x.ref, change); err != nil {
			c.tell(ctx, Event{Kind: eventRecoverFailed, ID: id, Err: err})
		}
	}()
	found, err := c.terms.Recover(&x.run, lost)
	switch {
	case err != nil:
		c.tell(ctx, Event{Kind: eventRecoverFailed, ID: id, Err: err})
	case found.State == StateDone:
		change.State, change.Result = StateDone, found.Result
	case found.State == StateRetryable:
		change.State = StateRetryable
	}
}
