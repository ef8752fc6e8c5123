package labtest_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/lab/labtest"
	"github.com/gabion-go/gabion/policy"
)

// payments is the policy that the program calls by.
var payments = policy.Policy{
	Safe:    true,
	Timeout: policy.Timeout{Call: 5 * time.Second, Attempt: time.Second},
	Retry:   policy.Retry{Attempts: 4, Backoff: backoff.Full(100*time.Millisecond, 2*time.Second)},
}

func TestPaymentsSurviveAStorm(t *testing.T) {
	storm := labtest.Run(t, labtest.Case{
		Scenario:     "testdata/storm.yaml",
		Policies:     map[string]policy.Policy{"db": payments},
		Replications: 20,
	})
	storm.Amplification(t, 1.2)
	storm.Recovery(t, time.Minute)
	storm.Goodput(t, 0.7)
	storm.Stuck(t, 0.2)
}

// A test of the policy of payments, in the file that production runs: it
// tries six times, and nothing bounds that.
func Example() {
	t := new(test) // in your tests, the t that they get
	storm := labtest.Run(t, labtest.Case{
		Scenario: "testdata/storm.yaml", // or the name of one that comes with gabion, such as error-storm
		Config:   "testdata/gabion.yaml",
		As:       map[string]string{"db": "payments"},
	})
	storm.Recovery(t, time.Minute)
	fmt.Println("recovers within a minute:", !t.failed)
	storm.Amplification(t, 1.2)
	fmt.Println("adds at most a fifth to the load:", !t.failed)
	// Output:
	// recovers within a minute: true
	// adds at most a fifth to the load: false
}

// test stands for a *testing.T, which examples have none of.
type test struct {
	testing.TB
	failed bool
}

func (t *test) Helper()                  {}
func (t *test) Context() context.Context { return context.Background() }
func (t *test) Errorf(string, ...any)    { t.failed = true }
