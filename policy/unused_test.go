package policy

import (
	"errors"
	"testing"
	"time"
)

// A setting that is right by itself and has no effect is a finding.
func TestValidateFindsWhatHasNoEffect(t *testing.T) {
	const s = time.Second
	cases := []struct {
		policy Policy
		want   string
	}{
		{Policy{Hedge: Hedge{Delay: s}},
			"hedge.delay: 1s has no effect without hedge.max: write hedge.max as well, 1 is usual, or leave it out"},
		{Policy{Hedge: Hedge{Percentile: 0.95}},
			"hedge.percentile: 95% has no effect without hedge.max: write hedge.max as well, 1 is usual, or leave it out"},
		{Policy{Throttle: Throttle{Window: time.Minute}},
			"throttle.window: 1m has no effect without throttle.k: write throttle.k as well, 2 is usual, or leave it out"},
		{Policy{RateLimit: RateLimit{Burst: 5}},
			"rate_limit.burst: 5 has no effect without rate_limit.rate: write rate_limit.rate as well, or leave it out"},
		{Policy{RateLimit: RateLimit{MaxWait: s}},
			"rate_limit.max_wait: 1s has no effect without rate_limit.rate: write rate_limit.rate as well, or leave it out"},
		{Policy{Timeout: Timeout{HopMargin: s}},
			"timeout.hop_margin: 1s has no effect with trust: external: write trust: internal, or leave it out"},
		{Policy{Timeout: Timeout{AttemptMin: s}},
			"timeout.attempt_min: 1s has no effect without timeout.percentile: write attempt: p99.9 as well, or leave it out"},
		{Policy{Bulkhead: Bulkhead{Queue: Off, QueueTimeout: 2 * s}},
			"bulkhead.queue_timeout: 2s has no effect without a queue: write a queue, or leave it out"},
		{Policy{Retry: Retry{Budget: Budget{Shape: BudgetWindow, Reserve: 2}}},
			"retry.budget.reserve: 2 has no effect with retry.budget.shape: window: write shape: earned, or leave it out"},
		{Policy{Retry: Retry{Budget: Budget{Shape: BudgetTokens, Start: 2}}},
			"retry.budget.start: 2 has no effect with retry.budget.shape: tokens: write shape: earned, or leave it out"},
		{Policy{Retry: Retry{Budget: Budget{Reserve: 2, Floor: 3}}},
			"retry.budget.floor: 3/s has no effect with retry.budget.shape: earned: write shape: window, or leave it out"},
		{Policy{Retry: Retry{Budget: Budget{Floor: 3, Capacity: 50}}},
			"retry.budget.capacity: 50 has no effect with retry.budget.shape: window: write shape: tokens, grpc or quota, or leave it out"},
		{Policy{Retry: Retry{Budget: Budget{Start: 2, Cost: 5}}},
			"retry.budget.cost: 5 has no effect with retry.budget.shape: earned: write shape: tokens or quota, or leave it out"},
		{Policy{Retry: Retry{Budget: Budget{Shape: BudgetGRPC, Cost: 5}}},
			"retry.budget.cost: 5 has no effect with retry.budget.shape: grpc: write shape: tokens or quota, or leave it out"},
		{Policy{Retry: Retry{Budget: Budget{Shape: BudgetShare, Capacity: 50}}},
			"retry.budget.capacity: 50 has no effect with retry.budget.shape: share: write shape: tokens, grpc or quota, or leave it out"},
		{Policy{Retry: Retry{Budget: Budget{Shape: BudgetTokens, ThrottledCost: 5}}},
			"retry.budget.throttled_cost: 5 has no effect with retry.budget.shape: tokens: write shape: quota, or leave it out"},
		{Policy{Retry: Retry{Budget: Budget{Shape: BudgetWindow, TimeoutCost: 10}}},
			"retry.budget.timeout_cost: 10 has no effect with retry.budget.shape: window: write shape: quota, or leave it out"},
		{Policy{Retry: Retry{Budget: Budget{Shape: BudgetQuota, MinInFlight: 5}}},
			"retry.budget.min_in_flight: 5 has no effect with retry.budget.shape: quota: write shape: share, or leave it out"},
		{Policy{Retry: Retry{Budget: Budget{Shape: BudgetShare, Window: s}}},
			"retry.budget.window: 1s has no effect with retry.budget.shape: share: write shape: earned or window, or leave it out"},
		{Policy{Retry: Retry{Budget: Budget{Shape: BudgetTokens, Window: s}}},
			"retry.budget.window: 1s has no effect with retry.budget.shape: tokens: write shape: earned or window, or leave it out"},
		{Policy{Breaker: Breaker{Window: 20 * s, WindowCalls: 100}},
			"breaker.window: 20s has no effect beside breaker.window_calls: write one of the two, or leave it out"},
		{Policy{Breaker: Breaker{FailureRate: Off, MinCalls: 5}},
			"breaker.min_calls: 5 has no effect where no rate counts: write breaker.failure_rate as well, or leave it out"},
		{Policy{Breaker: Breaker{SlowCall: Off, SlowRate: 0.5}},
			"breaker.slow_rate: 50% has no effect where no call is slow: write breaker.slow_call as well, or leave it out"},
		{Policy{Breaker: Breaker{InFlight: true}},
			"breaker.in_flight: true has no effect without breaker.slow_rate: write breaker.slow_rate as well, or leave it out"},
		{Policy{Breaker: Breaker{Consecutive: Off, ConsecutiveFor: s}},
			"breaker.consecutive_for: 1s has no effect without breaker.consecutive: write breaker.consecutive as well, or leave it out"},
		{Policy{Breaker: Breaker{ReopenAfter: 2}},
			"breaker.reopen_after: 2 has no effect without breaker.close_after: write breaker.close_after as well, or leave it out"},
		{Policy{Breaker: Breaker{CloseAfter: 2, ProbeCalls: 5}},
			"breaker.probe_calls: 5 has no effect beside breaker.close_after: write one of the two, or leave it out"},
		{Policy{Partitions: Partitions{Max: Off, Idle: s}},
			"partitions.idle: 1s has no effect where all calls share one: write partitions.max as well, or leave it out"},
	}
	for _, c := range cases {
		var found Mistakes
		if err := c.policy.Validate(); !errors.As(err, &found) || len(found) != 1 || found.Error() != c.want || !found[0].Unused {
			t.Errorf("got  %v\nwant %s", err, c.want)
		}
	}
}

// A section that is switched off, or that only repeats the default, is no finding.
func TestValidateAcceptsWhatIsOff(t *testing.T) {
	const s = time.Second
	for name, p := range map[string]Policy{
		"hedges that are off":          {Hedge: Hedge{Off: true, Delay: s, Percentile: 0.9}},
		"the same by number":           {Hedge: Hedge{Max: Off, Delay: s, Percentile: 0.9}},
		"a throttle that is off":       {Throttle: Throttle{Off: true, Window: time.Minute}},
		"the same by number, k":        {Throttle: Throttle{K: Off, Window: time.Minute}},
		"a limit that is off":          {RateLimit: RateLimit{Off: true, Burst: 5, MaxWait: s}},
		"the same by number, rate":     {RateLimit: RateLimit{Rate: Off, Burst: 5, MaxWait: s}},
		"a breaker that is off":        {Breaker: Breaker{Off: true, ReopenAfter: 2, InFlight: true}},
		"a bulkhead that is off":       {Bulkhead: Bulkhead{Off: true, Queue: Off, QueueTimeout: 2 * s}},
		"a budget that is off":         {Retry: Retry{Budget: Budget{Off: true, Shape: BudgetTokens, Floor: 2}}},
		"a quota that is off":          {Retry: Retry{Budget: Budget{Off: true, Shape: BudgetQuota, Capacity: 5, Cost: 10, MinInFlight: 2}}},
		"a share, and nothing else":    {Retry: Retry{Budget: Budget{Shape: BudgetShare, MinInFlight: Off, Floor: Off}}},
		"fields of other shapes, off":  {Retry: Retry{Budget: Budget{Shape: BudgetTokens, Floor: Off, Reserve: Off}}},
		"a default that is written":    {Throttle: Throttle{Window: 2 * time.Minute}, RateLimit: RateLimit{Burst: 1}},
		"the default window, and none": {Breaker: Breaker{Window: 10 * s, WindowCalls: 50}},
	} {
		if err := p.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		r := p.Resolved()
		if err := r.Validate(); err != nil {
			t.Errorf("%s, resolved: %v", name, err)
		}
		if again := r.Resolved(); !samePolicy(again, r) {
			t.Errorf("%s, resolved twice, differs:\n%+v\n%+v", name, again, r)
		}
	}
}

func TestHedgesAloneGoAtAPercentile(t *testing.T) {
	for name, c := range map[string]struct{ in, want Hedge }{
		"max alone is late calls only":    {Hedge{Max: 1}, Hedge{Max: 1, Percentile: 0.95}},
		"a delay is a delay":              {Hedge{Max: 1, Delay: time.Second}, Hedge{Max: 1, Delay: time.Second}},
		"failures alone bring them":       {Hedge{Max: 1, Delay: Off}, Hedge{Max: 1, Delay: Off}},
		"at once, if that is written":     {Hedge{Max: 1, Percentile: Off}, Hedge{Max: 1, Percentile: Off}},
		"a delay and no percentile":       {Hedge{Max: 1, Delay: time.Second, Percentile: Off}, Hedge{Max: 1, Delay: time.Second}},
		"a percentile of one's own":       {Hedge{Max: 1, Percentile: 0.5}, Hedge{Max: 1, Percentile: 0.5}},
		"off, and nothing remains":        {Hedge{Max: Off, Delay: time.Second}, Hedge{}},
		"a section that is off stays off": {Hedge{Off: true, Max: 1, Delay: time.Second}, Hedge{Off: true}},
	} {
		r := Policy{Hedge: c.in}.Resolved()
		if again := r.Resolved().Hedge; r.Hedge != c.want || again != c.want {
			t.Errorf("%s: %+v, and again %+v; want %+v", name, r.Hedge, again, c.want)
		}
	}
}
