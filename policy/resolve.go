package policy

import (
	"time"

	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/internal/terms"
)

// The defaults of the zero policy (SPEC N). Those that depend on other fields
// are reckoned in Resolved.
const (
	defaultCall         = 15 * time.Second
	defaultAttempt      = 4 * time.Second
	defaultAttemptMin   = 50 * time.Millisecond
	defaultSilence      = 30 * time.Second
	defaultMaxAfter     = 30 * time.Second
	defaultMargin       = 50 * time.Millisecond
	defaultHopMargin    = 100 * time.Millisecond
	defaultAttempts     = 3
	defaultBase         = time.Second
	defaultCap          = 30 * time.Second
	defaultConflicts    = 15
	defaultConflictBase = 10 * time.Millisecond
	defaultConflictCap  = time.Second
	defaultRepeats      = 5
	defaultHold         = 1
	defaultEarned       = Ratio(0.3)
	defaultEarnedWindow = time.Second
	defaultReserve      = 1
	defaultStart        = 1
	defaultBudget       = Ratio(0.1)
	defaultBudgetWindow = 10 * time.Second
	defaultFloor        = PerSecond(1)
	defaultCapacity     = 100
	defaultCost         = 1
	defaultMaxTokens    = 10
	defaultShare        = Ratio(0.2)
	defaultMinInFlight  = 3
	defaultFirstTry     = Ratio(1)
	defaultQuota        = 500
	defaultQuotaCost    = 14
	defaultThrottled    = 5
	defaultHedge        = Ratio(0.95)
	defaultPace         = 5 * time.Second
	defaultThrottle     = 2 * time.Minute
	defaultWindow       = 10 * time.Second
	defaultMinCalls     = 30
	defaultFailureRate  = Ratio(0.95)
	defaultConsecutive  = 20
	defaultRow          = 10 * time.Second
	defaultSlowRate     = Ratio(0.8)
	defaultOpen         = 2 * time.Second
	defaultOpenCalls    = 8
	defaultOpenGrowth   = 2
	defaultOpenJitter   = Ratio(0.1)
	defaultProbes       = 3
	defaultPartitions   = 1000
	defaultIdle         = 10 * time.Minute
	defaultLimit        = 100
	defaultLeast        = 1
	defaultMost         = 1000
	defaultQueueTimeout = time.Second
	defaultReplayLimit  = 64 << 10
)

// Resolved returns the policy with every default written out. [Off] stays Off,
// except in fields whose zero already means that there is no such rule: there it
// becomes zero, so that a machine has one thing to ask. Mistakes are left as
// they are, for [Policy.Validate] to name. A resolved policy resolved again is
// itself.
//
// Defaults give way to what is written, so that one short line is enough: no policy
// of one field contradicts itself because of a default. What derives from a timeout
// that is off derives from the other one.
func (p Policy) Resolved() Policy {
	p.Timeout = p.Timeout.resolved(p.Breaker)
	p.Hedge = p.Hedge.resolved()
	p.Retry = p.Retry.resolved(p.Hedge)
	p.Timeout.Fit = noRule(p.Timeout.Fit)
	p.Pace.Max = or(p.Pace.Max, defaultPace)
	p.Throttle = p.Throttle.resolved()
	p.Breaker = p.Breaker.resolved(p.Timeout)
	p.Bulkhead = p.Bulkhead.resolved()
	p.RateLimit = p.RateLimit.resolved()
	p.Partitions.Max = or(p.Partitions.Max, defaultPartitions)
	p.Partitions.Idle = or(p.Partitions.Idle, defaultIdle)
	p.Endpoints = p.Endpoints.resolved()
	p.HTTP.ReplayLimit = or(p.HTTP.ReplayLimit, defaultReplayLimit)
	return p
}

func (t Timeout) resolved(b Breaker) Timeout {
	written := t.Attempt
	t.Attempt = or(t.Attempt, shorter(shorter(b.attemptDefault(), t.Call), t.Last))
	t.Call = or(t.Call, max(defaultCall, t.Attempt, t.Last, b.callDefault()))
	t.Last = or(t.Last, t.lastDefault(written))
	t.Body = noRule(t.Body)
	t.Idle = or(t.Idle, shorter(defaultSilence, t.Body))
	t.Margin = or(t.Margin, shorter(shorter(defaultMargin, t.Call/10), t.Attempt))
	if t.Percentile = noRule(t.Percentile); t.Percentile > 0 {
		t.AttemptMin = or(t.AttemptMin, t.attemptMinDefault())
	}
	t.HopMargin = or(t.HopMargin, shorter(shorter(shorter(defaultHopMargin, t.Call/2), t.Attempt/2), t.AttemptMin/2))
	return t
}

// lastDefault keeps to the attempt's time that is written or measured.
func (t Timeout) lastDefault(written time.Duration) time.Duration {
	if written == 0 && t.Call > 0 && t.Percentile <= 0 {
		return Off
	}
	return t.Attempt
}

// attemptMinDefault leaves something to send after a hop has kept its margin.
func (t Timeout) attemptMinDefault() time.Duration {
	least := defaultAttemptMin
	if t.HopMargin > 0 && t.HopMargin <= maxDuration {
		least = max(least, 2*t.HopMargin)
	}
	return shorter(least, t.Attempt)
}

// attemptDefault leaves room for what the breaker calls slow, and fits into its
// window twice.
func (b Breaker) attemptDefault() time.Duration {
	attempt := defaultAttempt
	if b.Off {
		return attempt
	}
	if b.Per == PerAttempt && b.SlowCall >= attempt && b.SlowCall <= maxDuration {
		attempt = b.SlowCall + b.SlowCall/4
	}
	if b.WindowCalls <= 0 {
		attempt = shorter(attempt, b.Window/2)
	}
	return attempt
}

// callDefault leaves room for what the breaker calls slow, where it wraps calls.
func (b Breaker) callDefault() time.Duration {
	if b.Off || b.Per != PerCall || b.SlowCall <= 0 || b.SlowCall > maxDuration {
		return 0
	}
	return b.SlowCall + b.SlowCall/4
}

func (r Retry) resolved(h Hedge) Retry {
	taken := max(h.Max, 0) + max(r.Contention.Attempts-1, 0) // each send has a bit
	r.Attempts = or(r.Attempts, max(min(defaultAttempts, terms.MaxSends-taken), 1))
	r.Backoff.Base = or(r.Backoff.Base, baseOf(r.Backoff))
	r.Backoff.Cap = or(r.Backoff.Cap, max(defaultCap, r.Backoff.Base))
	r.MaxAfter = or(r.MaxAfter, max(r.Backoff.Cap, defaultMaxAfter))
	r.Hold = or(r.Hold, defaultHold)
	r.Budget = r.Budget.resolved()
	r.Contention = r.Contention.resolved(r.Attempts, h.Max)
	return r
}

func (c ContentionRetry) resolved(attempts, hedges int) ContentionRetry {
	most := max(terms.MaxSends-max(attempts, 0)-max(hedges, 0)+1, 1) // each send has a bit
	if attempts == 1 {
		most = 1
	}
	c.Attempts = or(c.Attempts, min(defaultConflicts, most))
	c.Backoff.Base = or(c.Backoff.Base, shorter(defaultConflictBase, c.Backoff.Cap))
	c.Backoff.Cap = or(c.Backoff.Cap, max(defaultConflictCap, c.Backoff.Base))
	c.Repeats = or(c.Repeats, defaultRepeats)
	return c
}

// shape is what the other fields are of, where none is written.
func (b Budget) shape() BudgetShape {
	switch {
	case b.Shape != BudgetEarned || b.Reserve != 0 || b.Start != 0:
	case b.Floor != 0:
		return BudgetWindow
	case b.MinInFlight != 0:
		return BudgetShare
	case b.ThrottledCost != 0 || b.TimeoutCost != 0:
		return BudgetQuota
	case b.Capacity != 0 || b.Cost != 0:
		return BudgetTokens
	}
	return b.Shape
}

// baseOf lets a short cap shorten the default base.
func baseOf(b backoff.Backoff) time.Duration { return shorter(defaultBase, b.Cap) }

func (b Budget) resolved() Budget {
	b.Shape = b.shape()
	switch b.Shape {
	case BudgetEarned:
		b.Ratio = or(b.Ratio, defaultEarned)
		b.Window = or(b.Window, defaultEarnedWindow)
		b.Reserve = or(b.Reserve, defaultReserve)
		b.Start = or(b.Start, min(defaultStart, max(b.Reserve, 0)))
	case BudgetWindow:
		b.Ratio = or(b.Ratio, defaultBudget)
		b.Window = or(b.Window, defaultBudgetWindow)
		b.Floor = or(b.Floor, defaultFloor)
	case BudgetTokens:
		b.Ratio = or(b.Ratio, defaultBudget)
		b.Cost = or(b.Cost, defaultCost)
		b.Capacity = or(b.Capacity, max(defaultCapacity, b.Cost))
	case BudgetGRPC:
		b.Ratio = or(b.Ratio, defaultBudget)
		b.Capacity = or(b.Capacity, defaultMaxTokens)
	case BudgetShare:
		b.Ratio = or(b.Ratio, defaultShare)
		b.MinInFlight = or(b.MinInFlight, defaultMinInFlight)
	case BudgetQuota:
		b.Ratio = or(b.Ratio, defaultFirstTry)
		b.Cost = or(b.Cost, cheaper(defaultQuotaCost, b.Capacity))
		b.ThrottledCost = or(b.ThrottledCost, cheaper(defaultThrottled, b.Cost))
		b.TimeoutCost = or(b.TimeoutCost, b.Cost)
		b.Capacity = or(b.Capacity, max(defaultQuota, b.Cost, b.ThrottledCost, b.TimeoutCost))
	}
	return b
}

// cheaper returns the lower of two costs; a cost that is not positive does not count.
func cheaper(cost, most int) int {
	if most > 0 {
		return min(cost, most)
	}
	return cost
}

func (b Breaker) resolved(t Timeout) Breaker {
	b.Window = or(b.Window, windowDefault(t))
	b.WindowCalls = noRule(b.WindowCalls)
	b.MinCalls = or(b.MinCalls, b.defaultMinCalls())
	b.FailureRate = or(b.FailureRate, defaultFailureRate)
	if b.SlowCall > 0 {
		b.SlowRate = or(b.SlowRate, defaultSlowRate)
	}
	b.SlowRate = or(b.SlowRate, Off)
	b.SlowCall = or(b.SlowCall, b.slowDefault(t))
	b.Failures = noRule(b.Failures)
	if b.Consecutive == 0 {
		b.Consecutive, b.ConsecutiveFor = defaultConsecutive, or(b.ConsecutiveFor, defaultRow)
	}
	b.ConsecutiveFor = or(b.ConsecutiveFor, Off)
	if b.Open == 0 {
		b.Open, b.OpenCalls = shorter(defaultOpen, b.OpenMax), or(b.OpenCalls, defaultOpenCalls)
	}
	b.OpenCalls = or(b.OpenCalls, Off)
	b.OpenMax = or(b.OpenMax, max(b.Open, b.Open+min(b.Open/4, maxDuration-b.Open)))
	b.OpenGrowth = or(b.OpenGrowth, defaultOpenGrowth)
	b.OpenJitter = or(b.OpenJitter, defaultOpenJitter)
	b.Probes = or(b.Probes, defaultProbes)
	if b.OpenCalls > 0 {
		b.ProbeCalls = or(b.ProbeCalls, 1)
	}
	b.ProbeCalls = or(b.ProbeCalls, b.Probes)
	b.CloseAfter = noRule(b.CloseAfter)
	b.ReopenAfter = or(b.ReopenAfter, 1)
	b.ProbeTimeout = or(b.ProbeTimeout, b.probeDefault(t))
	return b
}

// windowDefault holds two attempts, so that the first timeout still counts when the
// second one comes.
func windowDefault(t Timeout) time.Duration {
	if t.Attempt > maxWindow/2 {
		return maxWindow // no window is long enough: Validate says so
	}
	return max(defaultWindow, 2*t.Attempt)
}

func (b Breaker) defaultMinCalls() int {
	if b.WindowCalls > 0 {
		return min(defaultMinCalls, b.WindowCalls)
	}
	return defaultMinCalls
}

// slowDefault is 80 % of the timeout of what the breaker wraps: the attempt's, or
// the call's. With neither there is nothing to be slow against.
func (b Breaker) slowDefault(t Timeout) time.Duration {
	limit := firstSet(t.Attempt, t.Call)
	if b.Per == PerCall {
		limit = firstSet(t.Call, t.Attempt)
	}
	if limit <= 0 {
		return Off
	}
	return max(limit/5*4+limit%5*4/5, 1) // divided first: 4 × a century overflows
}

// probeDefault is the time by which a probe must be home, whatever happens to
// it. When nothing bounds the call the open time does: a probe that is out for
// longer has told as much as refusing would.
func (b Breaker) probeDefault(t Timeout) time.Duration {
	if b.Per == PerCall {
		return firstSet(t.Call, t.Attempt, b.Open)
	}
	return firstSet(t.Attempt, t.Call, b.Open)
}

// resolved drops what the other fields say where there are no hedges.
func (h Hedge) resolved() Hedge {
	switch {
	case h.Off || h.Max == Off:
		return Hedge{Off: h.Off}
	case h.Max > 0 && h.Delay == 0:
		h.Percentile = or(h.Percentile, defaultHedge)
	default:
		h.Percentile = noRule(h.Percentile)
	}
	return h
}

func (t Throttle) resolved() Throttle {
	if t.Off || t.K == Off {
		t = Throttle{Off: t.Off}
	}
	t.Window = or(t.Window, defaultThrottle)
	return t
}

func (r RateLimit) resolved() RateLimit {
	switch {
	case r.Off:
		r = RateLimit{Off: true}
	case r.Rate == Off && len(r.Quotas) == 0:
		r = RateLimit{}
	case r.Rate == Off:
		r.Rate, r.Burst = 0, 0
	}
	r.Burst = or(r.Burst, 1)
	var quotas []Quota // none is nil
	for _, q := range r.Quotas {
		quotas = append(quotas, q.resolved())
	}
	r.Quotas = quotas
	return r
}

func (b Bulkhead) resolved() Bulkhead {
	b.Limit = or(b.Limit, defaultLimit)
	if b.Limit == Learned {
		b.Min = or(b.Min, defaultLeast)
		b.Max = or(b.Max, max(defaultMost, b.Min))
	} else {
		b.Queue = or(b.Queue, min(2*b.Limit, maxQueue))
	}
	b.QueueTimeout = or(b.QueueTimeout, defaultQueueTimeout)
	return b
}

type number interface {
	~int | ~int64 | ~float64
}

// or returns v, or the default when v is zero.
func or[T number](v, byDefault T) T {
	if v == 0 {
		return byDefault
	}
	return v
}

// noRule turns Off into zero where zero already means that there is no rule.
func noRule[T number](v T) T {
	if v == Off {
		return 0
	}
	return v
}

// shorter returns the shorter of two limits; a limit that is not positive does not count.
func shorter(d, limit time.Duration) time.Duration {
	if limit > 0 {
		return min(d, limit)
	}
	return d
}

// firstSet returns the first positive duration, else the last.
func firstSet(ds ...time.Duration) time.Duration {
	for _, d := range ds {
		if d > 0 {
			return d
		}
	}
	return ds[len(ds)-1]
}
