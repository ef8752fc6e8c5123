package policy

import (
	"time"

	"github.com/gabion-go/gabion/breaker"
	"github.com/gabion-go/gabion/budget"
	"github.com/gabion-go/gabion/ratelimit"
)

// Rules is a policy made ready to decide by: every default written out, and what
// the parts need reckoned once. Rules are immutable; many States may share one.
type Rules struct {
	Policy Policy // resolved

	breaker   breaker.Rules
	budget    budget.Rules
	tokens    budget.BucketRules
	repeats   budget.Rules // after conflicts
	rate      ratelimit.Rules
	guarded   bool // there is a breaker
	bulkhead  bool
	windowed  bool // the budget is a window
	measured  bool // latencies are kept
	learns    bool // some part wants to know of successes besides the breaker
	throttled bool
	wraps     bool // some layer wraps the whole call and not each attempt
	parts     bool // some layer is on that not every dependency has
}

// maxSends is how many attempts and hedges one call may make: each has a bit.
const maxSends = 64

// contentionWindow is the time over which conflicts and what is made again after them
// are compared.
const (
	contentionWindow = 10 * time.Second
	contentionFloor  = 1 // repeats a second, whatever the traffic
)

// Compile validates p and makes it ready. Nothing of p's is kept: the caller may
// change its lists afterwards.
func Compile(p Policy) (*Rules, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	p = p.Resolved().Clone()
	r := &Rules{Policy: p, guarded: !p.Breaker.Off, bulkhead: !p.Bulkhead.Off}
	r.breaker = breakerRules(p.Breaker)
	if !p.Retry.Budget.Off {
		r.budget, r.tokens = budgetRules(p.Retry.Budget)
	}
	r.repeats = budget.NewRules(float64(on(p.Retry.Contention.Repeats)), contentionFloor, contentionWindow)
	if p.RateLimit.Rate > 0 {
		r.rate = ratelimit.Every(float64(p.RateLimit.Rate), p.RateLimit.Burst)
	}
	r.measured = p.Hedge.Percentile > 0 || p.Timeout.Fit > 0
	r.learns = r.measured || p.Retry.Budget.Shape == BudgetTokens
	r.windowed = !p.Retry.Budget.Off && p.Retry.Budget.Shape == BudgetWindow
	r.throttled = p.Throttle.K > 0
	r.wraps = r.guarded && p.Breaker.Per == PerCall || r.bulkhead && p.Bulkhead.Per == PerCall
	r.parts = r.bulkhead || p.RateLimit.Rate > 0 || r.throttled ||
		!p.Retry.Budget.Off && !r.windowed
	return r, nil
}

// on reads a resolved number: Off is no rule, which the parts write as zero.
func on[T ~int | ~int64 | ~float64](v T) T { return max(v, 0) }

func breakerRules(b Breaker) breaker.Rules {
	return breaker.Rules{
		Window: b.Window, WindowCalls: b.WindowCalls, MinCalls: b.MinCalls,
		FailureRate: float64(on(b.FailureRate)), SlowRate: float64(on(b.SlowRate)), SlowCall: on(b.SlowCall),
		Failures: b.Failures, Consecutive: b.Consecutive, InFlight: b.InFlight,
		Open: b.Open, OpenMax: b.OpenMax, OpenGrowth: b.OpenGrowth, OpenJitter: float64(on(b.OpenJitter)),
		Probes: b.Probes, ProbeCalls: b.ProbeCalls, CloseAfter: b.CloseAfter, ReopenAfter: b.ReopenAfter,
		ProbeTimeout: b.ProbeTimeout, ExpiryCloses: b.ProbeExpiryCloses,
	}
}

func budgetRules(b Budget) (budget.Rules, budget.BucketRules) {
	ratio := float64(on(b.Ratio))
	if b.Shape == BudgetTokens {
		return budget.Rules{}, budget.NewBucketRules(b.Capacity, b.Cost, ratio)
	}
	return budget.NewRules(ratio, float64(on(b.Floor)), b.Window), budget.BucketRules{}
}
