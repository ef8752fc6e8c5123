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

// A classifier says what an answer means, and whether the work may have happened.
func ExampleFailed() {
	classify := func(status int) policy.Outcome {
		switch status {
		case 200:
			return policy.Succeeded()
		case 429:
			return policy.Refused(policy.ClassThrottled).ComeBack(2 * time.Second)
		case 500:
			return policy.Failed(policy.ClassServer).WithCode("500")
		}
		return policy.Outcome{} // undecided: the next classifier is asked
	}
	for _, status := range []int{200, 429, 500, 400} {
		o := classify(status)
		fmt.Printf("%v: effect %v, undone %v, after %v, code %q\n", o.Class, o.Effect, o.Undone, o.After, o.Code)
	}
	fmt.Println(policy.Unsent(policy.ClassNetwork).NeverSent)
	// Output:
	// success: effect none, undone false, after 0s, code ""
	// throttled: effect none, undone true, after 2s, code ""
	// server: effect unknown, undone false, after 0s, code "500"
	// undecided: effect none, undone false, after 0s, code ""
	// true
}
