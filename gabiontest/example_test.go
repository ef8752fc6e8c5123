package gabiontest_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/classify"
	"github.com/gabion-go/gabion/gabiontest"
	"github.com/gabion-go/gabion/policy"
)

// A dependency that fails twice and then works, and what it has seen.
func ExampleNewScript() {
	bank := gabiontest.NewScript(append(
		gabiontest.Fails(2, classify.Transient(errors.New("down"))),
		gabiontest.Step{},
	)...)
	d := gabion.New("bank", gabiontest.FreeRetries(policy.Policy{Retry: policy.Retry{Backoff: backoff.Const(0)}}))
	err := d.Run(context.Background(), bank.Run, gabion.WithKey("order-7"))
	fmt.Println(err, bank.Attempts(), bank.Seen()[2].Key)
	// Output: <nil> 3 order-7
}

func ExampleRecorder() {
	seen := new(gabiontest.Recorder)
	d := gabion.New("bank", policy.Policy{}, gabion.WithObserver(seen))
	d.Run(context.Background(), gabiontest.NewScript().Run)
	for _, line := range seen.Decisions() {
		fmt.Println(line)
	}
	// Output:
	// attempt_sent #1
	// attempt_settled #1 success
	// returned after 1
}

// The policy of production, in a test of what the program does after two failures: the
// budget would refuse the second retry of a dependency that never answered well.
func ExampleFreeRetries() {
	production := policy.Policy{Retry: policy.Retry{Attempts: 3, Backoff: backoff.Const(0)}}
	for _, p := range []policy.Policy{production, gabiontest.FreeRetries(production)} {
		bank := gabiontest.NewScript(append(gabiontest.Fails(2, classify.Transient(errors.New("down"))), gabiontest.Step{})...)
		err := gabion.New("bank", p).Run(context.Background(), bank.Run, gabion.WithKey("order-7"))
		fmt.Println(bank.Attempts(), gabion.ReasonOf(err))
	}
	// Output:
	// 2 budget_exhausted
	// 3 ok
}
