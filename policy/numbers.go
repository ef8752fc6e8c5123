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

	// BudgetExhausted, by the shape of the budget. That of conflicts is a window.
	Shape     BudgetShape
	Calls     int64         // BudgetWindow: calls that paid in, in the window
	Allowed   int64         // BudgetWindow: retries and hedges that so many calls allow
	Resends   int64         // retries and hedges sent: in the window, or of BudgetEarned since the beginning
	Level     float64       // BudgetEarned and BudgetTokens: re-sends that are left, below zero if some are owed
	Ratio     float64       // BudgetEarned and BudgetTokens: of a re-send, or of a token, that each success earns
	Successes int64         // BudgetEarned: successes in the window
	Window    time.Duration // of BudgetEarned and BudgetWindow
}

// shortOf notes that the deadline is too near for an attempt after a wait.
func (c *Call) shortOf(now clock.Instant, wait time.Duration) {
	c.numbers = &Numbers{Left: c.deadline.Sub(now), Need: wait + c.margin(now)}
}

// spent notes that the budget has nothing left.
func (c *Call) spent(now clock.Instant) {
	b := &c.rules.Policy.Retry.Budget
	switch {
	case c.failed.Class == Contention:
		c.spentWindow(now, c.state.contention(), c.rules.repeats, contentionWindow)
	case b.Shape == BudgetWindow:
		c.spentWindow(now, c.state.window(), c.rules.budget, b.Window)
	case b.Shape == BudgetTokens:
		level := float64(c.state.tokens().Level(c.rules.tokens)) / float64(max(c.rules.tokens.Cost, 1))
		c.numbers = &Numbers{Shape: BudgetTokens, Level: level, Ratio: float64(on(b.Ratio))}
	default:
		e, r := &c.state.earned, &c.rules.earned
		successes, _ := e.Recent(now, r)
		c.numbers = &Numbers{
			Shape: BudgetEarned, Level: float64(e.Level(now, r)) / 1e6, Ratio: float64(on(b.Ratio)),
			Successes: successes, Resends: e.Sent(), Window: b.Window,
		}
	}
}

func (c *Call) spentWindow(now clock.Instant, w *budget.Window, r budget.Rules, span time.Duration) {
	calls, resends := w.Counts(now, r)
	c.numbers = &Numbers{Shape: BudgetWindow, Calls: calls, Resends: resends, Allowed: r.Allows(calls), Window: span}
}

// crowded notes that the slots are taken.
func (c *Call) crowded(waited time.Duration) {
	limit, queued := c.state.bulkhead().Crowd()
	c.numbers = &Numbers{Limit: limit, Queued: queued, Waited: waited}
}
