package export

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/internal/foreign"
	"github.com/gabion-go/gabion/internal/grpccode"
	"github.com/gabion-go/gabion/policy"
)

const (
	daprBook    = "https://docs.dapr.io/operations/resiliency/policies/"
	daprTimes   = daprBook + "timeouts/"
	daprRetry   = daprBook + "retries/retries-overview/"
	daprBreaker = daprBook + "circuit-breakers/"
)

// daprFirst bounds the first wait of Dapr's exponential policy: half a second, which no key sets, and a half more.
const daprFirst = 750 * time.Millisecond

func dapr() *Format {
	safe := func(c *call) bool { return c.p.Safe && retries(c) }
	steady := func(c *call) bool {
		return safe(c) && c.p.Retry.Backoff.Kind == backoff.Constant && c.p.Retry.Backoff.Base == inMillis(c.p.Retry.Backoff.Base) && c.p.Retry.Backoff.Base > 0
	}
	single := func(c *call) bool { return !safe(c) && callBounded(c) }
	statuses := statuses(daprRetry)
	statuses.when = safe
	own := slices.Concat([]Mapping{
		{ID: "of one attempt", Key: "timeout.call", Target: "policies.timeouts", Source: daprTimes, when: single},
		{ID: "bounded", Key: "timeout.attempt", Target: "policies.timeouts", Source: daprTimes, when: both(safe, attemptBounded)},
		{ID: "several", Key: "retry.attempts", Target: "policies.retries.maxRetries", Source: daprRetry, when: safe},
		{ID: "one", Key: "retry.attempts", Target: "policies.retries.maxRetries", Source: daprRetry, when: noRetries},
		{ID: "not safe", Key: "retry.attempts", Target: "policies.retries.maxRetries", Fate: foreign.Lost, Source: daprRetry, when: unsafe, set: func(*call) {},
			Text: "nothing is repeated: the work isn't declared safe, and Dapr repeats every method. Here reads and calls with a key are repeated"},
		{ID: "constant", Key: "retry.backoff", Target: "policies.retries.duration", Source: daprRetry, when: steady},
		{ID: "growing", Key: "retry.backoff", Target: "policies.retries.maxInterval", Fate: foreign.Nearly, Source: daprRetry, when: both(safe, not(steady)),
			set:  func(c *call) { c.comes.Retry.Backoff = full(daprFirst, max(c.p.Retry.Backoff.Cap, daprFirst)) },
			Text: "waits begin with 500ms and grow by half up to %s, each up to a half shorter or longer; here %s",
			args: func(c *call) []any { return []any{spell(c.comes.Retry.Backoff.Cap), waits(c.p.Retry.Backoff)} }},
		statuses,
		noBudget(daprRetry, safe),
		{ID: "in a row", Key: "breaker.consecutive", Target: "policies.circuitBreakers.trip", Source: daprBreaker, when: inRow, set: trip},
		{ID: "in a row", Key: "breaker.open", Target: "policies.circuitBreakers.timeout", Source: daprBreaker, when: inRow},
		{ID: "in a row", Key: "breaker.probes", Target: "policies.circuitBreakers.maxRequests", Source: daprBreaker, when: inRow},
		breakerRest(daprBreaker, "only failures in a row open it, and it stays open for the same time every time; as many successes as there may be probes close it"),
	}, statusLists("policies.retries.matching.httpStatusCodes", daprRetry, safe), codeLists("policies.retries.matching.gRPCStatusCodes", daprRetry, safe))
	return &Format{
		Name: "dapr", Title: "Dapr: Resiliency", Comment: "# ", write: daprText,
		Mappings: losses("dapr", daprBook, own),
		Note:     "The target is the app's id. Dapr's own retries of service invocation (3, for connections that fail) hold where no policy does.",
	}
}

// trip makes a breaker of Dapr's.
func trip(c *call) {
	b := inRowOnly(c)
	b.Probes, b.ProbeCalls, b.CloseAfter = c.p.Breaker.Probes, c.p.Breaker.Probes, c.p.Breaker.Probes
	c.comes.Breaker = b
}

func daprText(c *call) string {
	p, name := c.comes, objectName(c.Name)
	host, _ := hostPort(c.Host)
	retry := of("policy", "constant", "duration", "1s", "maxRetries", 0)
	if p.Retry.Attempts > 1 {
		retry = of("policy", "exponential", "maxInterval", units(p.Retry.Backoff.Cap), "maxRetries", p.Retry.Attempts-1)
		if p.Retry.Backoff.Kind == backoff.Constant {
			retry = of("policy", "constant", "duration", units(p.Retry.Backoff.Base), "maxRetries", p.Retry.Attempts-1)
		}
		retry = append(retry, pair{"matching", of("httpStatusCodes", unless(len(transient(p)) == 0, numbers(transient(p))),
			"gRPCStatusCodes", unless(len(daprCodes(p)) == 0, strings.Join(daprCodes(p), ",")))})
	}
	timeout := max(p.Timeout.Attempt, 0)
	if p.Retry.Attempts < 2 && p.Timeout.Call > 0 {
		timeout = p.Timeout.Call
	}
	policies := of("timeouts", of(name, unless(timeout == 0, units(timeout))), "retries", of(name, retry))
	target := of("timeout", unless(timeout == 0, name), "retry", name)
	if b := p.Breaker; !b.Off {
		policies = append(policies, pair{"circuitBreakers", of(name, of("maxRequests", b.Probes, "timeout", units(b.Open), "trip", fmt.Sprintf("consecutiveFailures >= %d", b.Consecutive)))})
		target = append(target, pair{"circuitBreaker", name})
	}
	return yaml(of("apiVersion", "dapr.io/v1alpha1", "kind", "Resiliency", "metadata", of("name", name),
		"spec", of("policies", policies, "targets", of("apps", of(host, target)))))
}

// daprCodes are the numbers of the gRPC codes that are repeated.
func daprCodes(p policy.Policy) (words []string) {
	for _, code := range grpcCodes(p) {
		words = append(words, strconv.Itoa(int(code)))
	}
	return words
}

// grpcCodes are the gRPC codes that are repeated.
func grpcCodes(p policy.Policy) (codes []policy.GRPCCode) {
	for _, code := range append([]policy.GRPCCode{grpccode.Unavailable}, p.GRPC.Transient...) {
		if !slices.Contains(p.GRPC.Permanent, code) && !slices.Contains(codes, code) {
			codes = append(codes, code)
		}
	}
	slices.Sort(codes)
	return codes
}
