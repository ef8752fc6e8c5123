package export

import (
	"math"
	"strings"
	"time"

	"github.com/gabion-go/gabion/internal/foreign"
	"github.com/gabion-go/gabion/policy"
)

const grpcBook = "https://github.com/grpc/proposal/blob/master/A6-client-retries.md"

// The bounds of a retryPolicy and of retryThrottling.
const (
	grpcMost   = 5
	grpcTokens = 1000
)

func grpc() *Format {
	again := func(c *call) bool { return c.p.Safe && retries(c) && len(grpcCodes(c.p)) > 0 }
	few := func(c *call) bool { return again(c) && c.p.Retry.Attempts <= grpcMost }
	fits := func(c *call) bool {
		b := c.p.Retry.Budget
		return again(c) && shaped(policy.BudgetGRPC)(c) && b.Ratio == roundRatio(float64(b.Ratio), 1000) && b.Ratio > 0
	}
	hasBudget := func(c *call) bool { return again(c) && !c.p.Retry.Budget.Off }
	own := append([]Mapping{
		{ID: "bounded", Key: "timeout.call", Target: "methodConfig[].timeout", Source: "https://grpc.io/docs/guides/service-config/", when: callBounded},
		{ID: "bounded", Key: "timeout.body", Target: "methodConfig[].timeout", Fate: foreign.Nearly, Source: "https://grpc.io/docs/guides/service-config/", when: callBounded,
			set:  func(c *call) { c.comes.Timeout.Body = c.comes.Timeout.Call },
			Text: "the call's %s bound its answer, too, also that of a stream", args: func(c *call) []any { return []any{spell(c.comes.Timeout.Call)} }},
		{ID: "up to five", Key: "retry.attempts", Target: "retryPolicy.maxAttempts", when: few},
		{ID: "more than five", Key: "retry.attempts", Target: "retryPolicy.maxAttempts", Fate: foreign.Nearly, when: both(again, not(few)),
			set:  func(c *call) { c.comes.Retry.Attempts = grpcMost },
			Text: "clients make at most 5 attempts; here %d", args: func(c *call) []any { return []any{c.p.Retry.Attempts} }},
		{ID: "one", Key: "retry.attempts", when: noRetries},
		{ID: "not safe", Key: "retry.attempts", Fate: foreign.Lost, when: both(unsafe, not(again)), set: func(*call) {},
			Text: "nothing is repeated but what never left the client or its server: the work isn't declared safe, and a service config can't ask for a key"},
		{ID: "no code", Key: "retry.attempts", Fate: foreign.Lost, when: func(c *call) bool { return c.p.Safe && retries(c) && !again(c) }, set: func(*call) {},
			Text: "nothing is repeated: grpc.permanent has UNAVAILABLE, and a retryPolicy needs a code"},
		shape(Mapping{ID: "waits", Target: "retryPolicy.initialBackoff, maxBackoff", when: again, set: toFull,
			Text: "waits begin with %s and double up to %s, each a fifth shorter or longer at most; here %s"}),
		{ID: "throttling", Key: "retry.budget", Target: "retryThrottling", when: fits},
		{ID: "another", Key: "retry.budget", Target: "retryThrottling", Fate: foreign.Nearly, when: both(hasBudget, not(fits)), set: toTokens,
			Text: "retries end after %d failures and come back as successes bring %s of a token each; here they may be %s %% of the load, and in an outage it is %s",
			args: func(c *call) []any {
				b := c.comes.Retry.Budget
				return []any{b.Capacity - b.Capacity/2, number(float64(b.Ratio)), number(math.Round(extra(c.p.Retry.Budget)*1000) / 10), outage(c.p.Retry.Budget)}
			}},
		noBudget("", again),
	}, codeLists("retryPolicy.retryableStatusCodes", "", again)...)
	return &Format{
		Name: "grpc", Title: "gRPC: a service config", Single: true, write: grpcText,
		Mappings: losses("grpc", grpcBook, own, "timeout.call", "retry.budget"),
		Note:     "The config is of all methods of its connection; with --host it is of the service of that name.",
	}
}

// toTokens makes tokens out of another budget.
func toTokens(c *call) {
	b := c.p.Retry.Budget
	capacity := 10
	if b.Capacity > 0 && b.Shape == policy.BudgetGRPC {
		capacity = min(b.Capacity, grpcTokens)
	}
	c.comes.Retry.Budget = policy.Budget{Shape: policy.BudgetGRPC, Capacity: capacity, Ratio: max(roundRatio(min(extra(b), 1), 1000), 0.001)}
}

func grpcText(c *call) string {
	p := c.comes
	name := object{}
	if c.Host != c.Name {
		service, _ := hostPort(c.Host)
		name = of("service", service)
	}
	var retry, throttling object
	if p.Retry.Attempts > 1 {
		var codes list
		for _, code := range grpcCodes(p) {
			codes = append(codes, code.String())
		}
		b := p.Retry.Backoff
		retry = of("maxAttempts", p.Retry.Attempts, "initialBackoff", seconds(b.Base), "maxBackoff", seconds(b.Cap), "backoffMultiplier", 2, "retryableStatusCodes", codes)
		if t := p.Retry.Budget; !t.Off {
			throttling = of("maxTokens", t.Capacity, "tokenRatio", float64(t.Ratio))
		}
	}
	config := append(object{{"name", list{name}}}, of("timeout", unless(p.Timeout.Call <= 0, seconds(max(p.Timeout.Call, time.Duration(0)))), "retryPolicy", retry)...)
	var b strings.Builder
	writeJSON(&b, of("methodConfig", list{config}, "retryThrottling", throttling), 0)
	return b.String() + "\n"
}
