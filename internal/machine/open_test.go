package machine

import (
	"testing"

	"github.com/gabion-go/gabion/policy"
)

// A slot that wraps the whole call is held as long as the result lives.
func TestAWholeCallsSlotIsHeldWhileItsResultIsOpen(t *testing.T) {
	s := NewState(0, rulesOf(t, policy.Policy{Bulkhead: policy.Bulkhead{Limit: 1, Queue: policy.Off, Per: policy.PerCall}}), Setup{Seed: 1})
	var first, second Call
	first.Begin(s, 0, &Params{})
	step := first.Next(0)
	first.Settle(1, step.Ticket, policy.Outcome{Class: policy.ClassSuccess, Open: true})
	if first.Next(1).Verb != Return {
		t.Fatal("the call has not ended")
	}
	second.Begin(s, 2, &Params{Waker: nobody{}})
	if got := second.Next(2); got.Verb != Return || second.End().Reason != policy.BulkheadFull {
		t.Errorf("beside an open result: %v, %v", got.Verb, second.End().Reason)
	}
	first.Release(3, step.Ticket, false)
	second = Call{}
	second.Begin(s, 4, &Params{Waker: nobody{}})
	if got := second.Next(4); got.Verb != Send {
		t.Errorf("after its release: %v", got.Verb)
	}
}
