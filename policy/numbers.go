package policy

import (
	"time"

	"github.com/gabion-go/gabion/budget"
	"github.com/gabion-go/gabion/clock"
)

// Numbers are what a call's end is about, as they were when it was decided. Which
// of them mean something depends on the reason; the others are zero.
type Numbers struct {
	// BulkheadFull and QueueTimeout.
	Limit  int           // slots
	Queued int           // calls that wait for one
	Waited time.Duration // QueueTimeout: how long this one did

	// DeadlineShort.
	Left time.Duration // until the call's deadline
	Need time.Duration // the wait before the attempt and the least time for it

	// BudgetExhausted, in the budget's window; with tokens unused.
	Calls   int64 // calls that paid in
	Resends int64 // retries and hedges sent
	Allowed int64 // retries and hedges that so many calls allow
}

// shortOf notes that the deadline is too near for an attempt after a wait.
func (c *Call) shortOf(now clock.Instant, wait time.Duration) {
	c.numbers = &Numbers{Left: c.deadline.Sub(now), Need: wait + c.margin(now)}
}

// spent notes that the budget has nothing left.
func (c *Call) spent(now clock.Instant) {
	var w *budget.Window
	r := c.rules.budget
	switch b := &c.rules.Policy.Retry.Budget; {
	case c.failed.Class == Contention:
		w, r = c.state.contention(), c.rules.repeats
	case b.Off || b.Shape != BudgetWindow:
		return
	default:
		w = c.state.window()
	}
	calls, resends := w.Counts(now, r)
	c.numbers = &Numbers{Calls: calls, Resends: resends, Allowed: r.Allows(calls)}
}

// crowded notes that the slots are taken.
func (c *Call) crowded(waited time.Duration) {
	limit, queued := c.state.bulkhead().Crowd()
	c.numbers = &Numbers{Limit: limit, Queued: queued, Waited: waited}
}
