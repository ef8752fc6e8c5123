package machine

import (
	"errors"
	"slices"
	"time"

	"github.com/gabion-go/gabion/internal/breaker"
	"github.com/gabion-go/gabion/internal/budget"
	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/internal/learned"
	"github.com/gabion-go/gabion/internal/ratelimit"
	"github.com/gabion-go/gabion/internal/terms"
	"github.com/gabion-go/gabion/policy"
)

// Rules is a compiled policy: every default is written out, and what the parts need is
// computed once. Rules are immutable; many States may share them.
type Rules struct {
	Policy policy.Policy // resolved

	breaker breaker.Rules
	shared  breaker.Rules // of the shared partition, which always observes
	earned  budget.EarnedRules
	budget  budget.Rules
	tokens  budget.BucketRules
	costs   struct {
		cheap budget.BucketRules // tokens, with the cost after a throttled attempt
		dear  budget.BucketRules // tokens, with the cost after a timeout
	}
	share     budget.ShareRules
	repeats   budget.Rules // after conflicts
	quotas    quotaRules
	guarded   bool // there is a breaker
	bulkhead  bool
	limit     func() learned.Rule // that moves the bulkhead's limit; nil where that is fixed
	earns     bool                // successes earn re-sends
	windowed  bool                // the budget is a window
	bucket    bool                // the budget is of tokens
	shares    bool                // the budget is a share of the calls in flight
	deposits  bool                // the budget counts calls
	settles   bool                // the budget learns how attempts end
	hold      uint32              // failures in a row that hold retries back; 0 means never
	measured  bool                // latencies are kept
	timed     bool                // the attempt's time is measured
	lasts     bool                // an attempt that nothing can follow has more time than others
	longest   time.Duration       // of an attempt while attempts are cut off in series; zero if those have no more time
	plain     bool                // no layer but these: breaker, bulkhead of a fixed limit, rate limit, and a budget that asks for nothing at the end of a success
	learns    bool                // a part besides the breaker counts successes
	throttled bool
	whole     things // what wraps the whole call and not each attempt
	parts     bool   // some layer is on that not every dependency has

	leasing
}

// contentionWindow is the time over which conflicts and what is made again after them
// are compared.
const (
	contentionWindow = 10 * time.Second
	contentionFloor  = 1 // repeats a second, whatever the traffic
)

// Compile validates p and compiles it. Nothing of p is kept: the caller may change its
// lists afterwards.
func Compile(p policy.Policy) (*Rules, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	return compile(p), nil
}

// Recompile is Compile for a change of the policy in force, whose defaults are all
// written out. A setting that has no effect any more because of the change stops nobody.
func Recompile(p policy.Policy) (*Rules, error) {
	if findings, ok := errors.AsType[policy.Mistakes](p.Validate()); ok {
		findings = slices.DeleteFunc(findings, func(f policy.Mistake) bool { return f.Unused })
		if len(findings) > 0 {
			return nil, findings
		}
	}
	return compile(p), nil
}

func compile(p policy.Policy) *Rules {
	p = p.Resolved().Clone()
	r := &Rules{Policy: p, guarded: !p.Breaker.Off, bulkhead: !p.Bulkhead.Off}
	r.breaker = breakerRules(p.Breaker)
	if !p.Retry.Budget.Off {
		r.fund(p.Retry.Budget)
	}
	r.repeats = budget.NewRules(float64(on(p.Retry.Contention.Repeats)), contentionFloor, contentionWindow)
	if p.RateLimit.Rate > 0 {
		r.rate = ratelimit.Every(float64(p.RateLimit.Rate), p.RateLimit.Burst)
	}
	r.measured = p.Hedge.Percentile > 0 || p.Timeout.Fit > 0
	r.timed = p.Timeout.Percentile > 0
	r.lasts = p.Timeout.Attempt > 0 && p.Timeout.Last != p.Timeout.Attempt
	r.longest = longestOf(&p.Timeout)
	r.learns = r.measured || r.timed || r.settles
	r.hold = uint32(on(p.Retry.Hold))
	r.breaker.CountRun = r.hold > 0
	r.shared, r.shared.Observe = r.breaker, true
	r.throttled = p.Throttle.K > 0
	if r.guarded && p.Breaker.Per == policy.PerCall {
		r.whole |= aPermit
	}
	if r.bulkhead && p.Bulkhead.Per == policy.PerCall {
		r.whole |= aSlot
	}
	if r.bulkhead && p.Bulkhead.Limit == policy.Learned {
		r.limit = r.newLimit
	}
	if r.shares {
		r.whole |= aPlace
	}
	r.quotas = quotasOf(p, r.placed())
	r.plain = !r.placed() && r.whole == 0 && !r.throttled && !r.learns && r.limit == nil && len(p.RateLimit.Quotas) == 0 && p.Hedge.Max <= 0
	r.unusual, r.until = len(p.RateLimit.Quotas) > 0, clock.Never
	r.parts = r.bulkhead || p.RateLimit.Rate > 0 || r.throttled || r.deposits || r.bucket
	return r
}

// Bare returns rules with the same timeouts and no layer that refuses, waits, repeats or
// counts. They are for calls that are part of an attempt, which has passed all of that.
func (r *Rules) Bare() *Rules {
	p := r.Policy
	p.Retry = policy.Retry{Attempts: 1, Budget: policy.Budget{Off: true}, Hold: policy.Off, MaxAfter: p.Retry.MaxAfter}
	p.Hedge, p.Pace, p.Throttle = policy.Hedge{Off: true}, policy.Pace{Off: true}, policy.Throttle{Off: true}
	p.Breaker, p.Bulkhead, p.RateLimit = policy.Breaker{Off: true}, policy.Bulkhead{Off: true}, policy.RateLimit{Off: true}
	p.Endpoints = policy.Endpoints{}
	p.Timeout.Percentile, p.Timeout.Fit, p.Timeout.Last = 0, 0, p.Timeout.Attempt
	p.Timeout.Strict = true
	return compile(p)
}

// breakerOf returns the rules of the breaker of the partition of that name.
func (r *Rules) breakerOf(name string) *breaker.Rules {
	if name == terms.Overflow {
		return &r.shared
	}
	return &r.breaker
}

// on reads a resolved number: to the parts zero is off.
func on[T ~int | ~int64 | ~float64](v T) T { return max(v, 0) }

func breakerRules(b policy.Breaker) breaker.Rules {
	return breaker.Rules{
		Window: b.Window, WindowCalls: b.WindowCalls, MinCalls: b.MinCalls,
		FailureRate: float64(on(b.FailureRate)), SlowRate: float64(on(b.SlowRate)), SlowCall: on(b.SlowCall),
		Failures: b.Failures, Consecutive: on(b.Consecutive), ConsecutiveFor: on(b.ConsecutiveFor), InFlight: b.InFlight,
		Open: b.Open, OpenMax: b.OpenMax, OpenGrowth: b.OpenGrowth, OpenJitter: float64(on(b.OpenJitter)),
		OpenCalls: on(b.OpenCalls), Probes: b.Probes, ProbeCalls: b.ProbeCalls, CloseAfter: b.CloseAfter, ReopenAfter: b.ReopenAfter,
		Observe: b.Observe, ProbeTimeout: b.ProbeTimeout, ExpiryCloses: b.ProbeExpiryCloses,
	}
}

// shows is what a class of outcome shows of the dependency, and so what the breaker
// counts. Only report makes exceptions. A permanent outcome is an answer, so the dependency
// works (SPEC F5), and so is a conflict with another call. A throttled attempt paces,
// and does not open. Work that was given up or crashed says nothing (CONFORMANCE C31,
// C32).
var shows = [policy.ClassCrashed + 1]breaker.Result{
	policy.ClassUndecided:    breaker.Bad,
	policy.ClassSuccess:      breaker.Good,
	policy.ClassNetwork:      breaker.Bad,
	policy.ClassTimeout:      breaker.Bad,
	policy.ClassServer:       breaker.Bad,
	policy.ClassThrottled:    breaker.Neutral,
	policy.ClassContention:   breaker.Good,
	policy.ClassClient:       breaker.Good,
	policy.ClassBusiness:     breaker.Good,
	policy.ClassUnclassified: breaker.Bad,
	policy.ClassIgnored:      breaker.Neutral,
	policy.ClassRejected:     breaker.Neutral,
	policy.ClassCrashed:      breaker.Neutral,
}

func (r *Rules) shows(c policy.Class) breaker.Result {
	if c == policy.ClassThrottled && r.Policy.Breaker.Throttled {
		return breaker.Bad
	}
	return shows[c]
}
