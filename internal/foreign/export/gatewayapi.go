package export

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gabion-go/gabion/internal/foreign"
	"github.com/gabion-go/gabion/policy"
)

const (
	gatewayGEPs   = "https://gateway-api.sigs.k8s.io/geps/"
	gatewayTimes  = gatewayGEPs + "gep-1742/"
	gatewayRetry  = gatewayGEPs + "gep-1731/"
	gatewayBudget = gatewayGEPs + "gep-3388/"
)

const readsAlone = "only GET, HEAD and OPTIONS are repeated: the work isn't declared safe, and a proxy can't tell. Here all is repeated that " +
	"carries a key or provably never left"

func gatewayAPI() *Format {
	fits := func(c *call) bool {
		b := c.p.Retry.Budget
		return shaped(policy.BudgetWindow)(c) && b.Ratio == roundRatio(float64(b.Ratio), 100) && b.Floor > 0 && float64(b.Floor) == math.Trunc(float64(b.Floor)) &&
			b.Window >= time.Second && b.Window == inMillis(b.Window) && b.Window <= time.Hour
	}
	own := slices.Concat([]Mapping{
		{ID: "bounded", Key: "timeout.call", Target: "rules[].timeouts.request", Source: gatewayTimes, when: callBounded},
		{ID: "bounded", Key: "timeout.attempt", Target: "rules[].timeouts.backendRequest", Source: gatewayTimes, when: attemptBounded},
		{ID: "several", Key: "retry.attempts", Target: "rules[].retry.attempts", Source: gatewayRetry, when: retries},
		{ID: "one", Key: "retry.attempts", Source: gatewayRetry, when: noRetries},
		{ID: "reads only", Key: "safe", Target: "rules[].matches[].method", Fate: foreign.Nearly, Source: gatewayRetry, when: unsafe, set: func(*call) {}, Text: readsAlone},
		shape(Mapping{ID: "the first wait", Target: "rules[].retry.backoff", Source: gatewayRetry, when: retries, set: tenfold,
			Text: "%s bounds the first wait; how waits grow is the implementation's, with Envoy up to %s; here %s"}),
		statuses(gatewayRetry),
		{ID: "a share of calls", Key: "retry.budget", Target: "retryConstraint", Source: gatewayBudget, when: fits},
		{ID: "another", Key: "retry.budget", Target: "retryConstraint", Fate: foreign.Nearly, Source: gatewayBudget, when: both(budgeted, not(fits)),
			set: func(c *call) {
				toWindow(c)
				b := &c.comes.Retry.Budget
				b.Floor = policy.PerSecond(max(math.Round(float64(b.Floor)), 1))
			},
			Text: "at most %s %% of the calls of %s are retries, and %s a second go in any case; in an outage the load is %s×, and here %s",
			args: func(c *call) []any {
				b := c.comes.Retry.Budget
				return []any{number(percent(b.Ratio)), spell(b.Window), number(float64(b.Floor)), times(1 + extra(b)), outage(c.p.Retry.Budget)}
			}},
		noBudget(gatewayBudget, retries),
	}, statusLists("rules[].retry.codes", gatewayRetry, retries))
	return &Format{
		Name: "gateway-api", Title: "Gateway API: HTTPRoute and XBackendTrafficPolicy", Comment: "# ", write: gatewayText,
		Mappings: losses("gateway-api", gatewayGEPs, own, "timeout.call", "retry.budget"),
		Note:     "retry and XBackendTrafficPolicy are experimental: look up whether your implementation has them.",
	}
}

// place is where a host is in Kubernetes.
type place struct {
	name, namespace string
	port            int
}

// placeOf reads a host such as stock, stock.shop or stock.shop.svc.cluster.local:8080.
func placeOf(host string) place {
	name, port := hostPort(host)
	port = cmp.Or(port, 80)
	p := place{name: name, port: port}
	if first, rest, dotted := strings.Cut(name, "."); dotted {
		second, rest, more := strings.Cut(rest, ".")
		if !more || rest == "svc" || strings.HasPrefix(rest, "svc.") {
			p.name, p.namespace = first, second
		}
	}
	p.name = objectName(p.name)
	return p
}

// hostPort parts a host from its port; 0 where it has none.
func hostPort(host string) (name string, port int) {
	name, text, found := strings.Cut(host, ":")
	if port, err := strconv.Atoi(text); found && err == nil {
		return name, port
	}
	return host, 0
}

func (p place) parent() object {
	return object{{"group", ""}, {"kind", "Service"}, {"name", p.name}, {"port", p.port}}
}

func (p place) metadata(name string, annotations object) object {
	return of("name", name, "namespace", unless(p.namespace == "", p.namespace), "annotations", annotations)
}

// methods match reads.
func methods() (l list) {
	for _, m := range []string{"GET", "HEAD", "OPTIONS"} {
		l = append(l, of("method", m))
	}
	return l
}

func gatewayText(c *call) string {
	p, at, name := c.comes, placeOf(c.Host), objectName(c.Name)
	backend := list{of("name", at.name, "port", at.port)}
	rule := func(matches list, again bool) object {
		var retry object
		if again && p.Retry.Attempts > 1 {
			var codes list
			for _, code := range transient(p) {
				codes = append(codes, code)
			}
			retry = of("codes", codes, "attempts", p.Retry.Attempts-1, "backoff", units(p.Retry.Backoff.Base))
		}
		return of("matches", matches, "timeouts", of("request", unless(p.Timeout.Call <= 0, units(p.Timeout.Call)),
			"backendRequest", unless(p.Timeout.Attempt <= 0 || !again, units(p.Timeout.Attempt))), "retry", retry, "backendRefs", backend)
	}
	rules := list{rule(nil, true)}
	if unsafe(c) {
		rules = list{rule(methods(), true), rule(nil, false)}
	}
	route := of("apiVersion", "gateway.networking.k8s.io/v1", "kind", "HTTPRoute", "metadata", at.metadata(name, nil),
		"spec", of("parentRefs", list{at.parent()}, "rules", rules))
	b := p.Retry.Budget
	if p.Retry.Attempts < 2 || b.Off {
		return yaml(route)
	}
	count, per := int(b.Floor), "1s"
	return yaml(route, of("apiVersion", "gateway.networking.x-k8s.io/v1alpha1", "kind", "XBackendTrafficPolicy", "metadata", at.metadata(name, nil),
		"spec", of("targetRefs", list{object{{"group", ""}, {"kind", "Service"}, {"name", at.name}}},
			"retryConstraint", of("budget", of("percent", int(math.Round(float64(max(b.Ratio, 0))*100)), "interval", units(b.Window)),
				"minRetryRate", of("count", count, "interval", per)))))
}
