package policy

import "time"

// Numbers are what a decision was about, as they were when it was made. Which
// of them mean something depends on the reason, or on the kind of the event; the others
// are zero.
type Numbers struct {
	// BulkheadFull and QueueTimeout.
	Limit  int           `json:"limit,omitempty"`  // slots
	InUse  int           `json:"in_use,omitempty"` // slots that are taken
	Queued int           `json:"queued,omitempty"` // calls that wait for one
	Waited time.Duration `json:"waited,omitempty"` // QueueTimeout: how long this one did; LettersLost: how long the oldest letter did

	// LimitMoved, where the limit is learned: what was seen when it was moved.
	Moved    string        `json:"moved,omitempty"`    // grew, tried, found, crowded, starved or back; empty of a limit that the policy set
	Before   int           `json:"before,omitempty"`   // the limit until then
	Each     time.Duration `json:"each,omitempty"`     // that a good answer took on average, late attempts included
	Usual    time.Duration `json:"usual,omitempty"`    // what it takes when nothing waits at the dependency; zero if that is not known yet
	Answered float64       `json:"answered,omitempty"` // good answers a second

	// DeadlineShort, RetryAfterTooLong, RateLimited and Paced.
	Left time.Duration `json:"left,omitempty"` // how long the call could wait: until its deadline, or what the policy allows; zero of a hedge, which never waits for a turn
	Need time.Duration `json:"need,omitempty"` // the wait before the attempt, and, where Left is until the deadline, the least time for it

	// RateLimited, by a quota.
	Quota  string  `json:"quota,omitempty"`  // its unit; empty: it was rate_limit.rate
	Uses   float64 `json:"uses,omitempty"`   // what the attempt was thought to use
	Amount float64 `json:"amount,omitempty"` // how much there is in all

	// RateLimited, BulkheadFull and QueueTimeout: the limit was what this process has of one that it shares with
	// others.
	Shared bool `json:"shared,omitempty"`

	// ThrottledLocally.
	Requests int64   `json:"requests,omitempty"` // in the throttle's window
	Accepts  int64   `json:"accepts,omitempty"`  // of these, how many the dependency took
	Over     float64 `json:"over,omitempty"`     // throttle.k: it may refuse all but one of so many

	// BudgetExhausted, by the shape of the budget. That of conflicts is a window.
	Shape     BudgetShape   `json:"shape,omitempty"`
	Calls     int64         `json:"calls,omitempty"`     // BudgetWindow: calls that paid in, in the window; BudgetShare: calls in flight
	Allowed   int64         `json:"allowed,omitempty"`   // BudgetWindow and BudgetShare: retries and hedges that those calls allow
	Resends   int64         `json:"resends,omitempty"`   // retries and hedges sent: in the window, or of BudgetEarned since the beginning; BudgetShare: those in flight
	Level     float64       `json:"level,omitempty"`     // BudgetEarned, BudgetTokens and BudgetQuota: re-sends that are left, below zero if some are owed
	Ratio     float64       `json:"ratio,omitempty"`     // of a re-send, or of a token, that each success earns; with BudgetQuota each at the first attempt
	Successes int64         `json:"successes,omitempty"` // BudgetEarned: successes in the window
	Ended     int           `json:"ended,omitempty"`     // BudgetEarned: how many of the last 50 retries have ended
	Helped    int           `json:"helped,omitempty"`    // BudgetEarned: how many of these succeeded
	Window    time.Duration `json:"window,omitempty"`    // of BudgetEarned and BudgetWindow
	Tokens    float64       `json:"tokens,omitempty"`    // BudgetGRPC and BudgetQuota: tokens that are left
	Capacity  int           `json:"capacity,omitempty"`  // BudgetGRPC and BudgetQuota: tokens at most
	Cost      int           `json:"cost,omitempty"`      // BudgetQuota: tokens that this re-send would have taken

	// Any reason, where the last attempt ran into a time that was measured.
	Timeout    time.Duration `json:"timeout,omitempty"`    // how much time it had
	Percentile Ratio         `json:"percentile,omitempty"` // timeout.percentile

	// BreakerMoved and BreakerExceeded: the counts that led to it, with Calls, and the
	// bound of the rule that was broken.
	Failures int64   `json:"failures,omitempty"`
	Slows    int64   `json:"slows,omitempty"`
	Rule     float64 `json:"rule,omitempty"` // failure_rate, slow_rate: a share; failures, consecutive: failures

	Bytes int64 `json:"bytes,omitempty"` // LettersLost: the room that the letters take
}
