package policy

import "time"

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
