package export

import (
	"math/rand/v2"
	"time"

	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/internal/grpccode"
	"github.com/gabion-go/gabion/policy"
)

// random draws a policy that is right. About half of the keys say nothing.
func random(r *rand.Rand) policy.Policy {
	p := policy.Policy{Safe: r.IntN(3) > 0, Trust: policy.Trust(r.IntN(2)), Key: policy.KeyMode(r.IntN(3))}
	for _, change := range changes {
		if r.IntN(2) > 0 {
			continue
		}
		with := p.Clone()
		change(r, &with)
		if with.Validate() == nil {
			p = with
		}
	}
	return p
}

// span draws a time of any size; one in eight has no whole milliseconds.
func span(r *rand.Rand) time.Duration {
	d := time.Duration(1+r.IntN(99)) * []time.Duration{time.Millisecond, 10 * time.Millisecond, 100 * time.Millisecond, time.Second, 10 * time.Second}[r.IntN(5)]
	if r.IntN(8) == 0 {
		d += time.Duration(r.IntN(1000)) * time.Microsecond
	}
	return d
}

func ratio(r *rand.Rand) policy.Ratio { return policy.Ratio(r.IntN(1001)) / 1000 }

var changes = []func(*rand.Rand, *policy.Policy){
	func(r *rand.Rand, p *policy.Policy) { p.Timeout.Call = span(r) },
	func(r *rand.Rand, p *policy.Policy) { p.Timeout.Call = policy.Off },
	func(r *rand.Rand, p *policy.Policy) { p.Timeout.Attempt = span(r) },
	func(r *rand.Rand, p *policy.Policy) { p.Timeout.Attempt = policy.Off },
	func(r *rand.Rand, p *policy.Policy) { p.Timeout.Last = span(r) },
	func(r *rand.Rand, p *policy.Policy) { p.Timeout.Strict = true },
	func(r *rand.Rand, p *policy.Policy) { p.Timeout.Idle = span(r) },
	func(r *rand.Rand, p *policy.Policy) { p.Timeout.Body = span(r) },
	func(r *rand.Rand, p *policy.Policy) { p.Timeout.Margin = policy.Off },
	func(r *rand.Rand, p *policy.Policy) { p.Timeout.Percentile = 0.999 },
	func(r *rand.Rand, p *policy.Policy) { p.Retry.Attempts = 1 + r.IntN(8) },
	func(r *rand.Rand, p *policy.Policy) { p.Retry.Attempts = 1 },
	func(r *rand.Rand, p *policy.Policy) {
		base := span(r)
		p.Retry.Backoff = backoff.Backoff{Kind: backoff.Kind(r.IntN(6)), Base: base, Cap: base * time.Duration(1+r.IntN(20))}
	},
	func(r *rand.Rand, p *policy.Policy) {
		p.Retry.Backoff = backoff.Full(100*time.Millisecond, time.Second)
	},
	func(r *rand.Rand, p *policy.Policy) { p.Retry.Backoff = backoff.Const(0) },
	func(r *rand.Rand, p *policy.Policy) { p.Retry.MaxAfter = span(r) },
	func(r *rand.Rand, p *policy.Policy) { p.Retry.Hold = policy.Off },
	func(r *rand.Rand, p *policy.Policy) { p.Retry.Immediate = true },
	func(r *rand.Rand, p *policy.Policy) { p.Retry.Contention.Attempts = 1 + r.IntN(4) },
	func(r *rand.Rand, p *policy.Policy) { p.Retry.Budget = policy.Budget{Off: true} },
	func(r *rand.Rand, p *policy.Policy) {
		p.Retry.Budget = policy.Budget{Shape: policy.BudgetShape(r.IntN(6)), Ratio: ratio(r)}
	},
	func(r *rand.Rand, p *policy.Policy) {
		p.Retry.Budget = policy.Budget{Shape: policy.BudgetShare, Ratio: ratio(r), MinInFlight: 1 + r.IntN(9)}
	},
	func(r *rand.Rand, p *policy.Policy) {
		p.Retry.Budget = policy.Budget{Shape: policy.BudgetWindow, Ratio: ratio(r), Window: span(r), Floor: policy.PerSecond(r.IntN(9))}
	},
	func(r *rand.Rand, p *policy.Policy) {
		p.Retry.Budget = policy.Budget{Shape: policy.BudgetGRPC, Capacity: 1 + r.IntN(999), Ratio: ratio(r)}
	},
	func(r *rand.Rand, p *policy.Policy) { p.Hedge = policy.Hedge{Max: 1 + r.IntN(2), Delay: span(r)} },
	func(r *rand.Rand, p *policy.Policy) { p.Pace.Off = true },
	func(r *rand.Rand, p *policy.Policy) { p.Throttle.K = 2 },
	func(r *rand.Rand, p *policy.Policy) { p.Breaker.Off = true },
	func(r *rand.Rand, p *policy.Policy) { p.Breaker.Consecutive = 1 + r.IntN(30) },
	func(r *rand.Rand, p *policy.Policy) { p.Breaker.Consecutive = policy.Off },
	func(r *rand.Rand, p *policy.Policy) { p.Breaker.Open = span(r) },
	func(r *rand.Rand, p *policy.Policy) { p.Breaker.OpenMax = p.Breaker.Open + span(r) },
	func(r *rand.Rand, p *policy.Policy) { p.Breaker.OpenJitter = ratio(r) },
	func(r *rand.Rand, p *policy.Policy) { p.Breaker.Observe = true },
	func(r *rand.Rand, p *policy.Policy) { p.Breaker.Probes = 1 + r.IntN(9) },
	func(r *rand.Rand, p *policy.Policy) { p.Breaker.FailureRate = ratio(r) },
	func(r *rand.Rand, p *policy.Policy) { p.Bulkhead.Off = true },
	func(r *rand.Rand, p *policy.Policy) { p.Bulkhead.Limit = 1 + r.IntN(500) },
	func(r *rand.Rand, p *policy.Policy) { p.Bulkhead.Limit = policy.Learned },
	func(r *rand.Rand, p *policy.Policy) { p.Bulkhead.Queue = policy.Off },
	func(r *rand.Rand, p *policy.Policy) { p.Bulkhead.Fair = true },
	func(r *rand.Rand, p *policy.Policy) { p.RateLimit.Rate = policy.PerSecond(1 + r.IntN(99)) },
	func(r *rand.Rand, p *policy.Policy) { p.HTTP.Transient = []int{500, 425}[:1+r.IntN(2)] },
	func(r *rand.Rand, p *policy.Policy) { p.HTTP.Permanent = []int{429, 503}[:1+r.IntN(2)] },
	func(r *rand.Rand, p *policy.Policy) { p.HTTP.ReplayLimit = 1 << 20 },
	func(r *rand.Rand, p *policy.Policy) {
		p.GRPC.Transient = []policy.GRPCCode{grpccode.ResourceExhausted, grpccode.DataLoss}[:1+r.IntN(2)]
	},
	func(r *rand.Rand, p *policy.Policy) { p.GRPC.Permanent = []policy.GRPCCode{grpccode.Unavailable} },
	func(r *rand.Rand, p *policy.Policy) {
		p.Prices = []policy.Price{{Unit: "tokens", Money: "usd", Amount: 1, Per: 1000}}
	},
	func(r *rand.Rand, p *policy.Policy) { p.Partitions.Max = 1 + r.IntN(99) },
	func(r *rand.Rand, p *policy.Policy) {
		p.Endpoints.List = []policy.Endpoint{{Name: "a", URL: "http://a"}, {Name: "b", URL: "http://b"}}
	},
	func(r *rand.Rand, p *policy.Policy) { p.Fleet.Slots = true },
}
