package opponent

import (
	"time"

	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/internal/foreign"
	"github.com/gabion-go/gabion/policy"
)

// retryAfter is what most of the others lack.
const retryAfter = "It does not read Retry-After; here an answer's Retry-After is waited for."

// all are the opponents: first the callers without a library, then in-process
// libraries, then SDKs, then what stands in proxies.
var all = []Opponent{
	{
		Name: "plain", Title: "one try with the same timeouts", Source: "no library: context.WithTimeout and one call",
		Lacks:  "Nothing.",
		change: func(p policy.Policy) policy.Policy { return foreign.Bare(p, 1, backoff.Const(time.Millisecond)) },
	},
	{
		Name: "none", Title: "one try, and only the timeout of the whole call", Source: "no library: one call under the caller's deadline",
		Lacks: "Nothing.",
		change: func(p policy.Policy) policy.Policy {
			return foreign.Undivided(foreign.Bare(p, 1, backoff.Const(time.Millisecond)))
		},
	},
	{
		Name: "naive", Title: "a loop of three tries, one millisecond apart", Source: "no library: for range 3",
		Lacks: "Nothing.",
		change: func(p policy.Policy) policy.Policy {
			return unasked(foreign.Bare(p, 3, backoff.Const(time.Millisecond)))
		},
	},
	{
		Name: "resilience4j", Title: "resilience4j: Retry around CircuitBreaker, both with defaults",
		Source: "https://resilience4j.readme.io/docs/circuitbreaker and /docs/retry (2.x): 3 attempts, 500 ms; 50 % of 100 calls, 60 s open, 10 probes",
		Lacks: "Its slow-call rule (60 s) is longer than any timeout here and is off. " +
			"It tries again after its own refusals, which costs time and no load; here a refusal ends the call. " + retryAfter,
		change: resilience4j,
	},
	{
		Name: "polly", Aliases: []string{"dotnet"}, Title: "Polly 8 as .NET's AddStandardResilienceHandler",
		Source: "https://learn.microsoft.com/dotnet/core/resilience/http-resilience (Microsoft.Extensions.Http.Resilience 8 to 10): " +
			"3 retries, 2 s exponential with jitter; 10 % of at least 100 in 30 s, 5 s open; 1000 at once",
		Lacks: "Its jitter is a smooth decorrelated one with the median at 2 s; here it is full jitter with the same median. " +
			"Its timeouts (10 s, 30 s in all) are left out. It breaks only when a failure ends; here also when a success does.",
		change: polly,
	},
	{
		Name: "polly-hedging", Title: "Polly 8 as .NET's AddStandardHedgingHandler",
		Source: "https://learn.microsoft.com/dotnet/core/resilience/http-resilience (Microsoft.Extensions.Http.Resilience 8 to 10): " +
			"1 hedge after 2 s, or at once after a failure; 10 % of at least 100 in 30 s, 5 s open; 1000 at once",
		Lacks: "It hedges to other endpoints where it knows any, with a breaker for each; here there is one endpoint. " +
			"It hedges every method; here only what may be repeated. Its timeouts (10 s, 30 s in all) are left out. " + retryAfter,
		change: pollyHedging,
	},
	{
		Name: "failsafe-go", Title: "failsafe-go: fallback, retry, breaker and timeout as its documentation shows them",
		Source: "https://failsafe-go.dev/retry, /circuit-breaker and /policies (v0.9.8; its README points there): 3 retries 1 s apart; 5 failures in a row, 1 min open, 2 successes close",
		Lacks: "It tries again while its breaker refuses, which costs time and no load; here a refusal ends the call. " +
			"A call that the caller gave up counts against its breaker. " + retryAfter,
		change: failsafe,
	},
	{
		Name: "failsafe-go-budget", Title: "failsafe-go: retry with a budget, both with defaults",
		Source: "github.com/failsafe-go/failsafe-go v0.9.8 (its newest), retrypolicy and budget; https://failsafe-go.dev/execution-budgets: 3 attempts without a wait; " +
			"re-sends are at most 20 % of what is in flight, or 3",
		Lacks: "Its adaptive throttler and limiter are left out, since a policy has no such rules. The throttler refuses from 10 % failures in 1 min on, at most 90 %, and counts only what it sent; " +
			"a policy's throttle counts what it refused, too, and with the same numbers never lets go. The limiter (20 at once, 1 to 200) follows the trend of latencies; docs/learned-limit.md compares it. " + retryAfter,
		change: failsafeBudget,
	},
	{
		Name: "go-retryablehttp", Aliases: []string{"retryablehttp"}, Title: "hashicorp/go-retryablehttp's NewClient",
		Source: "github.com/hashicorp/go-retryablehttp v0.7.8, client.go: 4 retries, 1 s doubled up to 30 s, no jitter",
		Lacks:  "Nothing: it repeats every method, keyed or not, and so it does here.",
		change: func(p policy.Policy) policy.Policy {
			return unasked(foreign.Bare(p, 5, backoff.Exp(time.Second, 30*time.Second)))
		},
	},
	{
		Name: "sre", Aliases: []string{"throttle"}, Title: "the SRE book: client-side throttling, three tries, a tenth of the calls as retries",
		Source: "https://sre.google/sre-book/handling-overload and /addressing-cascading-failures (chapters 21 and 22): K 2 over 2 min; 3 attempts, 10 % of a client's requests",
		Lacks: "The book names no times for its randomized exponential back-off and its tenth; here it is full jitter from 100 ms up to 10 s, and a minute. " +
			"Its criticalities, of which the lower are shed first as in Netflix's prioritized shedding, are left out: calls of these scenarios are alike. " + retryAfter,
		change: sre,
	},
	{
		Name: "hystrix", Title: "Hystrix with its defaults: a breaker and a pool of 10 threads, no retry",
		Source: "https://github.com/Netflix/Hystrix/wiki/Configuration (1.5): 50 % of at least 20 in 10 s, one probe every 5 s, 10 threads and no queue",
		Lacks:  "Its pool's refusals count as failures for its breaker; here they do not. Its timeout (1 s) is left out.",
		change: hystrix,
	},
	{
		Name: "aws-standard", Aliases: []string{"aws"}, Title: "AWS SDK for Go v2, retry mode standard, as it was until November 2026",
		Source: "github.com/aws/aws-sdk-go-v2 v1.47.7, aws/retry/standard.go and jitter_backoff.go: 3 attempts, full jitter from 2 s up to 20 s; 500 tokens, 5 a retry, 10 after a timeout",
		Lacks:  retryAfter,
		change: awsStandard,
	},
	{
		Name: "aws-2026", Aliases: []string{"aws-retries-2026"}, Title: "AWS SDKs, Retries 2026: the standard mode by default from November 2026 on",
		Source: "https://docs.aws.amazon.com/sdkref/latest/guide/feature-retry-behavior.html; github.com/aws/aws-sdk-go-v2 v1.47.7 with AWS_NEW_RETRIES_2026=true, " +
			"aws/retry/standard.go, middleware.go and jitter_backoff.go: 3 attempts, full jitter from 50 ms up to 20 s; 500 tokens, 14 a retry, 5 after throttling, all back if it succeeds",
		Lacks: "After throttling it waits with full jitter from 1 s; a policy has one backoff, and here it is that of 50 ms. " +
			"DynamoDB's clients make 4 attempts from 25 ms on. It reads x-amz-retry-after and waits at most 5 s longer for it than without; it does not read Retry-After. Here Retry-After is waited for.",
		change: aws2026,
	},
	{
		Name: "aws-adaptive", Title: "AWS SDK for Go v2, retry mode adaptive",
		Source: "github.com/aws/aws-sdk-go-v2 v1.47.7, aws/retry/adaptive.go: the standard mode, and a rate that sinks by 30 % when throttled and grows as a cubic",
		Lacks:  "Its rate limiter learns a rate from throttled answers; here the whole client is held back for the Retry-After of such an answer, at most 20 s.",
		change: func(p policy.Policy) policy.Policy {
			p = awsStandard(p)
			p.Pace = policy.Pace{Max: 20 * time.Second}
			return p
		},
	},
	{
		Name: "grpc", Title: "gRPC service config with retryThrottling, as the design's example",
		Source: "https://github.com/grpc/proposal/blob/master/A6-client-retries.md; grpc-go v1.85.0, stream.go: 4 attempts, 100 ms doubled up to 1 s; 10 tokens, 0.1 a success, none below 5",
		Lacks:  "Its jitter of a fifth either way is left out.",
		change: grpc,
	},
	{
		Name: "grpc-service-config", Title: "gRPC service config as its guide recommends: a timeout for the whole RPC, retries, retryThrottling",
		Source: "https://grpc.io/docs/guides/retry and /service-config, https://github.com/grpc/proposal/blob/master/A6-client-retries.md: timeout in the MethodConfig; " +
			"4 attempts, 100 ms doubled up to 1 s; 10 tokens, 0.1 a success, none below 5",
		Lacks: "The timeout of a MethodConfig bounds all attempts together; one attempt has no timeout, here neither. " +
			"It retries UNAVAILABLE only; here every failure that may be repeated. Its jitter of a fifth either way is left out.",
		change: func(p policy.Policy) policy.Policy { return foreign.Undivided(grpc(p)) },
	},
	{
		Name: "envoy", Title: "Envoy: one retry, outlier detection with its panic threshold",
		Source: "https://www.envoyproxy.io/docs/envoy/v1.31.0 (retry_policy, circuit_breakers, outlier_detection): 1 retry, full jitter from 25 ms up to 250 ms; 1024 requests and 3 retries at once",
		Lacks: "Its outlier detection takes hosts out; when more than half are out, as when a whole service fails, the panic threshold sends to all again, " +
			"so there is no breaker here, and one bad host is not avoided. Each client here is such a proxy, with a limit of retries of its own. " + retryAfter,
		change: envoy,
	},
	{
		Name: "envoy-admission", Title: "Envoy's admission control: a share of the calls is refused as the success rate falls, no retry",
		Source: "https://www.envoyproxy.io/docs/envoy/v1.31.0/configuration/http/http_filters/admission_control_filter: aggression 1, from 95 % successes down, over 30 s",
		Lacks:  "It refuses at most 80 %; here there is no such bound.",
		change: envoyAdmission,
	},
	{
		Name: "istio", Title: "Istio: two retries, outlier detection without a panic threshold",
		Source: "https://istio.io/latest/docs/reference/config/networking/destination-rule/#OutlierDetection and /virtual-service/#HTTPRetry (1.24): 2 retries, 25 ms; " +
			"5 failures in a row, 30 s out, then longer, at most 300 s",
		Lacks: "Its list of what is repeated has no status of HTTP unless retryOn names one; here every failure is repeated, as with 5xx. " +
			"It takes out hosts, and here the service counts as one host. It grows the time by 30 s each time and brings the host back at once; " +
			"here the time doubles and a first success brings it back. " + retryAfter,
		change: istio,
	},
	{
		Name: "linkerd", Aliases: []string{"finagle"}, Title: "Linkerd and Finagle: a retry budget of 20 % and 10/s over 10 s",
		Source: "https://linkerd.io/2.15/tasks/configuring-retries and https://finagle.github.io/blog/2016/02/08/retry-budgets: 20 %, 10/s, 10 s",
		Lacks: "Only the budget and the timeout end its retries; here 10 attempts do as well. " +
			"Its failure accrual marks hosts, and sends to a marked one when there is no other, so there is no breaker here. " + retryAfter,
		change: linkerd,
	},
}

// sre is what the two chapters on overload advise callers to do.
func sre(p policy.Policy) policy.Policy {
	p = foreign.Bare(p, 3, backoff.Full(100*time.Millisecond, 10*time.Second))
	p.Retry.Budget = policy.Budget{Shape: policy.BudgetWindow, Ratio: 0.1, Floor: policy.Off, Window: time.Minute}
	p.Throttle = policy.Throttle{K: 2, Window: 2 * time.Minute}
	return p
}

// envoyAdmission rejects like sre, from the success rate that its threshold names.
func envoyAdmission(p policy.Policy) policy.Policy {
	p = foreign.Bare(p, 1, backoff.Const(time.Millisecond))
	p.Throttle = policy.Throttle{K: 1 / 0.95, Window: 30 * time.Second}
	return p
}

func resilience4j(p policy.Policy) policy.Policy {
	p = foreign.Bare(p, 3, backoff.Const(500*time.Millisecond))
	b := foreign.Steady(60 * time.Second)
	b.WindowCalls, b.MinCalls, b.FailureRate = 100, 100, 0.5
	b.Probes, b.ProbeCalls = 10, 10
	p.Breaker = b
	return p
}

func polly(p policy.Policy) policy.Policy {
	p = foreign.Bare(p, 4, backoff.Full(4*time.Second, time.Hour))
	b := foreign.Steady(5 * time.Second)
	b.Window, b.MinCalls, b.FailureRate = 30*time.Second, 100, 0.1
	b.CloseAfter = 1
	p.Breaker = b
	p.Bulkhead = policy.Bulkhead{Limit: 1000, Queue: policy.Off, QueueTimeout: policy.Off}
	return p
}

// pollyHedging is polly with a hedge in place of its retries. In a call that is over
// before the hedge's time only a failure brings it.
func pollyHedging(p policy.Policy) policy.Policy {
	p = polly(p)
	p.Retry.Attempts, p.Retry.Backoff = 1, backoff.Const(time.Millisecond)
	p.Hedge = policy.Hedge{Max: 1, Delay: 2 * time.Second, Percentile: policy.Off}
	if call := p.Resolved().Timeout.Call; call > 0 && call <= p.Hedge.Delay {
		p.Hedge.Delay = policy.Off
	}
	return p
}

func failsafeBudget(p policy.Policy) policy.Policy {
	p = foreign.Bare(p, 3, backoff.Const(0))
	p.Retry.Budget = policy.Budget{Shape: policy.BudgetShare, Ratio: 0.2, MinInFlight: 3}
	return p
}

func failsafe(p policy.Policy) policy.Policy {
	p = foreign.Bare(p, 4, backoff.Const(time.Second))
	b := foreign.Steady(time.Minute)
	b.Consecutive, b.Probes, b.ProbeCalls, b.CloseAfter = 5, 2, 2, 2
	p.Breaker = b
	return p
}

func hystrix(p policy.Policy) policy.Policy {
	p = foreign.Bare(p, 1, backoff.Const(time.Millisecond))
	b := foreign.Steady(5 * time.Second)
	b.MinCalls, b.FailureRate, b.CloseAfter = 20, 0.5, 1
	p.Breaker = b
	p.Bulkhead = policy.Bulkhead{Limit: 10, Queue: policy.Off, QueueTimeout: policy.Off}
	return p
}

func awsStandard(p policy.Policy) policy.Policy {
	p = foreign.Bare(p, 3, backoff.Full(2*time.Second, 20*time.Second))
	p.Retry.Budget = policy.Budget{Shape: policy.BudgetQuota, Capacity: 500, Cost: 5, ThrottledCost: 5, TimeoutCost: 10, Ratio: 1}
	return p
}

func aws2026(p policy.Policy) policy.Policy {
	p = foreign.Bare(p, 3, backoff.Full(50*time.Millisecond, 20*time.Second))
	p.Retry.Budget = policy.Budget{Shape: policy.BudgetQuota, Capacity: 500, Cost: 14, ThrottledCost: 5, TimeoutCost: 14, Ratio: 1}
	return p
}

func grpc(p policy.Policy) policy.Policy {
	p = foreign.Bare(p, 4, backoff.Exp(100*time.Millisecond, time.Second))
	p.Retry.Budget = policy.Budget{Shape: policy.BudgetGRPC, Capacity: 10, Ratio: 0.1}
	return p
}

func envoy(p policy.Policy) policy.Policy {
	p = foreign.Bare(p, 2, backoff.Full(25*time.Millisecond, 250*time.Millisecond))
	p.Retry.Budget = policy.Budget{Shape: policy.BudgetShare, Ratio: policy.Off, MinInFlight: 3}
	p.Bulkhead = policy.Bulkhead{Limit: 1024, Queue: policy.Off, QueueTimeout: policy.Off}
	return p
}

func istio(p policy.Policy) policy.Policy {
	p = foreign.Bare(p, 3, backoff.Full(25*time.Millisecond, 250*time.Millisecond))
	b := foreign.Steady(30 * time.Second)
	b.Consecutive, b.OpenMax, b.OpenGrowth = 5, 300*time.Second, 2
	b.Probes, b.ProbeCalls, b.CloseAfter, b.ReopenAfter = 100, 100, 1, 5
	p.Breaker = b
	return p
}

func linkerd(p policy.Policy) policy.Policy {
	p = foreign.Bare(p, 10, backoff.Const(time.Millisecond))
	p.Retry.Budget = policy.Budget{Shape: policy.BudgetWindow, Ratio: 0.2, Floor: 10, Window: 10 * time.Second}
	return p
}
