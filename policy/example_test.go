package policy_test

import (
	"fmt"
	"time"

	"github.com/gabion-go/gabion/policy"
)

func ExamplePolicy_Resolved() {
	p := policy.Policy{Retry: policy.Retry{Attempts: 5}}.Resolved()
	fmt.Println(p.Retry.Attempts, p.Timeout.Call, p.Timeout.Attempt, p.Breaker.SlowCall)
	// Output: 5 15s 4s 3.2s
}

func ExamplePolicy_Validate() {
	err := policy.Policy{Timeout: policy.Timeout{Call: time.Second, Attempt: 2 * time.Second}}.Validate()
	fmt.Println(err)
	// Output: timeout.attempt: 2s is longer than timeout.call, 1s: write at most 1s, or a longer call timeout
}

func ExamplePreset() {
	p, ok := policy.Preset("payment")
	fmt.Println(ok, p.Key, p.Timeout.Attempt, p.Bulkhead.Limit)
	// Output: true required 5s 10
}

func ExampleParseDuration() {
	_, err := policy.ParseDuration("250")
	fmt.Println(err)
	d, _ := policy.ParseDuration("1m30s")
	fmt.Println(d)
	// Output:
	// "250" has no unit: write 250ms or 250s
	// 1m30s
}

// A budget that works as that of a gRPC client beside it, and what else its name stands for.
func ExampleBudgetShape() {
	p := policy.Policy{Retry: policy.Retry{Budget: policy.Budget{Shape: policy.BudgetGRPC, Capacity: 100}}}
	b := p.Resolved().Retry.Budget
	fmt.Printf("%s: %d tokens, a success brings %s of one\n", b.Shape, b.Capacity, b.Ratio)

	p.Retry.Budget = policy.Budget{TimeoutCost: 10} // only a quota has that
	b = p.Resolved().Retry.Budget
	fmt.Printf("%s: %d tokens, a retry costs %d, %d after a throttled attempt, %d after a timeout\n",
		b.Shape, b.Capacity, b.Cost, b.ThrottledCost, b.TimeoutCost)
	// Output:
	// grpc: 100 tokens, a success brings 10% of one
	// quota: 500 tokens, a retry costs 14, 5 after a throttled attempt, 10 after a timeout
}

// A bulkhead that finds out by itself how many attempts the dependency can work on at once.
func ExampleBulkhead() {
	p := policy.Policy{Bulkhead: policy.Bulkhead{Limit: policy.Learned, Max: 200}}
	fmt.Println(p.Validate())
	b := p.Resolved().Bulkhead
	fmt.Println(b.Limit == policy.Learned, b.Min, b.Max)
	// Output:
	// <nil>
	// true 1 200
}
