package idempotency

import (
	"context"
	"time"
)

// findOut asks the application what a lost run did, and settles the record with
// what it says.
func (h *Handler) findOut(ctx context.Context, id ID, lost Record) {
	x := &run{store: h.store, ref: Ref{id, lost.Token}, points: lost.Points}
	x.Context, x.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	defer x.cancel(nil)
	var beat heartbeat
	beat.start(h, x, time.Now())
	change := Change{Event: Abandon}
	defer func() { // also when Recover panics
		beat.stop()
		if err := h.apply(ctx, x.ref, change); err != nil {
			h.tell(ctx, Notice{Signal: RecoverFailed, ID: id, Err: err})
		}
	}()
	found, err := h.config.Recover(x, lost)
	switch {
	case err != nil:
		h.tell(ctx, Notice{Signal: RecoverFailed, ID: id, Err: err})
	case found.Done:
		change = Change{Event: Complete, Result: found.Result}
	case found.Nothing:
		change = Change{Event: Release}
	}
}
