package idempotency

import (
	"context"
	"time"
)

// findOut asks the application what a lost run did, and settles the record with
// what it says.
func (c *core) findOut(ctx context.Context, id ID, lost Record) {
	x := &run{store: c.store, ref: Ref{id, lost.Token}, attempt: lost.Attempt, points: lost.Points}
	x.Context, x.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	defer x.cancel(nil)
	var beat heartbeat
	beat.start(c, x, time.Now())
	change := Change{Event: Abandon}
	defer func() { // also when Recover panics
		beat.stop()
		if err := c.apply(ctx, x.ref, change); err != nil {
			c.tell(ctx, Notice{Signal: RecoverFailed, ID: id, Err: err})
		}
	}()
	found, err := c.terms.Recover(x, lost)
	switch {
	case err != nil:
		c.tell(ctx, Notice{Signal: RecoverFailed, ID: id, Err: err})
	case found.Done:
		change = Change{Event: Complete, Result: found.Result}
	case found.Nothing:
		change = Change{Event: Release}
	}
}
