package machine

import (
	"testing"
	"time"

	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/policy"
)

// Each test here fails when one line is taken out that all others did without.

// nobody is woken.
type nobody struct{}

func (nobody) Wake() {}

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

// A hedge that the budget refuses is no request of the dependency's.
func TestAHedgeThatTheBudgetRefusesIsNoRequest(t *testing.T) {
	p := policy.Policy{Safe: true, Throttle: policy.Throttle{K: 2}, Hedge: policy.Hedge{Max: 1, Delay: time.Second}}
	p.Retry.Budget = policy.Budget{Ratio: policy.Off, Reserve: policy.Off, Start: policy.Off}
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

// A refusal that asks for a second is no limit if much was answered well just before.
func TestOneRefusalAmongSuccessesPacesNobody(t *testing.T) {
	tr := newTrial(t, policy.Policy{})
	for i := range clock.Instant(20) {
		tr.call(i*ms, i*ms+1, policy.ClassSuccess)
	}
	a, ticket := tr.begin(30 * ms)
	a.Settle(31*ms, ticket, policy.Outcome{Class: policy.ClassThrottled, HasAfter: true, After: time.Second})
	tr.begin(32 * ms) // which fails if it is not sent
}

// The dependency asked for a second, and then answered one that was out already: so it
// does accept, and nobody waits.
func TestASuccessOnItsWayEndsPacing(t *testing.T) {
	tr := newTrial(t, policy.Policy{})
	a, first := tr.begin(0)
	b, second := tr.begin(0)
	a.Settle(ms, first, policy.Outcome{Class: policy.ClassThrottled, HasAfter: true, After: time.Second})
	var c Call
	c.Begin(tr.state, 2*ms, &Params{})
	if got := c.Next(2 * ms); got.Verb != Wait {
		t.Fatalf("before the success: %v", got.Verb)
	}
	tr.home(3*ms, b, second, policy.ClassSuccess)
	tr.begin(4 * ms) // which fails if it is not sent
}

// A call whose last moment is the end of the time that was asked for goes then.
func TestATurnAtTheLastMomentIsTaken(t *testing.T) {
	p := new(pacer)
	p.hold(0, 4*sec, true, bears{})
	if at, ok := p.reserve(sec, 4*sec, 0.5); !ok || at != 4*sec {
		t.Errorf("it goes at %v, %v", time.Duration(at), ok)
	}
}
