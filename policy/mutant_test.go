package policy

import (
	"testing"
	"time"

	"github.com/gabion-go/gabion/clock"
)

// Each test here fails when one line is taken out that all others did without.

// nobody is woken.
type nobody struct{}

func (nobody) Wake() {}

// A slot that wraps the whole call is held as long as the result lives.
func TestAWholeCallsSlotIsHeldWhileItsResultIsOpen(t *testing.T) {
	s := NewState(0, rulesOf(t, Policy{Bulkhead: Bulkhead{Limit: 1, Queue: Off, Per: PerCall}}), Setup{Seed: 1})
	var first, second Call
	first.Begin(s, 0, &Params{})
	step := first.Next(0)
	first.Settle(1, step.Ticket, Outcome{Open: true})
	if first.Next(1).Verb != Return {
		t.Fatal("the call has not ended")
	}
	second.Begin(s, 2, &Params{Waker: nobody{}})
	if got := second.Next(2); got.Verb != Return || second.Verdict().Reason != BulkheadFull {
		t.Errorf("beside an open result: %v, %v", got.Verb, second.Verdict().Reason)
	}
	first.Release(3, step.Ticket, false)
	second = Call{}
	second.Begin(s, 4, &Params{Waker: nobody{}})
	if got := second.Next(4); got.Verb != Send {
		t.Errorf("after its release: %v", got.Verb)
	}
}

// What never left, and won't next time, says nothing about the dependency.
func TestTheBreakerDoesNotHearOfWhatWasNeverSent(t *testing.T) {
	for _, class := range []Class{ClientError, Business, Unclassified} {
		for _, neverSent := range []bool{false, true} {
			s := NewState(0, rulesOf(t, Policy{}), Setup{Seed: 1})
			var c Call
			c.Begin(s, 0, &Params{})
			c.Settle(1, c.Next(0).Ticket, Outcome{Class: class, NeverSent: neverSent})
			want := int64(1)
			if neverSent {
				want = 0
			}
			if got := s.Breaker("").Snapshot(1).Counts.Calls; got != want {
				t.Errorf("%v, never sent %v: the breaker counts %d, want %d", class, neverSent, got, want)
			}
		}
	}
}

// A hedge that the budget refuses is no request of the dependency's.
func TestAHedgeThatTheBudgetRefusesIsNoRequest(t *testing.T) {
	p := Policy{Safe: true, Throttle: Throttle{K: 2}, Hedge: Hedge{Max: 1, Delay: time.Second}}
	p.Retry.Budget = Budget{Ratio: Off, Reserve: Off, Start: Off}
	s := NewState(0, rulesOf(t, p), Setup{Seed: 1})
	var c Call
	c.Begin(s, 0, &Params{})
	c.Next(0)
	if got := c.Next(clock.Instant(time.Second)); got.Verb != Wait {
		t.Fatalf("the hedge: %v", got.Verb)
	}
	if requests, _ := s.throttle().Counts(clock.Instant(time.Second)); requests != 1 {
		t.Errorf("%d requests are counted, one was sent", requests)
	}
}
