package policy

import "time"

// Numbers are what a decision was about, as they were when it was made. Which
// of them mean something depends on the reason, or on the kind of the event; the others
// are zero.
type Numbers struct {
	// BulkheadFull and QueueTimeout.
	Limit  int           // slots
	InUse  int           // slots that are taken
	Queued int           // calls that wait for one
	Waited time.Duration // QueueTimeout: how long this one did; LettersLost: how long the oldest letter did

	// LimitMoved, where the limit is learned: what was seen when it was moved.
	Moved    LimitCause
	Before   int           // the limit until then
	Each     time.Duration // that a good answer took on average, late attempts included
	Usual    time.Duration // what it takes when nothing waits at the dependency; zero if that is not known yet
	Answered float64       // good answers a second

	// DeadlineShort, RetryAfterTooLong, RateLimited and Paced.
	Left time.Duration // how long the call could wait: until its deadline, or what the policy allows; zero of a hedge, which never waits for a turn
	Need time.Duration // the wait before the attempt, and, where Left is until the deadline, the least time for it

	// ThrottledLocally.
	Requests int64   // in the throttle's window
	Accepts  int64   // of these, how many the dependency took
	Over     float64 // throttle.k: it may refuse all but one of so many

	// BudgetExhausted, by the shape of the budget. That of conflicts is a window.
	Shape     BudgetShape
	Calls     int64         // BudgetWindow: calls that paid in, in the window; BudgetShare: calls in flight
	Allowed   int64         // BudgetWindow and BudgetShare: retries and hedges that so many calls allow
	Resends   int64         // retries and hedges sent: in the window, or of BudgetEarned since the beginning; BudgetShare: those in flight
	Level     float64       // BudgetEarned, BudgetTokens and BudgetQuota: re-sends that are left, below zero if some are owed
	Ratio     float64       // of a re-send, or of a token, that each success earns; with BudgetQuota each at the first attempt
	Successes int64         // BudgetEarned: successes in the window
	Ended     int           // BudgetEarned: how many of the last 50 retries have ended
	Helped    int           // BudgetEarned: how many of these succeeded
	Window    time.Duration // of BudgetEarned and BudgetWindow
	Tokens    float64       // BudgetGRPC and BudgetQuota: tokens that are left
	Capacity  int           // BudgetGRPC and BudgetQuota: tokens at most
	Cost      int           // BudgetQuota: tokens that this re-send would have taken

	// Any reason, where the last attempt ran into a time that was measured.
	Timeout    time.Duration // how much time it had
	Percentile Ratio         // timeout.percentile

	// BreakerMoved and BreakerExceeded: the counts that led to it, with Calls, and the
	// bound of the rule that was broken.
	Failures int64
	Slows    int64
	Rule     float64 // CauseFailureRate, CauseSlowRate: a share; CauseFailures, CauseConsecutive: failures

	Bytes int64 // LettersLost: the room that the letters take
}
