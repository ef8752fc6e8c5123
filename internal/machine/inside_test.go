package machine

import (
	"testing"
	"time"

	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/policy"
)

// A statement of a transaction is part of work that was admitted: nothing may refuse it
// or make it wait, and its failures count.
func TestWorkInsideOfAdmittedWork(t *testing.T) {
	full := policy.Policy{
		Bulkhead: policy.Bulkhead{Limit: 1, Queue: policy.Off},
		Breaker:  policy.Breaker{Consecutive: 2},
		Retry:    policy.Retry{Hold: policy.Off},
	}
	inside := Params{Inside: true, NoRetry: true}
	for _, c := range []struct {
		fact  string
		per   policy.Per
		first Params // of a call that stays out
		then  Params
		open  bool // the breaker is open by then
		want  policy.Reason
	}{
		{"a second call finds no slot", policy.PerAttempt, Params{}, Params{}, false, policy.BulkheadFull},
		{"work inside needs none", policy.PerAttempt, Params{}, inside, false, policy.None},
		{"a connection needs none", policy.PerAttempt, Params{}, Params{NoSlot: true}, false, policy.None},
		{"nor where the slot is the call's", policy.PerCall, Params{}, inside, false, policy.None},
		{"who has a connection already goes without", policy.PerAttempt, Params{}, Params{NoQueue: true}, false, policy.None},
		{"nor where the slot is the call's", policy.PerCall, Params{}, Params{NoQueue: true}, false, policy.None},
		{"but takes one that is free", policy.PerAttempt, Params{NoQueue: true}, Params{}, false, policy.BulkheadFull},
		{"and for the whole call", policy.PerCall, Params{NoQueue: true}, Params{}, false, policy.BulkheadFull},
		{"work inside takes none from others", policy.PerAttempt, inside, Params{}, false, policy.None},
		{"nor where the slot is the call's", policy.PerCall, inside, Params{}, false, policy.None},
		{"a connection meets an open breaker", policy.PerAttempt, Params{NoSlot: true}, Params{NoSlot: true}, true, policy.BreakerOpen},
		{"work inside does not", policy.PerAttempt, inside, inside, true, policy.None},
		{"nor where the permit is the call's", policy.PerCall, inside, inside, true, policy.None},
	} {
		t.Run(c.fact, func(t *testing.T) {
			p := full
			p.Bulkhead.Per, p.Breaker.Per = c.per, c.per
			now := clock.Instant(time.Hour)
			s := insideState(t, now, p)
			var held Call
			held.Begin(s, now, &c.first)
			step := held.Next(now)
			if step.Verb != Send {
				t.Fatalf("the first call: %v", step.Verb)
			}
			if c.open {
				for range 2 {
					fails := Params{Inside: true, NoRetry: true}
					var bad Call
					bad.Begin(s, now, &fails)
					b := bad.Next(now)
					bad.Settle(now, b.Ticket, policy.Outcome{Class: policy.ClassNetwork})
					bad.Next(now)
				}
			}
			var next Call
			next.Begin(s, now, &c.then)
			next.SetWaker(nobody{})
			got := next.Next(now)
			if why := next.End().Reason; why != c.want || (c.want == policy.None) != (got.Verb == Send) {
				t.Errorf("the second call: verb %v, %v; want %v", got.Verb, why, c.want)
			}
			if got.Verb == Send {
				next.Settle(now, got.Ticket, policy.Outcome{Class: policy.ClassSuccess})
				next.Next(now)
			}
			held.Settle(now, step.Ticket, policy.Outcome{Class: policy.ClassSuccess})
			held.Next(now)
			if u := s.bulkhead().Stats(); u.InUse != 0 {
				t.Errorf("%d slots are left behind", u.InUse)
			}
		})
	}
}

// The wait for a connection of one's own pool says nothing about the database.
func TestAnExhaustedPoolIsItsOwnReason(t *testing.T) {
	now := clock.Instant(time.Hour)
	s := insideState(t, now, policy.Policy{Breaker: policy.Breaker{Consecutive: 1}})
	var c Call
	c.Begin(s, now, &Params{Safe: true})
	step := c.Next(now)
	late := step.Ticket.Deadline.Add(time.Second)
	c.Settle(late, step.Ticket, policy.Outcome{Class: policy.ClassRejected, NeverSent: true, Exhausted: true})
	if c.Next(late); c.End().Reason != policy.PoolExhausted || c.End().Effect != policy.NoEffect {
		t.Errorf("it ended as %+v", c.End())
	}
	var after Call
	after.Begin(s, late, &Params{})
	if got := after.Next(late); got.Verb != Send {
		t.Errorf("the breaker counted it: %v", after.End().Reason)
	}
}

func insideState(t *testing.T, now clock.Instant, p policy.Policy) *State {
	t.Helper()
	r, err := Compile(p)
	if err != nil {
		t.Fatal(err)
	}
	return NewState(now, r, Setup{})
}
