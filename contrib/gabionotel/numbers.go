package gabionotel

import (
	"go.opentelemetry.io/otel/attribute"

	"github.com/gabion-go/gabion/policy"
)

// appendNumbers adds what a refusal was about. N may be nil.
func appendNumbers(as []attribute.KeyValue, why policy.Reason, n *policy.Numbers) []attribute.KeyValue {
	if n == nil {
		return as
	}
	switch why {
	case policy.BulkheadFull, policy.QueueTimeout:
		as = append(as, attribute.Int("gabion.bulkhead.limit", n.Limit), attribute.Int("gabion.bulkhead.in_use", n.InUse),
			attribute.Int("gabion.bulkhead.queued", n.Queued))
		if why == policy.QueueTimeout {
			as = append(as, attribute.Float64("gabion.bulkhead.waited", n.Waited.Seconds()))
		}
	case policy.DeadlineShort, policy.RetryAfterTooLong, policy.RateLimited, policy.Paced:
		as = append(as, attribute.Float64("gabion.time.left", n.Left.Seconds()), attribute.Float64("gabion.time.needed", n.Need.Seconds()))
	case policy.ThrottledLocally:
		as = append(as, attribute.Int64("gabion.throttle.requests", n.Requests), attribute.Int64("gabion.throttle.accepts", n.Accepts),
			attribute.Float64("gabion.throttle.k", n.Over))
	case policy.BudgetExhausted:
		as = appendBudget(as, n)
	}
	return as
}

// appendBudget adds a budget's arithmetic. What is left of it may be below zero.
func appendBudget(as []attribute.KeyValue, n *policy.Numbers) []attribute.KeyValue {
	if n.Shape == policy.BudgetWindow || n.Shape == policy.BudgetShare {
		return append(as, attribute.Float64("gabion.budget.left", float64(n.Allowed-n.Resends)), attribute.Int64("gabion.budget.calls", n.Calls),
			attribute.Int64("gabion.budget.allowed", n.Allowed), attribute.Int64("gabion.budget.resends", n.Resends))
	}
	return append(as, attribute.Float64("gabion.budget.left", n.Level), attribute.Float64("gabion.budget.ratio", n.Ratio))
}
