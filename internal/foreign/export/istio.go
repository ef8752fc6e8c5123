package export

import (
	"slices"
	"strings"
	"time"

	"github.com/gabion-go/gabion/internal/foreign"
	"github.com/gabion-go/gabion/policy"
)

const (
	istioRules  = "https://istio.io/latest/docs/reference/config/networking/"
	istioTimes  = istioRules + "virtual-service/#HTTPRoute"
	istioRetry  = istioRules + "virtual-service/#HTTPRetry"
	istioPool   = istioRules + "destination-rule/#ConnectionPoolSettings-HTTPSettings"
	istioOut    = istioRules + "destination-rule/#OutlierDetection"
	istioBudget = istioRules + "destination-rule/#TrafficPolicy-RetryBudget"
)

// unsent are the failures after which nothing has happened. The time of an attempt would end work that can't
// be repeated, so what is repeated after these alone has none.
const unsent = "connect-failure,refused-stream"

const readsOnly = "GET, HEAD and OPTIONS are repeated. All else is repeated only where no connection came about or the stream was refused: the " +
	"work isn't declared safe, and a proxy can't tell; it has the whole call's time. Calls with a key are repeated here, and there not"

// statuses says what of an answer is repeated. A 500 is no key of a policy.
func statuses(source string) Mapping {
	return Mapping{
		ID: "a 500", Key: "http", Target: "", Fate: foreign.Nearly, Source: source, when: retries, set: func(*call) {},
		Text: "%s and broken connections are repeated; other statuses from 500 on are not, and here once",
		args: func(c *call) []any { return []any{strings.ReplaceAll(numbers(transient(c.p)), ",", ", ")} },
	}
}

// lists are the lines of the statuses and codes that a policy names.
func lists(target, source string) []Mapping {
	return append(statusLists(target, source, retries), []Mapping{
		{ID: "codes", Key: "grpc.transient", Target: target, Source: source, when: both(retries, func(c *call) bool { return len(c.p.GRPC.Transient) > 0 && allKnown(c.p) })},
		{ID: "other codes", Key: "grpc.transient", Target: target, Fate: foreign.Nearly, Source: source, when: both(retries, func(c *call) bool { return !allKnown(c.p) }),
			Text: "of gRPC codes only CANCELLED, DEADLINE_EXCEEDED, INTERNAL, RESOURCE_EXHAUSTED and UNAVAILABLE can be repeated",
			set:  func(c *call) { c.comes.GRPC.Transient = known(c.p.GRPC.Transient) }},
		{ID: "codes", Key: "grpc.permanent", Target: target, Source: source, when: both(retries, func(c *call) bool { return len(c.p.GRPC.Permanent) > 0 })},
	}...)
}

// statusLists are those of statuses, where a format can say them.
func statusLists(target, source string, when func(*call) bool) []Mapping {
	return []Mapping{
		{ID: "statuses", Key: "http.transient", Target: target, Source: source, when: both(when, func(c *call) bool { return len(c.p.HTTP.Transient) > 0 })},
		{ID: "statuses", Key: "http.permanent", Target: target, Source: source, when: both(when, func(c *call) bool { return len(c.p.HTTP.Permanent) > 0 })},
	}
}

// codeLists are those of codes, where a format can say them all.
func codeLists(target, source string, when func(*call) bool) []Mapping {
	return []Mapping{
		{ID: "codes", Key: "grpc.transient", Target: target, Source: source, when: both(when, func(c *call) bool { return len(c.p.GRPC.Transient) > 0 })},
		{ID: "codes", Key: "grpc.permanent", Target: target, Source: source, when: both(when, func(c *call) bool { return len(c.p.GRPC.Permanent) > 0 })},
	}
}

// noBudget is the line of a policy without one.
func noBudget(source string, when func(*call) bool) Mapping {
	return Mapping{ID: "off", Key: "retry.budget", Fate: foreign.Nearly, Source: source, when: both(when, func(c *call) bool { return c.p.Retry.Budget.Off }), set: func(*call) {},
		Text: "no budget, as here: in an outage %d attempts are %s× the load",
		args: func(c *call) []any { return []any{c.comes.Retry.Attempts, times(float64(c.comes.Retry.Attempts))} }}
}

// shape is a line of waits that begin, grow and end otherwise than the policy's.
func shape(m Mapping) Mapping {
	m.Key, m.Fate = "retry.backoff", foreign.Nearly
	m.args = func(c *call) []any {
		return []any{spell(c.comes.Retry.Backoff.Base), spell(c.comes.Retry.Backoff.Cap), waits(c.p.Retry.Backoff)}
	}
	return m
}

// otherShape is what is said of Envoy's full jitter in place of another shape.
const otherShape = "each wait is drawn between 0 and a bound that begins with %s and doubles up to %s; here %s"

// toFull makes full jitter of the policy's waits.
func toFull(c *call) {
	c.comes.Retry.Backoff = full(c.p.Retry.Backoff.Base, c.p.Retry.Backoff.Cap)
}

// jittered reports whether waits are full jitter.
func jittered(c *call) bool {
	return retries(c) && c.p.Retry.Backoff.Kind == 0 && c.p.Retry.Backoff.Base > 0
}

// limits are the lines of how many requests may be out.
func limits(target, source string) []Mapping {
	return []Mapping{
		{ID: "bounded", Key: "bulkhead.limit", Target: target, Source: source, when: bounded, set: atOnce},
		{ID: "learned", Key: "bulkhead.limit", Target: target, Fate: foreign.Nearly, Source: source, when: learns, set: atOnce,
			Text: "the limit is fixed at %d, the most that is learned here", args: func(c *call) []any { return []any{c.comes.Bulkhead.Limit} }},
		limitRest(source),
	}
}

func allKnown(p policy.Policy) bool { return len(known(p.GRPC.Transient)) == len(p.GRPC.Transient) }

// proxyWaits are the lines of a backoff where the longest wait is ten times the first.
func proxyWaits(target, source string) []Mapping {
	fits := func(c *call) bool {
		b := c.p.Retry.Backoff
		return jittered(c) && b.Base == inMillis(b.Base) && b.Cap == 10*b.Base
	}
	return []Mapping{
		{ID: "ten times the first wait", Key: "retry.backoff", Target: target, Source: source, when: fits},
		{ID: "another cap", Key: "retry.backoff", Target: target, Fate: foreign.Nearly, Source: source, when: both(jittered, not(fits)), set: tenfold,
			Text: "the longest wait is ten times the first, %s, and here %s",
			args: func(c *call) []any { return []any{spell(c.comes.Retry.Backoff.Cap), spell(c.p.Retry.Backoff.Cap)} }},
		shape(Mapping{ID: "another shape", Target: target, Source: source, when: both(retries, not(jittered)), set: tenfold, Text: otherShape}),
	}
}

// shares are the lines of a budget where a share of what is in flight may be retries.
func shares(target, source string, least int) []Mapping {
	fits := func(c *call) bool {
		b := c.p.Retry.Budget
		return shaped(policy.BudgetShare)(c) && b.MinInFlight >= least && b.Ratio == roundRatio(float64(b.Ratio), 1000)
	}
	return []Mapping{
		{ID: "a share", Key: "retry.budget", Target: target, Source: source, when: fits},
		{ID: "another", Key: "retry.budget", Target: target, Fate: foreign.Nearly, Source: source, when: both(budgeted, not(fits)), set: toShare,
			Text: "at most %s %% of what is in flight are retries, or %d at once: in an outage %s× the load where failures take as long as successes, and up to %d.0× where they come at once; a retry that waits counts as well, so fewer go where waits are longer than answers; here %s",
			args: func(c *call) []any {
				b := c.comes.Retry.Budget
				return []any{number(percent(b.Ratio)), b.MinInFlight, times(1 + extra(b)), c.p.Retry.Attempts, outage(c.p.Retry.Budget)}
			}},
		noBudget(source, retries),
	}
}

// tenfold is the backoff that Envoy makes of a first wait.
func tenfold(c *call) {
	c.comes.Retry.Backoff = full(c.p.Retry.Backoff.Base, 10*max(inMillis(c.p.Retry.Backoff.Base), time.Millisecond))
}

func istio() *Format {
	own := slices.Concat([]Mapping{
		{ID: "bounded", Key: "timeout.call", Target: "http[].timeout", Source: istioTimes, when: callBounded},
		{ID: "bounded", Key: "timeout.attempt", Target: "http[].retries.perTryTimeout", Source: istioRetry, when: attemptBounded},
		{ID: "several", Key: "retry.attempts", Target: "http[].retries.attempts", Source: istioRetry, when: retries},
		{ID: "one", Key: "retry.attempts", Target: "http[].retries.attempts", Source: istioRetry, when: noRetries},
		{ID: "reads only", Key: "safe", Target: "http[].match", Fate: foreign.Nearly, Source: istioRetry, when: unsafe, set: func(*call) {}, Text: readsOnly},
	},
		proxyWaits("http[].retries.backoff", istioRetry),
		[]Mapping{statuses(istioRetry)}, lists("http[].retries.retryOn", istioRetry),
		shares("trafficPolicy.retryBudget", istioBudget, 1),
		[]Mapping{
			{ID: "in a row", Key: "breaker.consecutive", Target: "outlierDetection.consecutive5xxErrors", Fate: foreign.Nearly, Source: istioOut, when: inRow, set: eject,
				Text: "failures are counted for each host, and the host is left out; where all are out, calls end with 503"},
			{ID: "in a row", Key: "breaker.open", Target: "outlierDetection.baseEjectionTime", Source: istioOut, when: inRow},
			{ID: "in a row", Key: "breaker.open_max", Fate: foreign.Nearly, Source: istioOut, when: inRow, set: func(c *call) { c.comes.Breaker.OpenMax = max(c.comes.Breaker.Open, ejectMax) },
				Text: "a host that fails again stays out for %s longer each time, up to %s, and here %s",
				args: func(c *call) []any {
					return []any{spell(c.comes.Breaker.Open), spell(c.comes.Breaker.OpenMax), spell(c.p.Breaker.OpenMax)}
				}},
			breakerRest(istioOut, outlierRest),
		}, limits("connectionPool.http.http2MaxRequests", istioPool))
	return &Format{
		Name: "istio", Title: "Istio: VirtualService and DestinationRule", Comment: "# ", write: istioText,
		Mappings: losses("istio", istioRules, own, "timeout.call", "retry.budget", "bulkhead"),
		Note:     "The client's sidecar does it, so each pod has limits and ejections of its own.",
	}
}

const (
	ejectMax    = 300 * time.Second // Envoy's max_ejection_time where nothing is said
	outlierRest = "it has no rule of a failure rate or of slow answers that holds for a service, and a host comes back without a probe"
)

// eject makes a breaker of outlier detection.
func eject(c *call) {
	b := inRowOnly(c)
	b.OpenGrowth = 2
	b.Probes, b.ProbeCalls, b.CloseAfter, b.ReopenAfter = 100, 100, 1, b.Consecutive
	c.comes.Breaker = b
}

// inRowOnly is a breaker of nothing but failures in a row.
func inRowOnly(c *call) policy.Breaker {
	b := foreign.Steady(inMillis(c.p.Breaker.Open))
	b.Consecutive, b.Window = c.p.Breaker.Consecutive, max(b.Window, 2*c.comes.Timeout.Attempt)
	return b
}

// atOnce makes a bulkhead without a queue.
func atOnce(c *call) {
	limit := c.p.Bulkhead.Limit
	if limit == policy.Learned {
		limit = c.p.Bulkhead.Max
	}
	c.comes.Bulkhead = policy.Bulkhead{Limit: limit, Queue: policy.Off, QueueTimeout: policy.Off}
}

// limitRest is about what else a bulkhead has.
func limitRest(source string) Mapping {
	return Mapping{ID: "the rest", Key: "bulkhead", Fate: foreign.Lost, Source: source, when: func(c *call) bool { return !c.p.Bulkhead.Off }, set: func(*call) {},
		Text: "a request above the limit ends at once, with 503; here %s", args: func(c *call) []any { return []any{queued(c.p.Bulkhead)} }}
}

// breakerRest is about what else a breaker has than failures in a row.
func breakerRest(source, text string) Mapping {
	return Mapping{ID: "the rest", Key: "breaker", Fate: foreign.Lost, Source: source, when: inRow, set: func(*call) {}, Text: text}
}

func istioText(c *call) string {
	name, p := objectName(c.Name), c.comes
	destination := list{of("destination", of("host", c.Host))}
	route := func(title, retryOn string, perTry bool, methods ...string) object {
		var match list
		for _, m := range methods {
			match = append(match, of("method", of("exact", m)))
		}
		again := of("attempts", 0)
		if p.Retry.Attempts > 1 {
			again = of("attempts", p.Retry.Attempts-1, "perTryTimeout", unless(!perTry || p.Timeout.Attempt <= 0, units(p.Timeout.Attempt)),
				"backoff", units(p.Retry.Backoff.Base), "retryOn", retryOn)
		}
		return of("name", title, "match", match, "timeout", unless(p.Timeout.Call <= 0, units(p.Timeout.Call)), "retries", again, "route", destination)
	}
	routes := list{route("all", istioRetryOn(p), true)}
	if unsafe(c) {
		routes = list{route("reads", istioRetryOn(p), true, "GET", "HEAD", "OPTIONS"), route("all", unsent, false)}
	}
	virtual := of("apiVersion", "networking.istio.io/v1", "kind", "VirtualService", "metadata", of("name", name),
		"spec", of("hosts", list{c.Host}, "http", routes))
	traffic := of(
		"connectionPool", of("http", of("http2MaxRequests", unless(p.Bulkhead.Off, p.Bulkhead.Limit))),
		"outlierDetection", ejection(p),
		"retryBudget", unless(p.Retry.Budget.Off, of("percent", percent(p.Retry.Budget.Ratio), "minRetryConcurrency", p.Retry.Budget.MinInFlight)))
	if len(traffic) == 0 {
		return yaml(virtual)
	}
	return yaml(virtual, of("apiVersion", "networking.istio.io/v1", "kind", "DestinationRule", "metadata", of("name", name),
		"spec", of("host", c.Host, "trafficPolicy", traffic)))
}

func ejection(p policy.Policy) any {
	if p.Breaker.Off {
		return nil
	}
	return of("consecutive5xxErrors", p.Breaker.Consecutive, "baseEjectionTime", units(p.Breaker.Open), "maxEjectionPercent", 100)
}

func istioRetryOn(p policy.Policy) string {
	words := slices.Concat([]string{"connect-failure", "refused-stream", "reset"}, repeated(p))
	if codes := numbers(transient(p)); codes != "" {
		words = append(words, codes)
	}
	return strings.Join(words, ",")
}
