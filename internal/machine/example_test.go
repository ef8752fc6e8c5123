package machine_test

import (
	"fmt"
	"time"

	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/internal/machine"
	"github.com/gabion-go/gabion/policy"
)

// A driver in a dozen lines: one call, in made-up time, whose first attempt never
// left.
func ExampleCall() {
	rules, err := machine.Compile(policy.Policy{Retry: policy.Retry{Backoff: backoff.Exp(100*time.Millisecond, time.Second)}})
	if err != nil {
		fmt.Println(err)
		return
	}
	state := machine.NewState(0, rules, machine.Setup{Seed: 1})
	outcomes := []policy.Outcome{{Class: policy.ClassNetwork, NeverSent: true}, {Class: policy.ClassSuccess}}

	var call machine.Call
	now := clock.Instant(0)
	call.Begin(state, now, &machine.Params{})
	for {
		switch step := call.Next(now); step.Verb {
		case machine.Send:
			now = now.Add(10 * time.Millisecond)
			fmt.Println("an attempt came home:", outcomes[0].Class)
			call.Settle(now, step.Ticket, outcomes[0])
			outcomes = outcomes[1:]
		case machine.Wait:
			fmt.Println("waits for", step.Again.Sub(now))
			now = step.Again
		case machine.Return:
			fmt.Println(call.End().Reason, "after", call.End().Attempts)
			return
		}
	}
	// Output:
	// an attempt came home: network
	// waits for 100ms
	// an attempt came home: success
	// ok after 2
}
