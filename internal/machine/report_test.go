package machine

import (
	"testing"
	"time"

	"github.com/gabion-go/gabion/internal/breaker"
	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/policy"
)

// What never left, and won't next time, says nothing about the dependency.
func TestTheBreakerDoesNotHearOfWhatWasNeverSent(t *testing.T) {
	for _, class := range []policy.Class{policy.ClassClient, policy.ClassBusiness, policy.ClassUnclassified} {
		for _, neverSent := range []bool{false, true} {
			s := NewState(0, rulesOf(t, policy.Policy{}), Setup{Seed: 1})
			var c Call
			c.Begin(s, 0, &Params{})
			c.Settle(1, c.Next(0).Ticket, policy.Outcome{Class: class, NeverSent: neverSent})
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

// A call without time for an answer says nothing of the dependency, to the throttle or
// the breaker. What timed out for another reason does.
func TestOnlyACallInAHurryIsNeutral(t *testing.T) {
	for _, c := range []struct {
		fact       string
		time, ends clock.Instant
		counted    int64
	}{
		{"it ends at its deadline", 10 * ms, 10 * ms, 0},
		{"it ends later", 10 * ms, 11 * ms, 0},
		{"somebody else's time was over before", 10 * ms, 9 * ms, 1},
		{"it had as much time as the margin", 50 * ms, 50 * ms, 1},
		{"it had more, and somebody else's time was over", 100 * ms, 99 * ms, 1},
	} {
		s := NewState(0, rulesOf(t, policy.Policy{Throttle: policy.Throttle{K: 2}, Timeout: policy.Timeout{Margin: 50 * time.Millisecond}}), Setup{Seed: 1})
		var call Call
		call.Begin(s, 0, &Params{Deadline: c.time, NoRetry: true})
		call.Settle(c.ends, call.Next(0).Ticket, policy.Outcome{Class: policy.ClassTimeout})
		if got := s.Breaker("").Snapshot(c.ends).Counts.Calls; got != c.counted {
			t.Errorf("%s: the breaker counts %d calls, want %d", c.fact, got, c.counted)
		}
		if got, accepts := s.throttle().Counts(c.ends); got != c.counted || accepts != 0 {
			t.Errorf("%s: the throttle counts %d requests and %d accepts, want %d and 0", c.fact, got, accepts, c.counted)
		}
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
