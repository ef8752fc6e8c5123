package policy

import (
	"slices"
	"strings"
	"time"
)

// unused reports settings that are right by themselves and have no effect, because
// another one is missing or takes their place. What says no more than the default is
// no finding, and neither is anything in a section that is Off. p is the policy as
// written, r what it resolves to.
func (c *check) unused(p, r Policy) {
	c.unusedSwitches(p)
	c.unusedInBudget(p, r.Retry.Budget)
	c.unusedInFleet(p.Fleet, r)
	if !p.Breaker.Off {
		c.unusedInBreaker(p, r.Breaker)
	}
	if !p.Bulkhead.Off && r.Bulkhead.Queue == Off {
		const why = "without a queue"
		unused(c, p, "bulkhead.queue_timeout", "bulkhead.queue", why, "a queue", func(p *Policy) *time.Duration { return &p.Bulkhead.QueueTimeout })
	}
	if !p.Bulkhead.Off && r.Bulkhead.Limit != Learned {
		const with, why, instead = "bulkhead.limit", "where bulkhead.limit is a number", "bulkhead.limit: learned"
		unused(c, p, "bulkhead.min", with, why, instead, func(p *Policy) *int { return &p.Bulkhead.Min })
		unused(c, p, "bulkhead.max", with, why, instead, func(p *Policy) *int { return &p.Bulkhead.Max })
	}
	if r.Partitions.Max == Off {
		const why, instead = "where all calls share one", "partitions.max as well"
		unused(c, p, "partitions.idle", "partitions.max", why, instead, func(p *Policy) *time.Duration { return &p.Partitions.Idle })
	}
	if r.Timeout.Percentile <= 0 {
		const why, instead = "without timeout.percentile", "attempt: p99.9 as well"
		unused(c, p, "timeout.attempt_min", "timeout.percentile", why, instead, func(p *Policy) *time.Duration { return &p.Timeout.AttemptMin })
	}
	if r.Trust == External {
		const why = "with trust: external"
		unused(c, p, "timeout.hop_margin", "trust", why, "trust: internal", func(p *Policy) *time.Duration { return &p.Timeout.HopMargin })
	}
}

// unusedSwitches: rules that one number switches on.
func (c *check) unusedSwitches(p Policy) {
	if !p.Hedge.Off && p.Hedge.Max == 0 {
		const with, why, instead = "hedge.max", "without hedge.max", "hedge.max as well, 1 is usual"
		unused(c, p, "hedge.delay", with, why, instead, func(p *Policy) *time.Duration { return &p.Hedge.Delay })
		unused(c, p, "hedge.percentile", with, why, instead, func(p *Policy) *Ratio { return &p.Hedge.Percentile })
	}
	if !p.Throttle.Off && p.Throttle.K == 0 {
		const with, why, instead = "throttle.k", "without throttle.k", "throttle.k as well, 2 is usual"
		unused(c, p, "throttle.window", with, why, instead, func(p *Policy) *time.Duration { return &p.Throttle.Window })
	}
	if !p.RateLimit.Off && p.RateLimit.Rate == 0 {
		const with, why, instead = "rate_limit.rate", "without rate_limit.rate", "rate_limit.rate as well"
		unused(c, p, "rate_limit.burst", with, why, instead, func(p *Policy) *int { return &p.RateLimit.Burst })
		if len(p.RateLimit.Quotas) == 0 {
			unused(c, p, "rate_limit.max_wait", with, why, instead, func(p *Policy) *time.Duration { return &p.RateLimit.MaxWait })
		}
	}
}

// unusedInBudget: fields of other shapes.
func (c *check) unusedInBudget(p Policy, b Budget) {
	if b.Off {
		return
	}
	unusedOf(c, p, b, "reserve", func(b *Budget) *float64 { return &b.Reserve }, BudgetEarned)
	unusedOf(c, p, b, "start", func(b *Budget) *float64 { return &b.Start }, BudgetEarned)
	unusedOf(c, p, b, "floor", func(b *Budget) *PerSecond { return &b.Floor }, BudgetWindow)
	unusedOf(c, p, b, "capacity", func(b *Budget) *int { return &b.Capacity }, BudgetTokens, BudgetGRPC, BudgetQuota)
	unusedOf(c, p, b, "cost", func(b *Budget) *int { return &b.Cost }, BudgetTokens, BudgetQuota)
	unusedOf(c, p, b, "throttled_cost", func(b *Budget) *int { return &b.ThrottledCost }, BudgetQuota)
	unusedOf(c, p, b, "timeout_cost", func(b *Budget) *int { return &b.TimeoutCost }, BudgetQuota)
	unusedOf(c, p, b, "min_in_flight", func(b *Budget) *int { return &b.MinInFlight }, BudgetShare)
	unusedOf(c, p, b, "window", func(b *Budget) *time.Duration { return &b.Window }, BudgetEarned, BudgetWindow)
}

// unusedOf reports a number of the budget that is of other shapes only.
func unusedOf[T number](c *check, p Policy, b Budget, name string, at func(*Budget) *T, of ...BudgetShape) {
	if slices.Contains(of, b.Shape) {
		return
	}
	words := make([]string, len(of))
	for i, s := range of {
		words[i] = s.String()
	}
	last := len(words) - 1
	instead := words[last]
	if last > 0 {
		instead = strings.Join(words[:last], ", ") + " or " + instead
	}
	unused(c, p, "retry.budget."+name, "retry.budget.shape", "with retry.budget.shape: "+b.Shape.String(), "shape: "+instead,
		func(p *Policy) *T { return at(&p.Retry.Budget) })
}

func (c *check) unusedInBreaker(p Policy, b Breaker) {
	if b.WindowCalls > 0 {
		const why, instead = "beside breaker.window_calls", "one of the two"
		unused(c, p, "breaker.window", "breaker.window_calls", why, instead, func(p *Policy) *time.Duration { return &p.Breaker.Window })
	}
	if b.FailureRate == Off && b.SlowRate == Off {
		const why, instead = "where no rate counts", "breaker.failure_rate as well"
		unused(c, p, "breaker.min_calls", "breaker.failure_rate", why, instead, func(p *Policy) *int { return &p.Breaker.MinCalls })
	}
	if b.SlowCall == Off {
		const why, instead = "where no call is slow", "breaker.slow_call as well"
		unused(c, p, "breaker.slow_rate", "breaker.slow_call", why, instead, func(p *Policy) *Ratio { return &p.Breaker.SlowRate })
	}
	if b.Consecutive == Off {
		const why, instead = "without breaker.consecutive", "breaker.consecutive as well"
		unused(c, p, "breaker.consecutive_for", "breaker.consecutive", why, instead, func(p *Policy) *time.Duration { return &p.Breaker.ConsecutiveFor })
	}
	if b.CloseAfter == 0 {
		const why, instead = "without breaker.close_after", "breaker.close_after as well"
		unused(c, p, "breaker.reopen_after", "breaker.close_after", why, instead, func(p *Policy) *int { return &p.Breaker.ReopenAfter })
	} else {
		const why, instead = "beside breaker.close_after", "one of the two"
		unused(c, p, "breaker.probe_calls", "breaker.close_after", why, instead, func(p *Policy) *int { return &p.Breaker.ProbeCalls })
	}
	if b.InFlight && b.SlowRate == Off {
		c.addUnused("breaker.in_flight", "breaker.slow_rate", "true", "without breaker.slow_rate", "breaker.slow_rate as well")
	}
}

// unused reports a number that has no effect, unless it is the default.
func unused[T number](c *check, p Policy, path, with, why, instead string, at func(*Policy) *T) {
	v := *at(&p)
	if v == 0 || v == Off {
		return
	}
	*at(&p) = 0
	if r := p.Resolved(); *at(&r) == v {
		return
	}
	c.addUnused(path, with, spelled(v), why, instead)
}

func (c *check) addUnused(path, with, value, why, instead string) {
	c.found = append(c.found, Mistake{
		Path: path, With: with, Value: value, Problem: "has no effect " + why,
		Proposal: "write " + instead + ", or leave it out", Unused: true,
	})
}

// spelled writes a number as files do.
func spelled[T number](v T) string {
	switch v := any(v).(type) {
	case time.Duration:
		return FormatDuration(v)
	case Ratio:
		return v.String()
	case PerSecond:
		return v.String()
	}
	return formatFloat(float64(v))
}
