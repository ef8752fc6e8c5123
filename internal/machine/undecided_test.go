package machine

import (
	"testing"

	"github.com/gabion-go/gabion/policy"
)

// The zero Outcome fails closed: an attempt of which nobody said anything is a failure
// that may have happened.
func TestAnAttemptOfWhichNobodySaidAnythingFailed(t *testing.T) {
	r, err := Compile(policy.Policy{Safe: true})
	if err != nil {
		t.Fatal(err)
	}
	var c Call
	c.Begin(NewState(0, r, Setup{}), 0, &Params{})
	c.Settle(1, c.Next(0).Ticket, policy.Outcome{})
	if step := c.Next(1); step.Verb != Return || c.End().Reason != policy.UnclassifiedError || c.End().Effect != policy.UnknownEffect {
		t.Errorf("%v, %+v", step.Verb, c.End())
	}
}
