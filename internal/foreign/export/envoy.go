package export

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/gabion-go/gabion/internal/foreign"
	"github.com/gabion-go/gabion/policy"
)

const (
	envoyAPI     = "https://www.envoyproxy.io/docs/envoy/latest/api-v3/config/"
	envoyRoute   = envoyAPI + "route/v3/route_components.proto#envoy-v3-api-field-config-route-v3-routeaction-timeout"
	envoyIdle    = envoyAPI + "route/v3/route_components.proto#envoy-v3-api-field-config-route-v3-routeaction-idle-timeout"
	envoyRetry   = envoyAPI + "route/v3/route_components.proto#config-route-v3-retrypolicy"
	envoyHedge   = envoyAPI + "route/v3/route_components.proto#config-route-v3-hedgepolicy"
	envoyLimits  = envoyAPI + "cluster/v3/circuit_breaker.proto"
	envoyOutlier = envoyAPI + "cluster/v3/outlier_detection.proto"
)

// unlimited stands for no limit where leaving one out means a default.
const unlimited = 1<<32 - 1

func envoy() *Format {
	whole := func(c *call) bool {
		b := c.p.Retry.Backoff
		return jittered(c) && b.Base == inMillis(b.Base) && b.Cap == inMillis(b.Cap)
	}
	afters := func(c *call) bool { return retries(c) && c.p.Retry.MaxAfter > 0 }
	own := slices.Concat([]Mapping{
		{ID: "bounded", Key: "timeout.call", Target: "route.timeout", Source: envoyRoute, when: callBounded},
		{ID: "bounded", Key: "timeout.attempt", Target: "retry_policy.per_try_timeout", Source: envoyRetry, when: attemptBounded},
		{ID: "bounded", Key: "timeout.idle", Target: "route.idle_timeout", Fate: foreign.Nearly, Source: envoyIdle, when: silence, set: idle, Text: idleText, args: idleArgs},
		{ID: "off", Key: "timeout.idle", Target: "route.idle_timeout", Source: envoyIdle, when: not(silence)},
		{ID: "several", Key: "retry.attempts", Target: "retry_policy.num_retries", Source: envoyRetry, when: retries},
		{ID: "one", Key: "retry.attempts", Source: envoyRetry, when: noRetries},
		{ID: "reads only", Key: "safe", Target: "match.headers", Fate: foreign.Nearly, Source: envoyRetry, when: unsafe, set: func(*call) {}, Text: readsOnly},
		{ID: "full jitter", Key: "retry.backoff", Target: "retry_policy.retry_back_off", Source: envoyRetry, when: whole},
		shape(Mapping{ID: "another shape", Target: "retry_policy.retry_back_off", Source: envoyRetry, when: both(retries, not(whole)), set: toFull, Text: otherShape}),
		{ID: "Retry-After", Key: "retry.max_after", Target: "retry_policy.rate_limited_retry_back_off", Fate: foreign.Nearly, Source: envoyRetry, when: afters,
			set:  func(c *call) { c.comes.Retry.MaxAfter = inMillis(c.p.Retry.MaxAfter) },
			Text: "after a Retry-After above %s a retry goes after its usual wait; here the call ends",
			args: func(c *call) []any { return []any{spell(c.comes.Retry.MaxAfter)} }},
		statuses(envoyRetry),
		{ID: "not written", Key: "hedge", Fate: foreign.Lost, Source: envoyHedge, when: hedges, set: func(*call) {},
			Text: "no further attempt goes while the first is out; here up to %d do, %s. With hedge_on_per_try_timeout one would go after per_try_timeout and retry_back_off, up to %s more, " +
				"and no attempt would end before the call",
			args: func(c *call) []any {
				return []any{c.p.Hedge.Max, hedgeDelay(c.p.Hedge), spell(cmp.Or(c.comes.Retry.Backoff.Base, 25*time.Millisecond))}
			}},
	}, lists("retry_policy.retry_on", envoyRetry), shares("circuit_breakers.thresholds[].retry_budget", envoyLimits, 0),
		[]Mapping{
			{ID: "in a row", Key: "breaker.consecutive", Target: "outlier_detection.consecutive_5xx", Fate: foreign.Nearly, Source: envoyOutlier, when: inRow, set: eject,
				Text: "failures are counted for each host, and the host is left out; the panic threshold is off, so where all are out calls end with 503"},
			{ID: "in a row", Key: "breaker.open", Target: "outlier_detection.base_ejection_time", Source: envoyOutlier, when: inRow},
			{ID: "in a row", Key: "breaker.open_max", Target: "outlier_detection.max_ejection_time", Source: envoyOutlier, when: inRow},
			{ID: "off", Key: "bulkhead.off", Target: "circuit_breakers.thresholds[].max_requests", Source: envoyLimits, when: func(c *call) bool { return c.p.Bulkhead.Off }},
			breakerRest(envoyOutlier, outlierRest),
		}, limits("circuit_breakers.thresholds[].max_requests", envoyLimits))
	return &Format{
		Name: "envoy", Title: "Envoy: RouteConfiguration and Cluster", Comment: "# ", write: envoyText,
		Mappings: losses("envoy", envoyAPI, own, "timeout.call", "timeout.idle", "retry.budget", "bulkhead", "hedge"),
		Note:     "The cluster has no endpoints: give it those of your own.",
	}
}

func envoyText(c *call) string {
	name, p := c.Name, c.comes
	route := func(retryOn string, methods string) object {
		match := of("prefix", "/")
		if methods != "" {
			match = of("prefix", "/", "headers", list{of("name", ":method", "string_match", of("safe_regex", of("regex", methods)))})
		}
		return of("match", match, "route", of("cluster", name, "timeout", seconds(max(p.Timeout.Call, 0)), "idle_timeout", seconds(max(p.Timeout.Idle, 0)), "retry_policy", unless(p.Retry.Attempts < 2, envoyRetries(p, retryOn))))
	}
	all := slices.Concat([]string{"connect-failure", "refused-stream", "reset", "retriable-status-codes"}, repeated(p))
	routes := list{route(strings.Join(all, ","), "")}
	if unsafe(c) {
		routes = list{route(strings.Join(all, ","), "GET|HEAD|OPTIONS"), route(unsent, "")}
	}
	return yaml(of("resources", list{
		of("@type", "type.googleapis.com/envoy.config.route.v3.RouteConfiguration", "name", name,
			"virtual_hosts", list{of("name", name, "domains", list{c.Host}, "routes", routes)}),
		envoyCluster(c),
	}))
}

func envoyRetries(p policy.Policy, retryOn string) object {
	o := of("retry_on", retryOn, "num_retries", p.Retry.Attempts-1)
	if retryOn != unsent {
		o = append(o, of("per_try_timeout", unless(p.Timeout.Attempt <= 0, seconds(p.Timeout.Attempt)))...)
		var codes list
		for _, code := range transient(p) {
			codes = append(codes, code)
		}
		o = append(o, of("retriable_status_codes", codes)...)
	}
	b := p.Retry.Backoff
	o = append(o, pair{"retry_back_off", of("base_interval", seconds(b.Base), "max_interval", seconds(b.Cap))})
	if p.Retry.MaxAfter > 0 && retryOn != unsent {
		o = append(o, pair{"rate_limited_retry_back_off", of("reset_headers", list{of("name", "Retry-After", "format", "SECONDS")}, "max_interval", seconds(p.Retry.MaxAfter))})
	}
	return o
}

func envoyCluster(c *call) object {
	p := c.comes
	limits := of("max_requests", unlimited)
	if !p.Bulkhead.Off {
		limits = of("max_requests", p.Bulkhead.Limit)
	}
	switch {
	case p.Retry.Attempts < 2: // the default is never reached
	case p.Retry.Budget.Off:
		limits = append(limits, pair{"max_retries", unlimited})
	default:
		limits = append(limits, pair{"retry_budget", of("budget_percent", of("value", percent(p.Retry.Budget.Ratio)), "min_retry_concurrency", max(p.Retry.Budget.MinInFlight, 0))})
	}
	var outlier, balancing object
	if !p.Breaker.Off {
		outlier = of("consecutive_5xx", p.Breaker.Consecutive, "base_ejection_time", seconds(p.Breaker.Open),
			"max_ejection_time", seconds(max(p.Breaker.OpenMax, p.Breaker.Open)), "max_ejection_percent", 100)
		balancing = of("healthy_panic_threshold", of("value", 0)) // above 0 a service that fails as a whole would keep its load
	}
	connect := 5 * time.Second // Envoy's default, which its files need to say
	return of("@type", "type.googleapis.com/envoy.config.cluster.v3.Cluster", "name", c.Name, "type", "EDS",
		"eds_cluster_config", of("eds_config", object{{"ads", object{}}, {"resource_api_version", "V3"}}), "connect_timeout", seconds(connect),
		"circuit_breakers", of("thresholds", list{limits}), "outlier_detection", outlier, "common_lb_config", balancing)
}
