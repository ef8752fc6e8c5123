package policy_test

import (
	"fmt"
	"time"

	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/clock"
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

// A driver in a dozen lines: one call, in made-up time, whose first attempt never
// left.
func ExampleCall() {
	rules, err := policy.Compile(policy.Policy{Retry: policy.Retry{Backoff: backoff.Exp(100*time.Millisecond, time.Second)}})
	if err != nil {
		fmt.Println(err)
		return
	}
	state := policy.NewState(0, rules, policy.Setup{Seed: 1})
	outcomes := []policy.Outcome{{Class: policy.Network, NeverSent: true}, {}}

	var call policy.Call
	now := clock.Instant(0)
	call.Begin(state, now, &policy.Params{})
	for {
		switch step := call.Next(now); step.Verb {
		case policy.Send:
			now = now.Add(10 * time.Millisecond)
			fmt.Println("an attempt came home:", outcomes[0].Class)
			call.Settle(now, step.Ticket, outcomes[0])
			outcomes = outcomes[1:]
		case policy.Wait:
			fmt.Println("waits for", step.Again.Sub(now))
			now = step.Again
		case policy.Return:
			fmt.Println(call.Verdict().Reason, "after", call.Verdict().Attempts)
			return
		}
	}
	// Output:
	// an attempt came home: network
	// waits for 100ms
	// an attempt came home: success
	// ok after 2
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
