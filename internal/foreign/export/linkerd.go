package export

import (
	"slices"
	"strings"

	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/internal/foreign"
	"github.com/gabion-go/gabion/policy"
)

const (
	linkerdBook    = "https://linkerd.io/2/reference/"
	linkerdRetry   = linkerdBook + "retries/"
	linkerdTimes   = linkerdBook + "timeouts/"
	linkerdBreaker = linkerdBook + "circuit-breaking/"
)

func linkerd() *Format {
	own := slices.Concat([]Mapping{
		{ID: "bounded", Key: "timeout.call", Target: "timeout.linkerd.io/request", Source: linkerdTimes, when: callBounded},
		{ID: "bounded", Key: "timeout.attempt", Target: "retry.linkerd.io/timeout", Source: linkerdRetry, when: attemptBounded},
		{ID: "bounded", Key: "timeout.idle", Target: "timeout.linkerd.io/idle", Fate: foreign.Nearly, Source: linkerdTimes, when: silence, set: idle, Text: idleText, args: idleArgs},
		{ID: "several", Key: "retry.attempts", Target: "retry.linkerd.io/limit", Source: linkerdRetry, when: retries},
		{ID: "one", Key: "retry.attempts", Source: linkerdRetry, when: noRetries},
		{ID: "reads only", Key: "safe", Target: "rules[].matches[].method", Fate: foreign.Nearly, Source: linkerdRetry, when: unsafe, set: func(*call) {}, Text: readsAlone},
		{ID: "at once", Key: "retry.backoff", Fate: foreign.Lost, Source: linkerdRetry, when: retries, set: func(c *call) { c.comes.Retry.Backoff = backoff.Const(0) },
			Text: "a retry goes at once; here %s", args: func(c *call) []any { return []any{waits(c.p.Retry.Backoff)} }},
		statuses(linkerdRetry),
	}, linkerdLists(),
		[]Mapping{
			noBudget(linkerdRetry, retries),
			{ID: "in a row", Key: "breaker.consecutive", Target: "balancer.linkerd.io/failure-accrual-consecutive-max-failures", Fate: foreign.Nearly, Source: linkerdBreaker, when: inRow, set: accrue,
				Text: "failures are counted for each pod, and the pod is left out; only statuses from 500 on count"},
			{ID: "in a row", Key: "breaker.open", Target: "balancer.linkerd.io/failure-accrual-consecutive-min-penalty", Source: linkerdBreaker, when: inRow},
			{ID: "in a row", Key: "breaker.open_max", Target: "balancer.linkerd.io/failure-accrual-consecutive-max-penalty", Source: linkerdBreaker, when: inRow},
			{ID: "in a row", Key: "breaker.open_jitter", Target: "balancer.linkerd.io/failure-accrual-consecutive-jitter-ratio", Source: linkerdBreaker, when: inRow},
			breakerRest(linkerdBreaker, "it has no rule of a failure rate or of slow answers, and one request after the penalty decides"),
		})
	return &Format{
		Name: "linkerd", Title: "Linkerd: annotations of HTTPRoutes and Services", Comment: "# ", write: linkerdText,
		Mappings: losses("linkerd", linkerdBook, own, "timeout.call", "timeout.idle"),
		Note:     "The Service is a part of one: kubectl apply --server-side adds its annotations to yours. A ServiceProfile of the same host switches the retries of these annotations off.",
	}
}

// accrue makes a breaker of Linkerd's failure accrual.
func accrue(c *call) {
	b := inRowOnly(c)
	b.OpenGrowth, b.CloseAfter = 2, 1
	c.comes.Breaker = b
}

// linkerdText writes annotations of the Service. Where only reads are repeated they are those of two
// HTTPRoutes: a route's own take the place of the Service's.
func linkerdText(c *call) string {
	p, at, name := c.comes, placeOf(c.Host), objectName(c.Name)
	times := of("timeout.linkerd.io/request", unless(p.Timeout.Call <= 0, oneUnit(p.Timeout.Call)), "timeout.linkerd.io/idle", unless(p.Timeout.Idle <= 0, oneUnit(p.Timeout.Idle)))
	again := of("retry.linkerd.io/limit", number(float64(p.Retry.Attempts-1)), "retry.linkerd.io/timeout", unless(p.Timeout.Attempt <= 0, oneUnit(p.Timeout.Attempt)),
		"retry.linkerd.io/http", unless(len(transient(p)) == 0, numbers(transient(p))))
	accrual := linkerdAccrual(p.Breaker)
	service := func(notes ...object) object {
		return of("apiVersion", "v1", "kind", "Service", "metadata", at.metadata(at.name, slices.Concat(notes...)))
	}
	switch {
	case p.Retry.Attempts < 2:
		return yaml(service(times, accrual))
	case !unsafe(c):
		return yaml(service(times, again, of("retry.linkerd.io/grpc", unless(len(repeated(p)) == 0, strings.Join(repeated(p), ","))), accrual))
	}
	route := func(name string, matches list, notes object) object {
		rule := of("matches", matches, "backendRefs", list{of("name", at.name, "port", at.port)})
		return of("apiVersion", "gateway.networking.k8s.io/v1", "kind", "HTTPRoute", "metadata", at.metadata(name, notes),
			"spec", of("parentRefs", list{at.parent()}, "rules", list{rule}))
	}
	routes := []object{route(name+"-reads", methods(), slices.Concat(times, again)), route(name, nil, times)}
	if len(accrual) > 0 {
		routes = append(routes, service(accrual))
	}
	return yaml(routes...)
}

func linkerdAccrual(b policy.Breaker) object {
	const accrual = "balancer.linkerd.io/failure-accrual"
	if b.Off {
		return nil
	}
	return of(accrual, "consecutive", accrual+"-consecutive-max-failures", number(float64(b.Consecutive)), accrual+"-consecutive-min-penalty", oneUnit(b.Open),
		accrual+"-consecutive-max-penalty", oneUnit(max(b.OpenMax, b.Open)), accrual+"-consecutive-jitter-ratio", number(float64(max(b.OpenJitter, 0))))
}

// linkerdLists are those of Envoy. A route of HTTP has no conditions of gRPC, and gRPC's calls are no reads.
func linkerdLists() []Mapping {
	all := lists("retry.linkerd.io/http and /grpc", linkerdRetry)
	for i, m := range all {
		if strings.HasPrefix(m.Key, "grpc.") {
			all[i].when = both(m.when, func(c *call) bool { return c.p.Safe })
		}
	}
	return all
}
