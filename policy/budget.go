package policy

import "time"

// Budget bounds the re-sends, retries and hedges together, that a dependency's
// calls may add to the load.
type Budget struct {
	// Off removes the bound. A fleet without one multiplies an outage by its
	// attempts.
	Off bool

	// Shape is how the bound is reckoned. Zero means BudgetEarned, or the shape whose
	// fields are written: BudgetWindow with Floor, BudgetShare with MinInFlight,
	// BudgetQuota with ThrottledCost or TimeoutCost, BudgetTokens with Capacity or Cost.
	Shape BudgetShape

	// Ratio is the part of a re-send that each success earns, but for one that took longer
	// than Timeout.Attempt. A retry that succeeds gives back what it has cost and half of
	// another, too, unless it follows an answer that asked for less. Zero means 30 %; Off means none. With BudgetWindow it is the share of calls that may be sent again,
	// and zero means 10 %; with BudgetTokens and BudgetGRPC the part of a token that each
	// success earns, and zero means 10 %; with BudgetQuota the same of each success at the
	// first attempt, and zero means 100 %; with BudgetShare the share of the calls in flight
	// that may be re-sends, and zero means 20 %.
	Ratio Ratio

	// Window is the time whose successes may be kept for later: what older ones
	// earned is gone, but for Reserve. Zero means 1 s. With BudgetWindow it is the time
	// over which calls and re-sends are compared, and zero means 10 s. The other shapes
	// have none.
	Window time.Duration

	// Reserve is how many re-sends are kept whatever the traffic, so that a client of
	// few calls has one. A fleet of such clients can add as many at once for each of
	// them. While retries succeed it grows, by one for each and by four at most. A retry that
	// fails, or 200 successes, make it one smaller again. Zero means 1; Off means none, and
	// it stays none. Of BudgetEarned only.
	Reserve float64

	// Start is how many re-sends there are before the first success. Less than one is
	// granted with that probability. Zero means 1; Off means none. Of BudgetEarned
	// only.
	Start float64

	// Floor is the re-sends allowed whatever the traffic. Zero means 1/s; Off
	// means none. Of BudgetWindow only.
	Floor PerSecond

	// Capacity is the most tokens that there are, and how many there are at first. A fleet
	// of clients has as many for each of them. Zero means 100 with BudgetTokens, 10 with
	// BudgetGRPC, where 1000 are the most, and 500 with BudgetQuota; or Cost when that is
	// more. Of these three only.
	Capacity int

	// Cost is the tokens that one re-send takes. Zero means 1 with BudgetTokens and 14 with
	// BudgetQuota. Of these two only: with BudgetGRPC a failure takes one token.
	Cost int

	// ThrottledCost is what a retry takes after an attempt that was throttled. Zero means
	// 5, or Cost when that is less. Of BudgetQuota only.
	ThrottledCost int

	// TimeoutCost is what a retry takes after an attempt that timed out. Zero means Cost.
	// Of BudgetQuota only.
	TimeoutCost int

	// MinInFlight is how many re-sends may be in flight however few calls are. Zero means 3;
	// Off means none. A fleet of clients can have as many for each of them. Of BudgetShare
	// only.
	MinInFlight int
}

// BudgetShape is how a budget is reckoned.
type BudgetShape uint8

// The shapes of a budget. docs/budgets.md says which is for what.
const (
	// BudgetEarned lets successes earn re-sends, and keeps little.
	BudgetEarned BudgetShape = iota

	// BudgetWindow allows re-sends up to a ratio of the calls, and a floor, in any window.
	BudgetWindow

	// BudgetTokens is a bucket of tokens that re-sends take and successes refill. A re-send
	// that is granted and not made gives its tokens back.
	BudgetTokens

	// BudgetGRPC is the retry throttling of a gRPC service config (gRFC A6), with Capacity
	// as its maxTokens and Ratio as its tokenRatio: each attempt that failed in a way that
	// is retried, or brought the mark that stops retries, takes a token, and re-sends go
	// while more than half of the tokens are left. A re-send itself takes nothing.
	BudgetGRPC

	// BudgetShare bounds what is in flight, as Envoy's retry budget does: re-sends are at
	// most a share of the calls in flight, or MinInFlight. A re-send is in flight from the
	// moment in which it is granted, so also while it waits for its backoff. It bounds no
	// rate: re-sends that fail sooner than first attempts make room for more of them.
	BudgetShare

	// BudgetQuota is the quota of the AWS SDKs: a re-send costs tokens by the failure before
	// it, and gets them back if it succeeds. A call that succeeds at its first attempt
	// brings Ratio of a token.
	BudgetQuota
)
