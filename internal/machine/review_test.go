package machine

import (
	"testing"
	"time"

	"github.com/gabion-go/gabion/internal/breaker"
	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/policy"
)

// rulesOf makes p ready.
func rulesOf(t *testing.T, p policy.Policy) *Rules {
	t.Helper()
	r, err := Compile(p)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// A call may see the new policy before a reload came to the lane that it is in.
func TestCallFurnishesALaneThatAReloadHasNotReached(t *testing.T) {
	s := NewState(0, rulesOf(t, policy.Policy{Breaker: policy.Breaker{Off: true}}), Setup{Seed: 1})
	callOnce(s, "a", 0, 0)
	r := rulesOf(t, policy.Policy{})
	s.furnish(0, r)
	s.rules.Store(r) // and no further
	callOnce(s, "a", 1, 0)
	if b := s.Breaker("a"); b == nil || b.Snapshot(1).Counts.Calls != 1 {
		t.Errorf("the partition has breaker %v", b)
	}
}

// A reservation of before a reload that emptied the budget is not taken from what
// was charged since.
func TestRefundStopsAtAReloadThatEmptiedTheBudget(t *testing.T) {
	safe := policy.Policy{Safe: true, Breaker: policy.Breaker{Off: true}, Retry: policy.Retry{Budget: policy.Budget{Shape: policy.BudgetWindow}}}
	s := NewState(0, rulesOf(t, safe), Setup{Seed: 1})
	fail := func(c *Call) {
		c.Begin(s, 0, &Params{})
		c.Settle(0, c.Next(0).Ticket, policy.Outcome{Class: policy.ClassNetwork})
		c.Next(0)
	}
	var before, since Call
	fail(&before)
	safe.Retry.Budget.Window = 20 * time.Second
	s.Reload(0, rulesOf(t, safe))
	fail(&since)
	before.Cancel(0)
	if got := s.Stats(0).Budget.Sent; got != 1 {
		t.Errorf("%d re-sends are charged, want the one since the reload", got)
	}
	since.Cancel(0)
	if got := s.Stats(0).Budget.Sent; got != 0 {
		t.Errorf("%d re-sends are charged, want none", got)
	}
}

// A call in a hurry says nothing about the dependency either when its work does not
// even listen to its end.
func TestDeafWorkOfACallInAHurryIsNeutral(t *testing.T) {
	for _, per := range []policy.Per{policy.PerAttempt, policy.PerCall} {
		s := NewState(0, rulesOf(t, policy.Policy{Breaker: policy.Breaker{Per: per, Consecutive: 1}}), Setup{Seed: 1})
		const hurry = 10 * time.Millisecond
		var c Call
		c.Begin(s, 0, &Params{Deadline: clock.Instant(hurry)})
		ticket := c.Next(0).Ticket
		late := clock.Instant(hurry).Add(grace)
		if v := c.Next(late).Verb; v != Return {
			t.Fatalf("at the end of its grace the call says %v", v)
		}
		c.Settle(late, ticket, policy.Outcome{Class: policy.ClassTimeout})
		if got := s.Breaker("").State(); got != breaker.Closed {
			t.Errorf("per %v: the breaker is %s", per, got)
		}
	}
}
