package policy

import (
	"reflect"
	"testing"
	"time"

	"github.com/gabion-go/gabion/backoff"
)

func samePolicy(a, b Policy) bool { return reflect.DeepEqual(a, b) }

// SPEC N, word for word.
func TestResolvedZeroPolicy(t *testing.T) {
	const s, ms = time.Second, time.Millisecond
	want := Policy{
		Timeout: Timeout{Call: 15 * s, Attempt: 4 * s, Last: Off, Idle: 30 * s, Margin: 50 * ms, HopMargin: 100 * ms},
		Retry: Retry{
			Attempts: 3, Backoff: backoff.Full(s, 30*s), Hold: 1, MaxAfter: 30 * s,
			Budget:     Budget{Ratio: 0.3, Window: s, Reserve: 1, Start: 1},
			Contention: ContentionRetry{Attempts: 15, Backoff: backoff.Full(10*ms, s), Repeats: 5},
		},
		Pace:     Pace{Max: 5 * s},
		Throttle: Throttle{Window: 2 * time.Minute},
		Breaker: Breaker{
			Window: 10 * s, MinCalls: 30, FailureRate: 0.95, SlowCall: 3200 * ms, SlowRate: Off,
			Consecutive: 20, ConsecutiveFor: 10 * s,
			Open: 2 * s, OpenMax: 2500 * ms, OpenCalls: 8, OpenGrowth: 2, OpenJitter: 0.1,
			Probes: 3, ProbeCalls: 1, ReopenAfter: 1, ProbeTimeout: 4 * s,
		},
		Partitions: Partitions{Max: 1000, Idle: 10 * time.Minute},
		Endpoints:  Endpoints{Standing: 0.01, Ejected: 0.5, SlowStart: 10 * s},
		Bulkhead:   Bulkhead{Limit: 100, Queue: 200, QueueTimeout: s},
		RateLimit:  RateLimit{Burst: 1},
		HTTP:       HTTP{ReplayLimit: 64 << 10},
	}
	if got := (Policy{}).Resolved(); !samePolicy(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestResolvedDerivesDefaults(t *testing.T) {
	const s, ms = time.Second, time.Millisecond
	cases := []struct {
		name string
		in   Policy
		got  func(Policy) any
		want any
	}{
		{"an attempt is never longer than the call", Policy{Timeout: Timeout{Call: s}},
			func(p Policy) any { return p.Timeout.Attempt }, s},
		{"off calls bound no attempt", Policy{Timeout: Timeout{Call: Off}},
			func(p Policy) any { return p.Timeout.Attempt }, 4 * s},
		{"slow is 80 % of the attempt", Policy{Timeout: Timeout{Attempt: 5 * s}},
			func(p Policy) any { return p.Breaker.SlowCall }, 4 * s},
		{"slow is 80 % of the call without attempt timeout", Policy{Timeout: Timeout{Attempt: Off}},
			func(p Policy) any { return p.Breaker.SlowCall }, 12 * s},
		{"nothing is slow without timeouts", Policy{Timeout: Timeout{Call: Off, Attempt: Off}},
			func(p Policy) any { return p.Breaker.SlowCall }, time.Duration(Off)},
		{"a probe has the attempt's time", Policy{Timeout: Timeout{Attempt: 2 * s}},
			func(p Policy) any { return p.Breaker.ProbeTimeout }, 2 * s},
		{"a probe per call has the call's time", Policy{Breaker: Breaker{Per: PerCall}},
			func(p Policy) any { return p.Breaker.ProbeTimeout }, 15 * s},
		{"a probe without timeouts has the open time", Policy{Timeout: Timeout{Call: Off, Attempt: Off}},
			func(p Policy) any { return p.Breaker.ProbeTimeout }, 2 * s},
		{"the queue is twice the limit", Policy{Bulkhead: Bulkhead{Limit: 7}},
			func(p Policy) any { return p.Bulkhead.Queue }, 14},
		{"a short cap of the backoff does not shorten the longest Retry-After", Policy{Retry: Retry{Backoff: backoff.Full(s, 9*s)}},
			func(p Policy) any { return p.Retry.MaxAfter }, 30 * s},
		{"a long cap of the backoff is the longest Retry-After", Policy{Retry: Retry{Backoff: backoff.Full(s, time.Minute)}},
			func(p Policy) any { return p.Retry.MaxAfter }, time.Minute},
		{"a long attempt has a long window", Policy{Timeout: Timeout{Attempt: 6 * s}},
			func(p Policy) any { return p.Breaker.Window }, 12 * s},
		{"a long attempt has a long call", Policy{Timeout: Timeout{Attempt: 20 * s}},
			func(p Policy) any { return p.Timeout.Call }, 20 * s},
		{"a short window has a short attempt", Policy{Breaker: Breaker{Window: 5 * s}},
			func(p Policy) any { return p.Timeout.Attempt }, 2500 * ms},
		{"without a breaker its window shortens nothing", Policy{Breaker: Breaker{Off: true, Window: 5 * s}},
			func(p Policy) any { return p.Timeout.Attempt }, 4 * s},
		{"what is slow can come home", Policy{Breaker: Breaker{SlowCall: 8 * s}},
			func(p Policy) any { return p.Timeout.Attempt }, 10 * s},
		{"a slow call can come home", Policy{Breaker: Breaker{SlowCall: 20 * s, Per: PerCall}},
			func(p Policy) any { return p.Timeout.Call }, 25 * s},
		{"a short call has a short margin", Policy{Timeout: Timeout{Call: 50 * ms}},
			func(p Policy) any { return p.Timeout.Margin }, 5 * ms},
		{"a short attempt has a short margin", Policy{Timeout: Timeout{Attempt: 20 * ms}},
			func(p Policy) any { return p.Timeout.Margin }, 20 * ms},
		{"a hop keeps half of a short attempt", Policy{Timeout: Timeout{Attempt: 50 * ms}},
			func(p Policy) any { return p.Timeout.HopMargin }, 25 * ms},
		{"a measured attempt has 50 ms at least", Policy{Timeout: Timeout{Percentile: 0.999}},
			func(p Policy) any { return p.Timeout.AttemptMin }, 50 * ms},
		{"and no more than its most", Policy{Timeout: Timeout{Percentile: 0.999, Attempt: 20 * ms}},
			func(p Policy) any { return p.Timeout.AttemptMin }, 20 * ms},
		{"a hop keeps half of what a measured attempt has at least", Policy{Timeout: Timeout{Percentile: 0.999}},
			func(p Policy) any { return p.Timeout.HopMargin }, 25 * ms},
		{"a hop margin that is written leaves a measured attempt as much", Policy{Timeout: Timeout{Percentile: 0.999, HopMargin: 200 * ms}},
			func(p Policy) any { return p.Timeout.AttemptMin }, 400 * ms},
		{"what is not measured has no least", Policy{Timeout: Timeout{Percentile: Off}},
			func(p Policy) any { return p.Timeout }, Timeout{Call: 15 * s, Attempt: 4 * s, Last: Off, Idle: 30 * s, Margin: 50 * ms, HopMargin: 100 * ms}},
		{"a last attempt has the time of the call", Policy{Timeout: Timeout{Call: 9 * s}},
			func(p Policy) any { return p.Timeout.Last }, time.Duration(Off)},
		{"a short time of last attempts is that of all", Policy{Timeout: Timeout{Last: 2 * s}},
			func(p Policy) any { return p.Timeout.Attempt }, 2 * s},
		{"a long one lengthens the call", Policy{Timeout: Timeout{Last: 40 * s}},
			func(p Policy) any { return p.Timeout.Call }, 40 * s},
		{"but keeps to an attempt's time that is written", Policy{Timeout: Timeout{Attempt: 2 * s}},
			func(p Policy) any { return p.Timeout.Last }, 2 * s},
		{"or measured", Policy{Timeout: Timeout{Percentile: 0.999}},
			func(p Policy) any { return p.Timeout.Last }, 4 * s},
		{"and is bounded where the call is not", Policy{Timeout: Timeout{Call: Off}},
			func(p Policy) any { return p.Timeout.Last }, 4 * s},
		{"an open time is not longer than the longest", Policy{Breaker: Breaker{OpenMax: 2 * s}},
			func(p Policy) any { return p.Breaker.Open }, 2 * s},
		{"a floor is of a window", Policy{Retry: Retry{Budget: Budget{Floor: 2}}},
			func(p Policy) any { return p.Retry.Budget.Shape }, BudgetWindow},
		{"the least in flight is of a share", Policy{Retry: Retry{Budget: Budget{MinInFlight: 5}}},
			func(p Policy) any { return p.Retry.Budget }, Budget{Shape: BudgetShare, Ratio: 0.2, MinInFlight: 5}},
		{"the cost of a throttled one is of a quota", Policy{Retry: Retry{Budget: Budget{ThrottledCost: 7}}},
			func(p Policy) any { return p.Retry.Budget }, Budget{Shape: BudgetQuota, Ratio: 1, Capacity: 500, Cost: 14, ThrottledCost: 7, TimeoutCost: 14}},
		{"that of a timeout, too", Policy{Retry: Retry{Budget: Budget{TimeoutCost: 1000}}},
			func(p Policy) any { return p.Retry.Budget }, Budget{Shape: BudgetQuota, Ratio: 1, Capacity: 1000, Cost: 14, ThrottledCost: 5, TimeoutCost: 1000}},
		{"a cheap quota has no dearer costs", Policy{Retry: Retry{Budget: Budget{Shape: BudgetQuota, Cost: 3}}},
			func(p Policy) any { return p.Retry.Budget }, Budget{Shape: BudgetQuota, Ratio: 1, Capacity: 500, Cost: 3, ThrottledCost: 3, TimeoutCost: 3}},
		{"a small quota has costs that fit", Policy{Retry: Retry{Budget: Budget{Shape: BudgetQuota, Capacity: 10}}},
			func(p Policy) any { return p.Retry.Budget }, Budget{Shape: BudgetQuota, Ratio: 1, Capacity: 10, Cost: 10, ThrottledCost: 5, TimeoutCost: 10}},
		{"gRPC's throttling has the numbers of A6", Policy{Retry: Retry{Budget: Budget{Shape: BudgetGRPC}}},
			func(p Policy) any { return p.Retry.Budget }, Budget{Shape: BudgetGRPC, Ratio: 0.1, Capacity: 10}},
		{"a share has the numbers of Envoy", Policy{Retry: Retry{Budget: Budget{Shape: BudgetShare}}},
			func(p Policy) any { return p.Retry.Budget }, Budget{Shape: BudgetShare, Ratio: 0.2, MinInFlight: 3}},
		{"a quota has the numbers of the AWS SDKs", Policy{Retry: Retry{Budget: Budget{Shape: BudgetQuota}}},
			func(p Policy) any { return p.Retry.Budget }, Budget{Shape: BudgetQuota, Ratio: 1, Capacity: 500, Cost: 14, ThrottledCost: 5, TimeoutCost: 14}},
		{"tokens have those of Brooker's bucket, and a hundred", Policy{Retry: Retry{Budget: Budget{Shape: BudgetTokens}}},
			func(p Policy) any { return p.Retry.Budget }, Budget{Shape: BudgetTokens, Ratio: 0.1, Capacity: 100, Cost: 1}},
		{"a costly re-send fits its bucket", Policy{Retry: Retry{Budget: Budget{Cost: 500}}},
			func(p Policy) any { return p.Retry.Budget.Capacity }, 500},
		{"a short cap shortens the base", Policy{Retry: Retry{Backoff: backoff.Backoff{Cap: 30 * ms}}},
			func(p Policy) any { return p.Retry.Backoff.Base }, 30 * ms},
		{"a long base lengthens the cap", Policy{Retry: Retry{Backoff: backoff.Backoff{Base: time.Minute}}},
			func(p Policy) any { return p.Retry.Backoff.Cap }, time.Minute},
		{"a small window of calls has a small minimum", Policy{Breaker: Breaker{WindowCalls: 10}},
			func(p Policy) any { return p.Breaker.MinCalls }, 10},
		{"a large window of calls has the usual minimum", Policy{Breaker: Breaker{WindowCalls: 100}},
			func(p Policy) any { return p.Breaker.MinCalls }, 30},
		{"as many outcomes decide as probe where time alone lets them go", Policy{Breaker: Breaker{Probes: 8, Open: s}},
			func(p Policy) any { return p.Breaker.ProbeCalls }, 8},
		{"an open time grows by a quarter", Policy{Breaker: Breaker{Open: time.Hour}},
			func(p Policy) any { return p.Breaker.OpenMax }, 75 * time.Minute},
		{"an open time that is written is not cut short by calls", Policy{Breaker: Breaker{Open: time.Hour}},
			func(p Policy) any { return p.Breaker.OpenCalls }, Off},
		{"a row that is written need not last", Policy{Breaker: Breaker{Consecutive: 5}},
			func(p Policy) any { return p.Breaker.ConsecutiveFor }, time.Duration(Off)},
		{"slowness opens where it is written what is slow", Policy{Breaker: Breaker{SlowCall: s}},
			func(p Policy) any { return p.Breaker.SlowRate }, Ratio(0.8)},
		{"a small reserve has a small start", Policy{Retry: Retry{Budget: Budget{Reserve: 0.5}}},
			func(p Policy) any { return p.Retry.Budget.Start }, 0.5},
		{"a window has the ratio and the time of one", Policy{Retry: Retry{Budget: Budget{Shape: BudgetWindow}}},
			func(p Policy) any { return p.Retry.Budget }, Budget{Shape: BudgetWindow, Ratio: 0.1, Window: 10 * s, Floor: 1}},
		{"the longest open time is its own cap", Policy{Breaker: Breaker{Open: maxDuration}},
			func(p Policy) any { return p.Breaker.OpenMax }, maxDuration},
		{"Off stays Off", Policy{Breaker: Breaker{FailureRate: Off}},
			func(p Policy) any { return p.Breaker.FailureRate }, Ratio(Off)},
		{"Off is zero where zero is no rule", Policy{Breaker: Breaker{Failures: Off}},
			func(p Policy) any { return p.Breaker.Failures }, 0},
		{"mistakes stay mistakes", Policy{Retry: Retry{Attempts: -7}},
			func(p Policy) any { return p.Retry.Attempts }, -7},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r := c.in.Resolved()
			if got := c.got(r); got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
			if again := r.Resolved(); !samePolicy(again, r) {
				t.Errorf("resolved twice differs:\n%+v\n%+v", r, again)
			}
		})
	}
}

// A new number in a policy must be thought of here: whatever the zero policy
// leaves at zero is a rule that does not exist by default.
func TestResolvedForgetsNoNumber(t *testing.T) {
	none := map[string]bool{
		"Retry.Budget.Shape": true, "Retry.Backoff.Kind": true, "Retry.Contention.Backoff.Kind": true, "Trust": true, "Key": true, // words
		"Breaker.Per": true, "Bulkhead.Per": true,
		"Hedge.Max": true, "Hedge.Delay": true, "Hedge.Percentile": true, "Throttle.K": true, // no such rule
		"Breaker.WindowCalls": true, "Breaker.Failures": true, "Breaker.CloseAfter": true,
		"Retry.Budget.Floor": true, "Retry.Budget.Capacity": true, "Retry.Budget.Cost": true, // of other shapes
		"Bulkhead.Min": true, "Bulkhead.Max": true, // of a learned limit
		"Retry.Budget.ThrottledCost": true, "Retry.Budget.TimeoutCost": true, "Retry.Budget.MinInFlight": true,
		"RateLimit.Rate": true, "RateLimit.MaxWait": true, "Timeout.Fit": true, "Timeout.Body": true,
		"Timeout.Percentile": true, "Timeout.AttemptMin": true,
		"Endpoints.Mode": true, "Fleet.Lost": true,
	}
	var walk func(path string, v reflect.Value)
	walk = func(path string, v reflect.Value) {
		switch v.Kind() {
		case reflect.Struct:
			for i := range v.NumField() {
				name := v.Type().Field(i).Name
				if path != "" {
					name = path + "." + name
				}
				walk(name, v.Field(i))
			}
		case reflect.Bool, reflect.Slice:
		default:
			if v.IsZero() != none[path] {
				t.Errorf("%s resolves to %v", path, v)
			}
		}
	}
	walk("", reflect.ValueOf((Policy{}).Resolved()))
}
