package formulas

import (
	"math"
	"testing"
	"time"

	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/policy"
)

const (
	ms = time.Millisecond
	s  = time.Second
)

func with(change func(*policy.Policy)) policy.Policy {
	var p policy.Policy
	change(&p)
	return p.Resolved()
}

var zero = policy.Policy{}.Resolved()

func TestTimes(t *testing.T) {
	many := with(func(p *policy.Policy) { p.Retry.Attempts = 1 << 40; p.Timeout.Call = policy.Off })
	for _, c := range []struct {
		fact      string
		got, want time.Duration
	}{
		{"the usual waits of the defaults are 0.5 + 1 s", Waits(zero.Retry.Backoff, 2, Usual), 1500 * ms},
		{"the longest are 1 + 2 s", Waits(zero.Retry.Backoff, 2, Longest), 3 * s},
		{"no waits", Waits(zero.Retry.Backoff, 0, Longest), 0},
		{"decorrelated waits follow each other: 1 to 3, then 1 to 9", Waits(backoff.Backoff{Kind: backoff.DecorrelatedJitter, Base: s, Cap: 60 * s}, 2, Longest), 12 * s},
		{"waits without an end end", Waits(backoff.Backoff{Base: math.MaxInt64}, 9, Longest), math.MaxInt64},
		{"three attempts of 4 s and 3 s of waits", Full(zero), 15 * s},
		{"the call bounds them", Worst(with(func(p *policy.Policy) { p.Timeout.Call = 5 * s })), 5 * s},
		{"or nothing does", Worst(with(func(p *policy.Policy) { p.Timeout.Call, p.Timeout.Attempt = policy.Off, policy.Off })), math.MaxInt64},
		{"very many attempts", Worst(many), math.MaxInt64},
		{"a retry of the defaults that is held begins up to the margin before the end", Bridge(zero, Longest, true), 14950 * ms},
		{"one that is not begins after its waits", Bridge(zero, Longest, false), 3 * s},
		{"one attempt bridges nothing", Bridge(with(func(p *policy.Policy) { p.Retry.Attempts = 1 }), Longest, true), 0},
		{"twenty failures at two a second", Reach(20, 2), 10 * s},
		{"no calls, no failures", Reach(20, 0), math.MaxInt64},
		{"two in a row of a tenth, at ten a second: 1 / (10 · 0.9 · 0.01)", RowEvery(10, 0.1, 2).Round(ms), 11111 * ms},
		{"a row that never comes", RowEvery(10, 0.1, 1000), math.MaxInt64},
	} {
		if c.got != c.want {
			t.Errorf("%s: %v, want %v", c.fact, c.got, c.want)
		}
	}
}

func TestCounts(t *testing.T) {
	p := with(func(p *policy.Policy) { p.Timeout.Call, p.Timeout.Attempt = 5*s, 2*s })
	if Fit(p) != 2 || Begun(p, Usual) != 3 || Fit(zero) != 3 {
		t.Error(Fit(p), Begun(p, Usual), Fit(zero))
	}
	short := with(func(p *policy.Policy) { p.Timeout.Call = s })
	if Begun(short, Usual) != 2 || Begun(short, Longest) != 1 {
		t.Error(Begun(short, Usual), Begun(short, Longest))
	}
	if n := Sends(with(func(p *policy.Policy) { p.Hedge.Max = 2 })); n != 5 {
		t.Error(n)
	}
}

// The loads are those of ADR 60 and docs/budgets.md.
func TestWhatBudgetsAdd(t *testing.T) {
	of := func(b policy.Budget) policy.Policy {
		return with(func(p *policy.Policy) { p.Retry.Attempts, p.Retry.Budget = 8, b })
	}
	for _, c := range []struct {
		fact         string
		b            policy.Budget
		extra, burst float64
	}{
		{"earned", policy.Budget{}, 0.3, 1},
		{"a window", policy.Budget{Shape: policy.BudgetWindow}, 0.1, 10},
		{"tokens", policy.Budget{Shape: policy.BudgetTokens}, 0.1, 100},
		{"gRPC", policy.Budget{Shape: policy.BudgetGRPC}, 0.1, 5},
		{"a share of those in flight", policy.Budget{Shape: policy.BudgetShare}, 0.25, 3},
		{"a quota", policy.Budget{Shape: policy.BudgetQuota, ThrottledCost: 14}, math.Sqrt(1.0 / 14), 500.0 / 14},
		{"none", policy.Budget{Off: true}, 7, 0},
		{"nothing is earned", policy.Budget{Ratio: policy.Off, Reserve: policy.Off, Start: policy.Off}, 0, 0},
	} {
		p := of(c.b)
		if e, b := Extra(p), Burst(p.Retry.Budget); math.Abs(e-c.extra) > 1e-9 || math.Abs(b-c.burst) > 1e-9 {
			t.Errorf("%s: %v, %v, want %v, %v", c.fact, e, b, c.extra, c.burst)
		}
	}
	if e := Extra(with(func(p *policy.Policy) { p.Retry.Attempts = 1 })); e != 0 {
		t.Error("no retry adds", e)
	}
	if Amplification(0.5) != 2 || Amplification(1) < 1e9 || Slots(200, 100*ms) != 20 {
		t.Error(Amplification(0.5), Amplification(1), Slots(200, 100*ms))
	}
}
