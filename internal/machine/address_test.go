package machine

import (
	"testing"
	"time"

	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/internal/breaker"
	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/policy"
)

func TestARetryElsewhereNeedsNoWait(t *testing.T) {
	const base = 100 * time.Millisecond
	for _, c := range []struct {
		fact  string
		means policy.Outcome
		waits time.Duration
	}{
		{"a server that fails is one of several", policy.Outcome{Class: policy.ClassServer, Elsewhere: true}, 0},
		{"so is a connection that breaks", policy.Outcome{Class: policy.ClassNetwork, Elsewhere: true}, 0},
		{"and one that takes too long", policy.Outcome{Class: policy.ClassTimeout, Elsewhere: true}, 0},
		{"where there is no other, the retry waits", policy.Outcome{Class: policy.ClassServer}, base},
		{"who has no room may be one of many", policy.Outcome{Class: policy.ClassThrottled, Elsewhere: true}, base},
		{"a conflict meets the same data everywhere", policy.Outcome{Class: policy.ClassContention, Elsewhere: true}, base},
		{"a time that the dependency asked for holds", policy.Outcome{Class: policy.ClassServer, Elsewhere: true, HasAfter: true, Exact: true, After: time.Second}, time.Second},
	} {
		t.Run(c.fact, func(t *testing.T) {
			constant := backoff.Backoff{Kind: backoff.Constant, Base: base, Cap: time.Minute}
			tr := newTrial(t, policy.Policy{Retry: policy.Retry{Backoff: constant, Contention: policy.ContentionRetry{Backoff: constant}}, Pace: policy.Pace{Off: true}})
			call, ticket := tr.begin(0)
			call.Settle(ms, ticket, c.means)
			step, at := call.Next(ms), ms
			if step.Verb == Wait {
				step, at = tr.goOn(call, step)
			}
			if step.Verb != Send || at.Sub(ms) != c.waits {
				t.Errorf("%v after %v", step.Verb, at.Sub(ms))
			}
		})
	}
}

func TestARetryElsewherePaysTheBudget(t *testing.T) {
	for _, shape := range []policy.BudgetShape{policy.BudgetEarned, policy.BudgetWindow, policy.BudgetTokens, policy.BudgetGRPC, policy.BudgetQuota, policy.BudgetShare} {
		tr := newTrial(t, policy.Policy{Breaker: policy.Breaker{Off: true}, Bulkhead: policy.Bulkhead{Off: true}, Retry: policy.Retry{Hold: policy.Off, Attempts: 2, Budget: policy.Budget{Shape: shape}}})
		calls, retries := 1000, 0
		out := make([]func(), 0, calls)
		for range calls {
			call, ticket := tr.begin(0)
			call.Settle(ms, ticket, policy.Outcome{Class: policy.ClassServer, Elsewhere: true})
			switch step := call.Next(ms); {
			case step.Verb == Send:
				retries++
				out = append(out, func() { call.Settle(2*ms, step.Ticket, policy.Outcome{Class: policy.ClassServer, Elsewhere: true}) })
			case call.End().Reason != policy.BudgetExhausted:
				t.Fatalf("%v: %+v", shape, call.End())
			}
		}
		for _, settle := range out {
			settle()
		}
		if retries == 0 || retries > calls/3 {
			t.Errorf("%v: %d retries of %d calls that all failed", shape, retries, calls)
		}
	}
}

// visit sends an attempt to an address, and says whether it was let in.
func visit(a *Address, now clock.Instant, took time.Duration, class policy.Class) bool {
	p, ok := a.Enter(now)
	if ok {
		a.Leave(now, now.Add(took), p, class)
	}
	return ok
}

func TestAnAddressThatFailsIsLeftOut(t *testing.T) {
	for _, c := range []struct {
		fact   string
		policy policy.Policy
		play   func(*Address)
		shut   bool
	}{
		{"after eight failures in a row", policy.Policy{}, func(a *Address) { fail(a, 8) }, true},
		{"not after seven", policy.Policy{}, func(a *Address) { fail(a, 7) }, false},
		{"where half of many fail", policy.Policy{}, func(a *Address) {
			for range 10 {
				fail(a, 1)
				visit(a, 0, time.Millisecond, policy.ClassSuccess)
			}
		}, true},
		{"not for answers", policy.Policy{}, func(a *Address) {
			for range 30 {
				visit(a, 0, time.Millisecond, policy.ClassClient)
			}
		}, false},
		{"not for callers in a hurry", policy.Policy{}, func(a *Address) {
			for range 30 {
				visit(a, 0, time.Microsecond, policy.ClassTimeout)
			}
		}, false},
		{"not without a breaker", policy.Policy{Breaker: policy.Breaker{Off: true}}, func(a *Address) { fail(a, 30) }, false},
		{"not where the breaker only observes", policy.Policy{Breaker: policy.Breaker{Observe: true}}, func(a *Address) { fail(a, 30) }, false},
	} {
		t.Run(c.fact, func(t *testing.T) {
			state := NewState(0, rulesOf(t, c.policy), Setup{})
			a, other := state.NewAddress("10.0.0.1:443"), state.NewAddress("10.0.0.2:443")
			c.play(a)
			if a.Shut(ms) != c.shut || visit(a, ms, 0, policy.ClassIgnored) == c.shut {
				t.Errorf("shut: %v", a.Shut(ms))
			}
			if other.Shut(ms) || !visit(other, ms, 0, policy.ClassIgnored) {
				t.Error("another address is left out, too")
			}
		})
	}
}

func fail(a *Address, times int) {
	for range times {
		visit(a, 0, time.Millisecond, policy.ClassServer)
	}
}

func TestAnAddressIsTriedAgainByOne(t *testing.T) {
	state := NewState(0, rulesOf(t, policy.Policy{}), Setup{Events: true})
	a := state.NewAddress("10.0.0.1:443")
	fail(a, 8)
	now := 3 * sec
	p, ok := a.Enter(now)
	if _, second := a.Enter(now); !ok || second || !a.Shut(now) {
		t.Fatalf("let in: %v, a second one: %v", ok, second)
	}
	a.Leave(now, now+ms, p, policy.ClassServer)
	if _, ok := a.Enter(now + sec); ok {
		t.Error("it is let in soon after it failed again")
	}
	now += 10 * sec
	if !visit(a, now, time.Millisecond, policy.ClassSuccess) || a.Shut(now+ms) {
		t.Error("one success does not bring it back")
	}
	moves := 0
	state.Deliver(func(e policy.Event) {
		if moves++; e.Kind != policy.KindBreakerMoved || e.Partition != "10.0.0.1:443" {
			t.Errorf("%+v", e)
		}
		if moves == 1 && (e.Numbers.Rule != 8 || e.Cause != breaker.Consecutive) {
			t.Errorf("opened by %v at %v", e.Cause, e.Numbers.Rule)
		}
	})
	if moves != 5 {
		t.Errorf("%d moves were told", moves)
	}
}
