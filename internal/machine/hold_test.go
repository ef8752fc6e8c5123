package machine

import (
	"testing"

	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/policy"
)

// Nothing is learnt from calls that were out at the same time: one of them is made
// again, for what a budget starts with.
func TestTwoFirstCallsThatFailTogetherHaveOneRetry(t *testing.T) {
	tr := newTrial(t, policy.Policy{})
	a, first := tr.begin(0)
	b, second := tr.begin(ms)
	sa := tr.home(5*ms, a, first, policy.ClassNetwork)
	if sb := tr.home(6*ms, b, second, policy.ClassNetwork); sb.Verb != Return || b.End().Reason != policy.BudgetExhausted {
		t.Errorf("the second: %+v", b.End())
	}
	sa, _ = tr.goOn(a, sa)
	if sa.Verb != Send {
		t.Fatalf("the first: %+v", a.End())
	}
	if sa = tr.home(2*sec, a, sa.Ticket, policy.ClassSuccess); sa.Verb != Return || !a.Succeeded() {
		t.Errorf("the first: %+v", a.End())
	}
}

func TestNothingIsMadeAgainWhereNothingEverWorked(t *testing.T) {
	for _, per := range []policy.Per{policy.PerAttempt, policy.PerCall} {
		tr := newTrial(t, policy.Policy{Breaker: policy.Breaker{Per: per}})
		a, first := tr.begin(0)
		waits := tr.home(5*ms, a, first, policy.ClassNetwork)
		tr.call(10*ms, 15*ms, policy.ClassNetwork)
		tr.call(20*ms, 25*ms, policy.ClassNetwork)
		if s, now := tr.goOn(a, waits); s.Verb != Return || a.End().Reason != policy.AllFailing || now > sec+5*ms {
			t.Errorf("%v: who waits: %+v", per, a.End())
		}
		b, second := tr.begin(30 * ms)
		if s := tr.home(35*ms, b, second, policy.ClassNetwork); s.Verb != Return || b.End().Reason != policy.AllFailing {
			t.Errorf("%v: who comes when it is known waits for nothing: %+v", per, b.End())
		}
		tr.call(2*sec, 2*sec+ms, policy.ClassSuccess)
		c, third := tr.begin(3 * sec)
		if s := tr.home(3*sec+ms, c, third, policy.ClassNetwork); s.Verb != Wait {
			t.Errorf("%v: after a success: %+v", per, c.End())
		}
	}
}

// A retry waits while others fail whatever rules the breaker has.
func TestRetriesAreHeldWhileOthersFail(t *testing.T) {
	for _, c := range []struct {
		fact string
		p    policy.Policy
		held bool
	}{
		{"by default", policy.Policy{}, true},
		{"without a rule of consecutive failures", policy.Policy{Breaker: policy.Breaker{Consecutive: policy.Off}}, true},
		{"by a breaker that only observes", policy.Policy{Breaker: policy.Breaker{Observe: true, Consecutive: policy.Off}}, true},
		{"of a breaker per call, for two others", policy.Policy{Breaker: policy.Breaker{Per: policy.PerCall}, Retry: policy.Retry{Hold: 2}}, true},
		{"not without a breaker", policy.Policy{Breaker: policy.Breaker{Off: true}}, false},
		{"not if switched off", policy.Policy{Retry: policy.Retry{Hold: policy.Off}}, false},
		{"for two others", policy.Policy{Retry: policy.Retry{Hold: 2}}, true},
		{"not for two of three others", policy.Policy{Retry: policy.Retry{Hold: 3}}, false},
	} {
		tr := newTrial(t, c.p)
		for i := range clock.Instant(20) {
			tr.call(i*10*ms, i*10*ms+ms, policy.ClassSuccess)
		}
		log := &Log{}
		a := new(Call)
		a.Begin(tr.state, sec, &Params{Log: log})
		s := a.Next(sec)
		s = tr.home(sec+ms, a, s.Ticket, policy.ClassNetwork)
		if s.Verb != Wait {
			t.Fatalf("%s: %+v", c.fact, a.End())
		}
		tr.call(sec+2*ms, sec+3*ms, policy.ClassNetwork)
		tr.call(sec+4*ms, sec+5*ms, policy.ClassNetwork)
		s = a.Next(s.Again)
		if held := s.Verb == Wait; held != c.held {
			t.Errorf("%s: held back %v", c.fact, held)
		}
		if !c.held {
			continue
		}
		tr.call(sec+6*ms, sec+7*ms, policy.ClassSuccess)
		if s, _ = tr.goOn(a, s); s.Verb != Send {
			t.Errorf("%s: after a success: %+v", c.fact, a.End())
		}
	}
}

// What an exhausted budget says and what Stats say agree.
func TestNumbersOfAnExhaustedBudgetAreThoseOfStats(t *testing.T) {
	tr := newTrial(t, policy.Policy{Breaker: policy.Breaker{Off: true}})
	for i := range clock.Instant(5) {
		tr.call(i*ms, i*ms+1, policy.ClassSuccess)
	}
	var n *policy.Numbers
	for i := clock.Instant(10); n == nil; i++ {
		c, ticket := tr.begin(i * ms)
		if tr.home(i*ms+1, c, ticket, policy.ClassNetwork); c.End().Reason == policy.BudgetExhausted {
			n = c.End().Numbers
		}
	}
	st := tr.state.Stats(20 * ms).Budget
	if n.Resends != st.Sent || n.Resends == 0 || n.Successes != st.Successes || n.Successes != 5 || n.Ratio != float64(tr.state.Rules().Policy.Retry.Budget.Ratio) || n.Level != 0 {
		t.Errorf("%+v, and Stats say %+v", n, st)
	}
}
