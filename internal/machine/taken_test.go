package machine

import (
	"testing"
	"time"

	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/policy"
)

// accounts are what others see of what calls have taken.
type accounts struct {
	budget, sent int64         // re-sends that are allowed, and charged
	tokens       float64       // of a budget that has some
	repeats      int64         // charged after conflicts
	requests     int64         // that the throttle has counted
	turn         clock.Instant // when the rate limit lets the next one go
	calls        int64         // that the breaker has counted
	permits      int           // of the breaker that are out
	slots        int           // in use
}

func accountsOf(s *State, now clock.Instant) (a accounts) {
	st := s.Stats(now)
	a.tokens = st.Budget.Tokens
	a.budget, a.sent, a.slots = st.Budget.Level, st.Budget.Sent, st.Bulkhead.InUse
	a.calls = st.Main.Breaker.Counts.Calls
	a.permits = st.Main.Breaker.InFlight + st.Main.Breaker.Probes
	_, a.repeats = s.contention().Counts(now)
	if s.Rules().throttled {
		a.requests, _ = s.throttle().Counts(now)
	}
	if r := s.Rules().rate; r.Interval > 0 {
		a.turn, _ = s.limiter().Reserve(now, r, time.Hour)
		s.limiter().Cancel(now, a.turn, r)
	}
	return a
}

// watched is a policy under which every permit of the breaker is counted while it is out.
func watched(p policy.Policy) policy.Policy {
	p.Breaker.InFlight, p.Breaker.SlowCall = true, 20*time.Second
	p.Timeout.Call = 30 * time.Second
	return p
}

// What was taken for an attempt that is not made is given back, and nothing else is.
func TestWhatAnAttemptHasTakenIsGivenBackWhenItIsNotMade(t *testing.T) {
	failed := func(class policy.Class) func(*trial) *Call { // a call that waits before its retry
		return func(tr *trial) *Call {
			c, first := tr.begin(2 * ms)
			c.Settle(2*ms, first, policy.Outcome{Class: class, Undone: true})
			return c
		}
	}
	second := func(tr *trial) *Call { // a call that begins while another is out
		tr.call(0, ms, policy.ClassSuccess)
		tr.begin(2 * ms)
		c := new(Call)
		c.Begin(tr.state, 2*ms, &Params{Waker: nobody{}})
		return c
	}
	limited := policy.Policy{RateLimit: policy.RateLimit{Rate: 1, Burst: 2}, Throttle: policy.Throttle{K: 2}, Bulkhead: policy.Bulkhead{Limit: 3}}
	for _, c := range []struct {
		fact string
		p    policy.Policy
		call func(*trial) *Call
		want func(before accounts) accounts // while it is taken
	}{
		{"a re-send that was earned", policy.Policy{Retry: policy.Retry{Budget: policy.Budget{Start: 2}}}, failed(policy.ClassServer),
			func(a accounts) accounts { a.budget--; a.sent++; return a }},
		{"a re-send of a window", policy.Policy{Retry: policy.Retry{Budget: policy.Budget{Shape: policy.BudgetWindow}}}, failed(policy.ClassServer),
			func(a accounts) accounts { a.budget--; a.sent++; return a }},
		{"a token", policy.Policy{Retry: policy.Retry{Budget: policy.Budget{Shape: policy.BudgetTokens}}}, failed(policy.ClassServer),
			func(a accounts) accounts { a.budget--; a.tokens--; return a }},
		{"tokens of a quota", policy.Policy{Retry: policy.Retry{Budget: policy.Budget{Shape: policy.BudgetQuota}}}, failed(policy.ClassServer),
			func(a accounts) accounts { a.budget--; a.tokens -= 14; return a }},
		{"fewer of them after a throttled attempt", policy.Policy{Pace: policy.Pace{Off: true}, Retry: policy.Retry{Budget: policy.Budget{Shape: policy.BudgetQuota}}}, failed(policy.ClassThrottled),
			func(a accounts) accounts { a.tokens -= 5; return a }},
		{"more of them after a timeout", policy.Policy{Retry: policy.Retry{Budget: policy.Budget{TimeoutCost: 30}}}, failed(policy.ClassTimeout),
			func(a accounts) accounts { a.budget -= 2; a.tokens -= 30; return a }},
		{"a place in flight", policy.Policy{Retry: policy.Retry{Budget: policy.Budget{Shape: policy.BudgetShare}}}, failed(policy.ClassServer),
			func(a accounts) accounts { a.budget--; a.sent++; return a }},
		{"nothing, where failures pay", policy.Policy{Retry: policy.Retry{Budget: policy.Budget{Shape: policy.BudgetGRPC}}}, failed(policy.ClassServer),
			func(a accounts) accounts { return a }},
		{"a repeat after a conflict", policy.Policy{}, failed(policy.ClassContention),
			func(a accounts) accounts { a.repeats++; return a }},
		{"a turn, and the slot and the request of who waits for it", limited, second,
			func(a accounts) accounts { a.turn += sec; a.requests++; a.slots++; return a }},
	} {
		t.Run(c.fact, func(t *testing.T) {
			tr := newTrial(t, watched(c.p))
			call := c.call(tr)
			before := accountsOf(tr.state, 2*ms)
			if step := call.Next(2 * ms); step.Verb != Wait {
				t.Fatalf("it does not wait: %+v", call.End())
			}
			if got, want := accountsOf(tr.state, 3*ms), c.want(before); got != want {
				t.Errorf("while it waits: %+v, want %+v", got, want)
			}
			call.Cancel(3 * ms)
			if got := accountsOf(tr.state, 3*ms); got != before {
				t.Errorf("after the end:  %+v, want %+v", got, before)
			}
		})
	}
}

// A hedge that one layer refuses gives back what it took of those before.
func TestAHedgeThatIsNotMadeGivesEverythingBack(t *testing.T) {
	hedge := policy.Hedge{Max: 1, Delay: 10 * time.Millisecond}
	for _, c := range []struct {
		fact string
		p    policy.Policy
		want policy.Reason
	}{
		{"it has no slot", policy.Policy{Throttle: policy.Throttle{K: 2}, Bulkhead: policy.Bulkhead{Limit: 1}}, policy.BulkheadFull},
		{"it has no turn", policy.Policy{Throttle: policy.Throttle{K: 2}, Bulkhead: policy.Bulkhead{Limit: 2}, RateLimit: policy.RateLimit{Rate: 1}}, policy.RateLimited},
		{"it has no turn, and the whole call has permit and slot", policy.Policy{
			Breaker: policy.Breaker{Per: policy.PerCall}, Bulkhead: policy.Bulkhead{Limit: 2, Per: policy.PerCall}, RateLimit: policy.RateLimit{Rate: 1},
		}, policy.RateLimited},
	} {
		c.p.Hedge, c.p.Retry.Budget.Start = hedge, 5
		tr := newTrial(t, watched(c.p))
		var log Log
		var call Call
		call.Begin(tr.state, 0, &Params{Log: &log})
		if step := call.Next(0); step.Verb != Send {
			t.Fatal(step)
		}
		log.Drain()
		before := accountsOf(tr.state, ms)
		if before.permits != 1 || before.slots != 1 {
			t.Fatalf("%s: %+v", c.fact, before)
		}
		call.Next(10 * ms)
		if e := log.Drain(); len(e) != 1 || e[0].Kind != policy.KindHedgeSkipped || e[0].Reason != c.want {
			t.Errorf("%s: %v", c.fact, e)
		}
		if got := accountsOf(tr.state, 10*ms); got != before {
			t.Errorf("%s: %+v, want %+v", c.fact, got, before)
		}
		call.Cancel(11 * ms)
		if got := accountsOf(tr.state, 11*ms); got.sent != before.sent || got.requests != before.requests || got.slots != before.slots {
			t.Errorf("%s, after the end: %+v, want %+v: it was given back twice", c.fact, got, before)
		}
	}
}

// What wraps the whole call is held from its first attempt to its end, between its
// attempts too.
func TestWhatWrapsTheWholeCallIsGivenBackAtItsEnd(t *testing.T) {
	tr := newTrial(t, watched(policy.Policy{
		Breaker: policy.Breaker{Per: policy.PerCall}, Bulkhead: policy.Bulkhead{Limit: 2, Per: policy.PerCall}, Retry: policy.Retry{Budget: policy.Budget{Start: 2}},
	}))
	c, first := tr.begin(0)
	held := func(now clock.Instant, when string, permits, slots int) {
		t.Helper()
		if a := accountsOf(tr.state, now); a.permits != permits || a.slots != slots {
			t.Errorf("%s: %+v", when, a)
		}
	}
	held(1, "in its first attempt", 1, 1)
	s := tr.home(1, c, first, policy.ClassServer)
	held(1, "between two attempts", 1, 1)
	s, now := tr.goOn(c, s)
	held(now, "in its second attempt", 1, 1)
	c.Cancel(now)
	held(now, "canceled, with an attempt out", 0, 1)
	c.Settle(now, s.Ticket, policy.Outcome{Class: policy.ClassIgnored})
	held(now, "with nothing out", 0, 0)
}

// Who waits only to look at the clock again holds no slot meanwhile, but that of the
// whole call.
func TestWhoAsksTheRateLimitAgainHoldsNoSlot(t *testing.T) {
	for per, want := range map[policy.Per]int{policy.PerAttempt: 0, policy.PerCall: 1} {
		tr := newTrial(t, policy.Policy{
			RateLimit: policy.RateLimit{Rate: 1, MaxWait: policy.Off}, Bulkhead: policy.Bulkhead{Limit: 3, Per: per},
			Retry: policy.Retry{Backoff: backoff.Const(time.Millisecond), Budget: policy.Budget{Start: 2}},
		})
		c, first := tr.begin(0)
		s := tr.home(ms, c, first, policy.ClassServer)
		if again := c.Next(s.Again); again.Verb != Wait || again.Again != s.Again+1 {
			t.Fatalf("%+v", again)
		}
		if got := accountsOf(tr.state, s.Again).slots; got != want {
			t.Errorf("%v: %d slots are in use, want %d", per, got, want)
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
