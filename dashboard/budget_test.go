package dashboard

import (
	"testing"

	"github.com/gabion-go/gabion/policy"
)

func TestTheBudgetGaugeSaysItsArithmetic(t *testing.T) {
	for _, c := range []struct {
		shape policy.BudgetShape
		stats policy.BudgetStats
		want  gauge
	}{
		{policy.BudgetTokens, policy.BudgetStats{Level: 40}, gauge{Level: 40, Most: 100,
			Text: "40 re-sends left: 100 tokens at most, each costs 1, each success earns 10 %"}},
		{policy.BudgetGRPC, policy.BudgetStats{Level: 1, Tokens: 6.3}, gauge{Level: 1, Most: 4,
			Text: "1 re-send left: 6.3 of 10 tokens, more than half are needed, a failure takes one, each success brings 0.1"}},
		{policy.BudgetQuota, policy.BudgetStats{Level: 32, Tokens: 458}, gauge{Level: 32, Most: 35,
			Text: "32 re-sends left: 458 of 500 tokens, each costs 14, which comes back if it succeeds, each first success brings 1"}},
		{policy.BudgetShare, policy.BudgetStats{Level: 15, Calls: 100, Sent: 5}, gauge{Level: 15, Most: 20,
			Text: "15 re-sends left: 20 % of 100 calls in flight (3 at least), less 5 in flight"}},
		{policy.BudgetShare, policy.BudgetStats{Level: 2, Calls: 1, Sent: 1}, gauge{Level: 2, Most: 3,
			Text: "2 re-sends left: 20 % of 1 call in flight (3 at least), less 1 in flight"}},
	} {
		b := policy.Policy{Retry: policy.Retry{Budget: policy.Budget{Shape: c.shape}}}.Resolved().Retry.Budget
		if got := budgetGauge(&c.stats, &b); *got != c.want {
			t.Errorf("%s:\n got %+v\nwant %+v", c.shape, *got, c.want)
		}
	}
}
