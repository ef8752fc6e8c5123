package why

import (
	"fmt"
	"strings"

	"github.com/gabion-go/gabion/policy"
)

// Numbers says in words what a reason is about, as errors have it in parentheses. It is
// empty for a reason without numbers, and where n is nil.
func Numbers(r policy.Reason, n *policy.Numbers) string {
	if n == nil {
		return ""
	}
	switch r {
	case policy.QueueTimeout:
		return fmt.Sprintf("limit %d, %d queued, waited %s", n.Limit, n.Queued, Short(n.Waited))
	case policy.BulkheadFull:
		return fmt.Sprintf("limit %d, %d queued", n.Limit, n.Queued)
	case policy.DeadlineShort:
		return fmt.Sprintf("%s left, %s needed", Short(n.Left), Short(n.Need))
	case policy.RateLimited:
		return rateOrQuota(n)
	case policy.RetryAfterTooLong, policy.Paced:
		return fmt.Sprintf("a wait of %s, at most %s", Short(n.Need), Short(n.Left))
	case policy.ThrottledLocally:
		return fmt.Sprintf("%d requests, %d accepted, k %.3g", n.Requests, n.Accepts, n.Over)
	case policy.BudgetExhausted:
		return budget(n)
	}
	if n.Timeout > 0 {
		return fmt.Sprintf("timeout %s, measured p%s", Short(n.Timeout), strings.TrimSuffix(n.Percentile.String(), "%"))
	}
	return ""
}

// rateOrQuota names what a call lacks of the rate limit or of a quota.
func rateOrQuota(n *policy.Numbers) string {
	switch {
	case n.Quota == "":
		return fmt.Sprintf("a wait of %s, at most %s", Short(n.Need), Short(n.Left))
	case n.Uses > n.Amount:
		return fmt.Sprintf("it needs %s %s, there are %s in all", amount(n.Uses), n.Quota, amount(n.Amount))
	}
	return fmt.Sprintf("%s %s, a wait of %s, at most %s", amount(n.Uses), n.Quota, Short(n.Need), Short(n.Left))
}

// amount is an amount as people write it: 200000 tokens, and 0.0123 usd.
func amount(n float64) string {
	if n >= 1000 {
		return fmt.Sprintf("%.0f", n)
	}
	return fmt.Sprintf("%.4g", n)
}

// budget names the numbers of a budget that is spent.
func budget(n *policy.Numbers) string {
	switch n.Shape {
	case policy.BudgetWindow:
		return fmt.Sprintf("%d calls, %d re-sends, %d allowed", n.Calls, n.Resends, n.Allowed)
	case policy.BudgetTokens:
		return fmt.Sprintf("%.3g re-sends left, each success earns %.3g tokens", n.Level, n.Ratio)
	case policy.BudgetGRPC:
		return fmt.Sprintf("%.4g of %d tokens left, more than half are needed, each success earns %.3g", n.Tokens, n.Capacity, n.Ratio)
	case policy.BudgetQuota:
		return fmt.Sprintf("%.4g of %d tokens left, this re-send costs %d", n.Tokens, n.Capacity, n.Cost)
	case policy.BudgetShare:
		return fmt.Sprintf("%d calls and %d re-sends in flight, %d allowed", n.Calls, n.Resends, n.Allowed)
	}
	text := fmt.Sprintf("%.3g re-sends left, each success earns %.3g, %d successes in %s, %d sent so far",
		n.Level, n.Ratio, n.Successes, n.Window, n.Resends)
	if n.Ended > 0 {
		text += ", " + Helped(n.Helped, n.Ended)
	}
	return text
}

// Helped says what retries have been worth lately.
func Helped(helped, ended int) string {
	if ended == 1 {
		return [...]string{"the last retry did not help", "the last retry helped"}[helped]
	}
	return fmt.Sprintf("%d of the last %d retries helped", helped, ended)
}
