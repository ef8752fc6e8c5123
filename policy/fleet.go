package policy

// Fleet says which limits the processes of a fleet have together: see package fleet. The numbers of these
// limits are then what all processes may use, and each has a share of them that follows what it needs. The
// zero Fleet shares nothing. A process that joined no fleet has the whole.
type Fleet struct {
	// Rate shares RateLimit.Rate, and Burst in proportion.
	Rate bool

	// Slots shares Bulkhead.Limit, or Max where the limit is learned: then the share is the most that a
	// process learns.
	Slots bool

	// Quotas shares RateLimit.Quotas.
	Quotas bool

	// Budget shares what the retry budget has without any success: Reserve and Start, Floor, or Capacity.
	Budget bool

	// Lost is how much of each whole a process uses once its share has ended and the store is still away. Zero
	// means the share that it had last, which all together are no more than the whole; of a process that never had
	// one it means a tenth of the whole. Off means nothing, so every call is refused that needs some.
	Lost Ratio
}

// shares reports whether anything is shared.
func (f Fleet) shares() bool { return f.Rate || f.Slots || f.Quotas || f.Budget }

// unusedInFleet: shares of limits that are not there.
func (c *check) unusedInFleet(f Fleet, r Policy) {
	const shared = "true"
	if f.Rate && r.RateLimit.Rate <= 0 {
		c.addUnused("fleet.rate", "rate_limit.rate", shared, "without rate_limit.rate", "rate_limit.rate as well")
	}
	if f.Slots && r.Bulkhead.Off {
		c.addUnused("fleet.slots", "bulkhead", shared, "without a bulkhead", "bulkhead.limit as well")
	}
	if f.Quotas && len(r.RateLimit.Quotas) == 0 {
		c.addUnused("fleet.quotas", "rate_limit.quotas", shared, "without rate_limit.quotas", "rate_limit.quotas as well")
	}
	if b := r.Retry.Budget; f.Budget && (b.Off || b.Shape == BudgetShare) {
		c.addUnused("fleet.budget", "retry.budget", shared, "where the retry budget has nothing without a success", "another retry.budget.shape")
	}
	if f.Lost > 0 && !f.shares() {
		c.addUnused("fleet.lost", "fleet", f.Lost.String(), "where nothing is shared", "fleet.rate or another share as well")
	}
}
