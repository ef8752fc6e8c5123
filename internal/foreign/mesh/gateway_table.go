package mesh

import (
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/gabion-go/gabion/internal/foreign"
)

// The documents that say what the Gateway API's keys mean, as of v1.5.
const (
	gatewayRoute   = "https://gateway-api.sigs.k8s.io/reference/spec/#httproute"
	gatewayTimes   = "https://gateway-api.sigs.k8s.io/geps/gep-1742/"
	gatewayRetry   = "https://gateway-api.sigs.k8s.io/geps/gep-1731/"
	gatewayBudget  = "https://gateway-api.sigs.k8s.io/geps/gep-3388/"
	gatewayBackend = "https://gateway-api.sigs.k8s.io/geps/gep-713/"
)

var gatewayForm = regexp.MustCompile(`^([0-9]{1,5}(h|m|s|ms)){1,4}$`)

// gatewaySpan takes a time of GEP-2257: at most four whole numbers with a unit.
func gatewaySpan(v *foreign.Value) (reason, proposal string) {
	if reason, proposal = foreign.GoSpan(v); reason == "" && !gatewayForm.MatchString(v.Tree.Text) {
		return strconv.Quote(short(v.Tree.Text)) + " is not written as the Gateway API writes times", "write whole numbers with h, m, s or ms, such as 1s500ms"
	}
	return reason, proposal
}

var httpRoute = foreign.NewTable(ignored, nil, object, gatewayRules(slices.Concat(
	foreign.Sourced(gatewayTimes, []foreign.Rule{
		{Key: "spec.rules[].timeouts.request", Shape: gatewaySpan, Fate: foreign.Kept, To: "timeout.call"},
		{Key: "spec.rules[].timeouts.backendRequest", Shape: gatewaySpan, Fate: foreign.Kept, To: "timeout.attempt"},
	}),
	foreign.Sourced(gatewayRetry, []foreign.Rule{
		{Key: "spec.rules[].retry.attempts", Shape: foreign.Whole(0, 1<<31-1), Fate: foreign.Kept, To: "retry.attempts", Text: "{} retries after the first attempt"},
		{Key: "spec.rules[].retry.codes[]", Shape: foreign.Whole(400, 599), Fate: foreign.Nearly, To: "http.transient", Text: "{} is repeated"},
		{Key: "spec.rules[].retry.backoff", Shape: gatewaySpan, Fate: foreign.Nearly, To: "retry.backoff.base", Text: "at least {} there; here between 0 and {} before the first retry, full jitter, then doubled, as Envoy does"},
	}),
)))

var grpcRoute = foreign.NewTable(ignored, nil, object, gatewayRules(nil))

// gatewayRules are those of HTTPRoute and GRPCRoute.
func gatewayRules(more []foreign.Rule) []foreign.Rule {
	return foreign.Sourced(gatewayRoute, slices.Concat([]foreign.Rule{
		{Key: "spec.rules[].name", Shape: foreign.Word, Fate: foreign.Elsewhere, Text: "it names the dependency"},
		{Key: "spec.rules[].backendRefs[].name", Shape: foreign.Word, Fate: foreign.Elsewhere, Text: "it finds the XBackendTrafficPolicy"},
		{Key: "spec.rules[].backendRefs[].kind", Shape: foreign.Word, Fate: foreign.Elsewhere, Text: "it finds the XBackendTrafficPolicy"},
	}, more, foreign.Stays(notFailing, "spec.parentRefs", "spec.hostnames", "spec.useDefaultGateways", "spec.rules[].matches", "spec.rules[].filters", "spec.rules[].sessionPersistence",
		"spec.rules[].backendRefs[].group", "spec.rules[].backendRefs[].namespace", "spec.rules[].backendRefs[].port", "spec.rules[].backendRefs[].weight", "spec.rules[].backendRefs[].filters")))
}

var backendTraffic = foreign.NewTable(ignored, nil, object, foreign.Sourced(gatewayBudget, slices.Concat([]foreign.Rule{
	{Key: "spec.targetRefs[].name", Shape: foreign.Word, Fate: foreign.Elsewhere, Text: "it finds the routes"},
	{Key: "spec.targetRefs[].kind", Shape: foreign.Word, Fate: foreign.Elsewhere, Text: "it finds the routes"},
	{Key: "spec.targetRefs[].group", Shape: foreign.Word, Fate: foreign.Elsewhere, Text: "it finds the routes"},
	{Key: "spec.retryConstraint.budget.percent", Shape: percent, Fate: foreign.Nearly, To: "retry.budget.ratio", Text: "{} % of the requests may be retries, for each gateway; here for each process"},
	{Key: "spec.retryConstraint.budget.interval", Shape: foreign.SpanWithin(gatewaySpan, time.Second, time.Hour), Fate: foreign.Kept, To: "retry.budget.window"},
	{Key: "spec.retryConstraint.minRetryRate.count", Shape: foreign.Whole(1, 1000000), Fate: foreign.Nearly, To: "retry.budget.floor", Text: "{} retries in minRetryRate.interval are always allowed, for each gateway; here for each process, as a rate per second"},
	{Key: "spec.retryConstraint.minRetryRate.interval", Shape: foreign.SpanWithin(gatewaySpan, time.Second, time.Hour), Fate: foreign.Nearly, To: "retry.budget.floor", Text: "{} is the time of minRetryRate.count; here it is a rate per second"},
}, foreign.Stays(notFailing, "spec.sessionPersistence"))))
