package policy

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/gabion-go/gabion/backoff"
)

func TestValidateFindsWhatIsImpossible(t *testing.T) {
	const s, ms = time.Second, time.Millisecond
	cases := []struct {
		name   string
		policy Policy
		want   string // a line of the error begins and ends like this, … in between
	}{
		{"other negatives than Off are mistakes (C95)", Policy{Timeout: Timeout{Call: -2}},
			"timeout.call: -2ns is negative: leave it out for the default"},
		{"attempts can't be off", Policy{Retry: Retry{Attempts: Off}},
			"retry.attempts: off is not possible here: write 1 for never retry"},
		{"a budget's window can't be off", Policy{Retry: Retry{Budget: Budget{Window: Off}}},
			"retry.budget.window: off is not possible here: write budget: off"},
		{"a reserve is not for a fleet", Policy{Retry: Retry{Budget: Budget{Reserve: 5000}}},
			"retry.budget.reserve: 5000 is too large: write at most 1000"},
		{"a failure rate is at most 100 %", Policy{Breaker: Breaker{FailureRate: 50}},
			"breaker.failure_rate: 5000% is too large: did you mean 50%? write at most 100%"},
		{"a negative ratio", Policy{Breaker: Breaker{OpenJitter: -0.5}},
			"breaker.open_jitter: -50% is negative: leave it out for the default"},
		{"NaN", Policy{Breaker: Breaker{OpenGrowth: math.NaN()}},
			"breaker.open_growth: NaN is not a number: leave it out for the default"},
		{"infinite", Policy{RateLimit: RateLimit{Rate: PerSecond(math.Inf(1))}},
			"rate_limit.rate: +Inf/s is too large: write at most 1000000/s"},
		{"minus infinity", Policy{Throttle: Throttle{K: math.Inf(-1)}},
			"throttle.k: -Inf is negative: leave it out for the default"},
		{"a K below 1 rejects what is accepted", Policy{Throttle: Throttle{K: 0.5}},
			"throttle.k: 0.5 is too small: write at least 1"},
		{"an attempt outlives the call (C93)", Policy{Timeout: Timeout{Call: 5 * s, Attempt: 5001 * ms}, Breaker: Breaker{Window: 20 * s}},
			"timeout.attempt: 5.001s is longer than timeout.call, 5s: write at most 5s, or a longer call timeout"},
		{"an attempt outlives the call (C93)", Policy{Timeout: Timeout{Attempt: 20 * s, Call: 15 * s}, Breaker: Breaker{Window: 60 * s}},
			"timeout.attempt: 20s is longer than timeout.call, 15s: write at most 15s, or a longer call timeout"},
		{"an attempt that the hop margin eats up", Policy{Trust: Internal, Timeout: Timeout{Attempt: 80 * ms, HopMargin: 100 * ms}},
			"timeout.attempt: 80ms with trust: internal is not longer than timeout.hop_margin, 100ms: nothing could be sent: write at least 200ms, or a shorter hop margin"},
		{"a hop margin as long as the default attempt", Policy{Trust: Internal, Timeout: Timeout{HopMargin: 4 * s}},
			"timeout.attempt: 4s (the default) with trust: internal is not longer than timeout.hop_margin, 4s: nothing could be sent: write at least 8s, or a shorter hop margin"},
		{"a call that the hop margin eats up", Policy{Trust: Internal, Timeout: Timeout{Call: 80 * ms, HopMargin: 100 * ms}},
			"timeout.call: 80ms with trust: internal is not longer than timeout.hop_margin, 100ms: nothing could be sent: write at least 200ms, or a shorter hop margin"},
		{"the same without an attempt timeout", Policy{Trust: Internal, Timeout: Timeout{Call: 80 * ms, Attempt: Off, HopMargin: 100 * ms}},
			"timeout.call: 80ms with trust: internal is not longer than timeout.hop_margin, 100ms: nothing could be sent: write at least 200ms, or a shorter hop margin"},
		{"every second attempt cut off", Policy{Timeout: Timeout{Percentile: 0.5}},
			"timeout.percentile: 50% would cut off 50% of the attempts that succeed: write 99.9%"},
		{"the slowest attempt ever seen", Policy{Timeout: Timeout{Percentile: 1}},
			"timeout.percentile: 100% asks for the slowest attempt ever seen: write 99.9%"},
		{"a percentile that was written as a number", Policy{Timeout: Timeout{Percentile: 99}},
			"timeout.percentile: 9900% is too large: did you mean 99%? write at most 99.999%"},
		{"a measured attempt without a bound", Policy{Timeout: Timeout{Attempt: Off, Percentile: 0.999}},
			"timeout.percentile: 99.9% with timeout.attempt: off has no upper bound: write an attempt timeout, the longest that you can bear"},
		{"a last attempt with less time than others", Policy{Timeout: Timeout{Attempt: 2 * s, Last: s}},
			"timeout.last: 1s is shorter than timeout.attempt, 2s: write at least 2s, or off, or a shorter attempt timeout"},
		{"a last attempt that outlasts its call", Policy{Timeout: Timeout{Call: 5 * s, Attempt: s, Last: 6 * s}},
			"timeout.last: 6s is longer than timeout.call, 5s: write at most 5s, or off"},
		{"a bound for the last attempt alone", Policy{Timeout: Timeout{Attempt: Off, Last: s}},
			"timeout.last: 1s is a bound, and timeout.attempt: off is none: write an attempt timeout as well, or leave it out"},
		{"a measured attempt with the bounds crossed", Policy{Timeout: Timeout{Attempt: s, Percentile: 0.999, AttemptMin: 2 * s}},
			"timeout.attempt_min: 2s is longer than timeout.attempt, 1s: write at most 1s, or a longer attempt timeout"},
		{"no least for a measured attempt", Policy{Timeout: Timeout{Percentile: 0.999, AttemptMin: Off}},
			"timeout.attempt_min: off is not possible here: write a short one"},
		{"a measured attempt that the hop margin eats up", Policy{Trust: Internal, Timeout: Timeout{Percentile: 0.999, AttemptMin: 80 * ms, HopMargin: 100 * ms}},
			"timeout.attempt_min: 80ms with trust: internal is not longer than timeout.hop_margin, 100ms: nothing could be sent: write at least 200ms, or a shorter hop margin"},
		{"a window shorter than two attempts (C93)", Policy{Timeout: Timeout{Call: 60 * s, Attempt: 6 * s}, Breaker: Breaker{Window: 10 * s}},
			"breaker.window: 10s is shorter than twice timeout.attempt, 6s: write at least 12s, or a shorter attempt timeout"},
		{"a margin as long as the call", Policy{Timeout: Timeout{Call: 50 * ms, Margin: 50 * ms}},
			"timeout.margin: 50ms is not shorter than timeout.call, 50ms: no attempt could ever be repeated: write at most 5ms, or off"},
		{"hedges leave after the call ended (C93)", Policy{Timeout: Timeout{Call: 2 * s}, Hedge: Hedge{Max: 3, Delay: s}},
			"hedge.delay: 1s × hedge.max 3 = 3s is longer than timeout.call, 2s: write at most 666.666666ms, or fewer hedges"},
		{"more calls than the window holds (C5)", Policy{Breaker: Breaker{WindowCalls: 10, MinCalls: 100}},
			"breaker.min_calls: 100 is more than the window holds, breaker.window_calls 10: write at most 10, or a larger window"},
		{"more failures than the window holds", Policy{Breaker: Breaker{WindowCalls: 10, Failures: 11}},
			"breaker.failures: 11 is more than the window holds, breaker.window_calls 10: write at most 10, or a larger window"},
		{"more calls than the rate limit lets in", Policy{Breaker: Breaker{MinCalls: 50}, RateLimit: RateLimit{Rate: 2}},
			"breaker.min_calls: 50 is more than the 21 calls that rate_limit.rate, 2/s, lets into breaker.window, 10s: write at most 21, or a longer window"},
		{"more sends than there are bits", Policy{Retry: Retry{Attempts: 60}, Hedge: Hedge{Max: 5, Delay: ms}},
			"retry.attempts: 60 + hedge.max 5 are more than the 64 sends that a call may make: write at most 59, or fewer hedges"},
		{"more attempts than there are bits", Policy{Retry: Retry{Attempts: 65}},
			"retry.attempts: 65 is too large: write at most 64"},
		{"a call's probe expires before the call", Policy{Breaker: Breaker{Per: PerCall, ProbeTimeout: s}},
			"breaker.probe_timeout: 1s with per: call is shorter than timeout.call, 15s (the default): write at least 15s, or per: attempt"},
		{"nothing lasts long enough to be slow", Policy{Timeout: Timeout{Attempt: 4 * s}, Breaker: Breaker{SlowCall: 4 * s}},
			"breaker.slow_call: 4s is not shorter than timeout.attempt, 4s: no call could ever be slow: write 80 % of that, 3.2s, or off"},
		{"no whole call lasts long enough to be slow", Policy{Timeout: Timeout{Call: 15 * s}, Breaker: Breaker{Per: PerCall, SlowCall: 15 * s}},
			"breaker.slow_call: 15s is not shorter than timeout.call, 15s: no call could ever be slow: write 80 % of that, 12s, or off"},
		{"open time above its cap", Policy{Breaker: Breaker{Open: s, OpenMax: 500 * ms}},
			"breaker.open_max: 500ms is shorter than breaker.open, 1s: write at least 1s, or a shorter open time"},
		{"base above its cap", Policy{Retry: Retry{Backoff: backoff.Full(2*s, s)}},
			"retry.backoff.base: 2s is longer than retry.backoff.cap, 1s: write at most 1s, or a longer cap"},
		{"a token that can't be paid", Policy{Retry: Retry{Budget: Budget{Shape: BudgetTokens, Capacity: 4, Cost: 5}}},
			"retry.budget.cost: 5 is more than retry.budget.capacity, 4: no retry could ever be paid: write at most 4, or a larger capacity"},
		{"a throttled one that can't be paid", Policy{Retry: Retry{Budget: Budget{Shape: BudgetQuota, Capacity: 20, ThrottledCost: 25}}},
			"retry.budget.throttled_cost: 25 is more than retry.budget.capacity, 20: no retry could ever be paid: write at most 20, or a larger capacity"},
		{"a timeout that can't be paid", Policy{Retry: Retry{Budget: Budget{Capacity: 20, TimeoutCost: 25}}},
			"retry.budget.timeout_cost: 25 is more than retry.budget.capacity, 20: no retry could ever be paid: write at most 20, or a larger capacity"},
		{"more tokens than a service config may have", Policy{Retry: Retry{Budget: Budget{Shape: BudgetGRPC, Capacity: 1001}}},
			"retry.budget.capacity: 1001 is too large: write at most 1000"},
		{"less of a token than is counted", Policy{Retry: Retry{Budget: Budget{Shape: BudgetGRPC, Ratio: 0.0004}}},
			"retry.budget.ratio: 0.04% of a token is too small: write at least 0.1%, or off"},
		{"the same of a bucket", Policy{Retry: Retry{Budget: Budget{Capacity: 5, Ratio: 0.0004}}},
			"retry.budget.ratio: 0.04% of a token is too small: write at least 0.1%, or off"},
		{"a quota that costs nothing", Policy{Retry: Retry{Budget: Budget{Shape: BudgetQuota, Cost: Off}}},
			"retry.budget.cost: off is not possible here: write budget: off"},
		{"negative re-sends in flight", Policy{Retry: Retry{Budget: Budget{MinInFlight: -3}}},
			"retry.budget.min_in_flight: -3 is negative: leave it out for the default"},
		{"budget window below 1 s (C80)", Policy{Retry: Retry{Budget: Budget{Window: 999 * ms}}},
			"retry.budget.window: 999ms is too small: write at least 1s"},
		{"budget window above 60 s (C80)", Policy{Retry: Retry{Budget: Budget{Window: 61 * s}}},
			"retry.budget.window: 1m1s is too large: write at most 1m"},
		{"budget ratio above 100 % (C80)", Policy{Retry: Retry{Budget: Budget{Ratio: 5}}},
			"retry.budget.ratio: 500% is too large: did you mean 5%? write at most 100%"},
		{"a percentage that was written as a number", Policy{Retry: Retry{Budget: Budget{Ratio: 10}}},
			"retry.budget.ratio: 1000% is too large: did you mean 10%? write at most 100%"},
		{"more than any percentage", Policy{Retry: Retry{Budget: Budget{Ratio: 1000}}},
			"retry.budget.ratio: 100000% is too large: write at most 100%"},
		{"seconds without a unit", Policy{Timeout: Timeout{Call: 30}},
			"timeout.call: 30ns is too short: did you mean 30 * time.Second? write at least 100µs"},
		{"milliseconds without a unit", Policy{Timeout: Timeout{Attempt: 2500}},
			"timeout.attempt: 2.5µs is too short: did you mean 2500 * time.Millisecond? write at least 100µs"},
		{"a part of a timeout without a unit", Policy{Timeout: Timeout{Margin: 50}},
			"timeout.margin: 50ns is too short: did you mean 50 * time.Second? write at least 10µs"},
		{"a window without a unit", Policy{Breaker: Breaker{Window: 10}},
			"breaker.window: 10ns is too short: did you mean 10 * time.Second? write at least 10ms"},
		{"a wait without a unit", Policy{Retry: Retry{Backoff: backoff.Full(100, 0)}},
			"retry.backoff.base: 100ns is too short: did you mean 100 * time.Millisecond? write at least 10µs"},
		{"negative floor (C80)", Policy{Retry: Retry{Budget: Budget{Floor: -2}}},
			"retry.budget.floor: -2/s is negative: leave it out for the default"},
		{"unknown trust", Policy{Trust: 7}, "trust: 7 is not known: use one of external, internal"},
		{"unknown backoff", Policy{Retry: Retry{Backoff: backoff.Backoff{Kind: 6}}},
			"retry.backoff.kind: 6 is not known: use one of full, equal, decorrelated, exponential, linear, constant"},
		{"no such status", Policy{HTTP: HTTP{Transient: []int{99}}},
			"http.transient: 99 is no HTTP status: write one from 100 to 599"},
		{"a status in both lists", Policy{HTTP: HTTP{Transient: []int{425}, Permanent: []int{425}}},
			"http.permanent: 425 is in http.transient too: name it in one of the lists"},
		{"a code that does not exist", Policy{GRPC: GRPC{Transient: []GRPCCode{17}}},
			"grpc.transient: 17 is no gRPC code: write one from CANCELLED (1) to UNAUTHENTICATED (16)"},
		{"a code that is no failure", Policy{GRPC: GRPC{Permanent: []GRPCCode{0}}},
			"grpc.permanent: OK is no failure of the dependency: leave it out"},
		{"a code in both lists", Policy{GRPC: GRPC{Transient: []GRPCCode{13}, Permanent: []GRPCCode{13}}},
			"grpc.permanent: INTERNAL is in grpc.transient too: name it in one of the lists"},
		{"the slowest ever seen", Policy{Hedge: Hedge{Max: 1, Percentile: 1}},
			"hedge.percentile: 100% waits for the slowest call ever seen: write 95%"},
		{"a queue without end", Policy{Bulkhead: Bulkhead{Queue: maxQueue + 1}},
			"bulkhead.queue: 1048576 is too large: write at most 1048575"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			err := c.policy.Validate()
			var found Mistakes
			if !errors.As(err, &found) || len(found) != 1 || found.Error() != c.want {
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
		})
	}
}

func TestValidateAccepts(t *testing.T) {
	const s = time.Second
	cases := map[string]Policy{
		"the zero policy": {},
		"a call timeout alone, shorter than default":  {Timeout: Timeout{Call: s}},
		"an attempt as long as the call (C93)":        {Timeout: Timeout{Call: 5 * s, Attempt: 5 * s}},
		"a window of exactly two attempts (C93)":      {Timeout: Timeout{Attempt: 5 * s}},
		"any attempt beside a window of calls":        {Timeout: Timeout{Attempt: 9 * s}, Breaker: Breaker{WindowCalls: 100}},
		"any attempt without a breaker":               {Timeout: Timeout{Attempt: 9 * s}, Breaker: Breaker{Off: true}},
		"a short attempt at a vendor":                 {Timeout: Timeout{Attempt: 80 * time.Millisecond}},
		"a short attempt and a shorter hop margin":    {Trust: Internal, Timeout: Timeout{Attempt: 80 * time.Millisecond, HopMargin: 79 * time.Millisecond}},
		"a short attempt and no hop margin":           {Trust: Internal, Timeout: Timeout{Attempt: 80 * time.Millisecond, HopMargin: Off}},
		"an internal one without timeouts":            {Trust: Internal, Timeout: Timeout{Call: Off, Attempt: Off}},
		"a measured attempt":                          {Timeout: Timeout{Percentile: 0.999}},
		"a measured attempt at one of ours":           {Trust: Internal, Timeout: Timeout{Percentile: 0.99, Attempt: 20 * time.Millisecond}},
		"a measured attempt and a long hop margin":    {Trust: Internal, Timeout: Timeout{Percentile: 0.99, HopMargin: s}},
		"a measured attempt between two that are one": {Timeout: Timeout{Percentile: 0.99, Attempt: s, AttemptMin: s}},
		"never retry (C80)":                           {Retry: Retry{Budget: Budget{Ratio: Off, Floor: Off}}},
		"a budget of 100 % (C80)":                     {Retry: Retry{Budget: Budget{Ratio: 1}}},
		"a rate limit, and the default minimum":       {RateLimit: RateLimit{Rate: 1}},
		"a minimum that the fastest limit lets in":    {Breaker: Breaker{Window: 24 * time.Hour, MinCalls: 50}, RateLimit: RateLimit{Rate: 1e6}},
		"the most tokens of a service config":         {Retry: Retry{Budget: Budget{Shape: BudgetGRPC, Capacity: 1000, Ratio: 0.001}}},
		"a share of a thousandth":                     {Retry: Retry{Budget: Budget{Shape: BudgetShare, Ratio: 0.0001, MinInFlight: Off}}},
		"the costs of AWS before 2026":                {Retry: Retry{Budget: Budget{Shape: BudgetQuota, Cost: 5, TimeoutCost: 10}}},
		"a quota that nothing refills":                {Retry: Retry{Budget: Budget{Shape: BudgetQuota, Ratio: Off}}},
		"64 sends":                                    {Retry: Retry{Attempts: 32}, Hedge: Hedge{Max: 32, Delay: Off}},
		"no timeouts":                                 {Timeout: Timeout{Call: Off, Attempt: Off}},
		"the shortest call, and what derives from it": {Timeout: Timeout{Call: minTime}},
		"no wait": {Retry: Retry{Backoff: backoff.Const(0), Contention: ContentionRetry{Backoff: backoff.Const(Off)}}},
		"everything that can be off": {
			Timeout:    Timeout{Call: Off, Attempt: Off, Percentile: Off, Margin: Off, HopMargin: Off},
			Retry:      Retry{Attempts: 1, Budget: Budget{Off: true, Ratio: Off, Floor: Off}},
			Hedge:      Hedge{Max: Off, Delay: Off, Percentile: Off},
			Pace:       Pace{Off: true},
			Throttle:   Throttle{K: Off},
			Breaker:    Breaker{WindowCalls: Off, FailureRate: Off, SlowCall: Off, Failures: Off, Consecutive: Off, OpenJitter: Off, CloseAfter: Off},
			Partitions: Partitions{Max: Off},
			Bulkhead:   Bulkhead{Queue: Off, QueueTimeout: Off},
			RateLimit:  RateLimit{Rate: Off, MaxWait: Off},
			HTTP:       HTTP{ReplayLimit: Off},
		},
	}
	for name, p := range cases {
		t.Run(name, func(t *testing.T) {
			if err := p.Validate(); err != nil {
				t.Error(err)
			}
			if err := p.Resolved().Validate(); err != nil {
				t.Error("resolved:", err)
			}
		})
	}
}

func TestValidateJoinsAllFindings(t *testing.T) {
	p := Policy{
		Timeout: Timeout{Call: time.Second, Attempt: 2 * time.Second, Margin: -3},
		Retry:   Retry{Attempts: -7},
		Breaker: Breaker{FailureRate: 2},
		HTTP:    HTTP{Permanent: []int{1000}},
	}
	err := p.Validate()
	lines := strings.Split(err.Error(), "\n")
	if len(lines) != 5 {
		t.Errorf("%d findings, want 5:\n%v", len(lines), err)
	}
}

// Nothing that a field can hold makes the judge panic, and what it lets through
// it lets through resolved as well.
func FuzzValidate(f *testing.F) {
	f.Add(int64(0), int64(0), 0, 0, 0.0, uint8(0))
	f.Add(int64(math.MaxInt64), int64(math.MinInt64), math.MaxInt, math.MinInt, math.NaN(), uint8(255))
	f.Add(int64(-1), int64(1), -1, 1, -1.0, uint8(1))
	f.Fuzz(func(t *testing.T, a, b int64, m, n int, x float64, e uint8) {
		d, g := time.Duration(a), time.Duration(b)
		p := Policy{
			Trust: Trust(e), Key: KeyMode(e),
			Timeout: Timeout{d, g, Ratio(x), d, e == 2, d, d, g, d, Ratio(x), g},
			Retry: Retry{
				Attempts: m, Backoff: backoff.Backoff{Kind: backoff.Kind(e), Base: d, Cap: g}, Hold: n, MaxAfter: d,
				Budget:     Budget{Shape: BudgetShape(e), Ratio: Ratio(x), Window: g, Reserve: x, Start: x, Floor: PerSecond(x), Capacity: m, Cost: n, ThrottledCost: m, TimeoutCost: n, MinInFlight: m},
				Contention: ContentionRetry{n, backoff.Backoff{Kind: backoff.Kind(e), Base: g, Cap: d}, m},
			},
			Hedge:     Hedge{e == 1, n, d, Ratio(x)},
			Pace:      Pace{false, d},
			Throttle:  Throttle{e == 2, x, g},
			Breaker:   Breaker{Per: Per(e), Window: g, WindowCalls: n, MinCalls: m, FailureRate: Ratio(x), SlowCall: d, Failures: m, Open: d, OpenMax: g, OpenGrowth: x, ProbeTimeout: g},
			Bulkhead:  Bulkhead{Limit: m, Queue: n, QueueTimeout: d},
			RateLimit: RateLimit{e == 3, PerSecond(x), n, g, []Quota{{Unit: "tokens", Amount: x, Span: d, Estimate: x, Among: m}}},
			HTTP:      HTTP{[]int{m}, []int{n}, m},
		}
		r := p.Resolved()
		err := p.Validate()
		if again := r.Resolved(); err == nil && !samePolicy(again, r) {
			t.Fatalf("resolved twice differs:\n%+v\n%+v", r, again)
		}
		if err == nil && r.Validate() != nil {
			t.Fatalf("valid, but not when resolved: %v\n%+v", r.Validate(), r)
		}
		if err != nil && strings.TrimSpace(err.Error()) == "" {
			t.Fatal("an error without a word")
		}
	})
}
