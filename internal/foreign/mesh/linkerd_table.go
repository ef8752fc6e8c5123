package mesh

import (
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gabion-go/gabion/internal/foreign"
	"github.com/gabion-go/gabion/internal/yamlstrict"
)

// The documents that say what Linkerd's keys mean, as of 2.18.
const (
	linkerdRetries  = "https://linkerd.io/2/reference/retries/"
	linkerdTimeouts = "https://linkerd.io/2/reference/timeouts/"
	linkerdBreaking = "https://linkerd.io/2/reference/circuit-breaking/"
	linkerdProfiles = "https://linkerd.io/2/reference/service-profiles/"

	// What the pages do not say was read in the sources. Which answers a route repeats, and which a ServiceProfile:
	// https://github.com/linkerd/linkerd2-proxy/blob/main/linkerd/app/outbound/src/http/logical/policy/route/retry.rs
	// https://github.com/linkerd/linkerd2-proxy/blob/main/linkerd/app/core/src/classify.rs
	// That an annotation counts before the timeout of a rule, and the defaults of breakers:
	// https://github.com/linkerd/linkerd2/blob/main/policy-controller/k8s/index/src/outbound/index/http.rs
	// https://github.com/linkerd/linkerd2/blob/main/policy-controller/k8s/index/src/outbound/index.rs
	// A ServiceProfile's budget, and that a route has no timeout of its own, though pages before 2.13 say 10s:
	// https://github.com/linkerd/linkerd2/blob/main/controller/api/destination/profile_translator.go
)

// annotation takes a text, as all annotations are, and reads it by a shape.
func annotation(shape foreign.Shape) foreign.Shape {
	return func(v *foreign.Value) (reason, proposal string) {
		if wrong, _ := foreign.Word(v); wrong != "" {
			return "an annotation is a text, not " + short(v.Tree.Text) + ": the cluster refuses it", proposal
		}
		return shape(v)
	}
}

var linkerdForm = regexp.MustCompile(`^([0-9]{1,9})(ms|s|m|h|d)?$`)

// linkerdSpan takes one whole number with a unit, days included.
func linkerdSpan(v *foreign.Value) (reason, proposal string) {
	if v.Tree.Kind != yamlstrict.Text {
		return foreign.GoSpan(v)
	}
	if m := linkerdForm.FindStringSubmatch(v.Tree.Text); m != nil && m[2] == "d" {
		n, _ := strconv.Atoi(m[1])
		v.Span = time.Duration(min(n, 100000)) * 24 * time.Hour
		return "", ""
	} else if m != nil && m[2] == "" && m[1] != "0" {
		return m[1] + " has no unit", "write " + m[1] + "ms or " + m[1] + "s"
	}
	if reason, proposal = foreign.GoSpan(v); reason == "" && !linkerdForm.MatchString(v.Tree.Text) {
		return strconv.Quote(short(v.Tree.Text)) + " is not written as Linkerd writes times", "write one whole number with ms, s, m, h or d"
	}
	return reason, proposal
}

// anySpan is linkerdSpan in an annotation.
func anySpan(v *foreign.Value) (reason, proposal string) {
	if wrong, _ := foreign.Word(v); wrong != "" {
		return "an annotation is a text, not " + short(v.Tree.Text) + ": the cluster refuses it", `write one with a unit, such as "300ms"`
	}
	return linkerdSpan(v)
}

// Of an endpoint, which Linkerd's breaker is of.
const anEndpoint = "Linkerd takes one endpoint out; here the breaker is of the whole dependency, or of each endpoint that endpoints.list names"

const accrual = "balancer.linkerd.io/failure-accrual-consecutive-"

// annotationRules are those of Linkerd's annotations. Their keys are whole names.
var annotationRules = slices.Concat(
	foreign.Sourced(linkerdRetries, []foreign.Rule{
		{Key: "retry.linkerd.io/http", Shape: annotation(foreign.Commas), Fate: foreign.Nearly, To: "http.transient"},
		{Key: "retry.linkerd.io/grpc", Shape: annotation(foreign.Commas), Fate: foreign.Nearly, To: "grpc.transient"},
		{Key: "retry.linkerd.io/limit", Shape: annotation(foreign.Loosely(foreign.Whole(0, math.MaxUint16))), Fate: foreign.Kept, To: "retry.attempts", Text: "{} retries after the first attempt"},
		{Key: "retry.linkerd.io/timeout", Shape: anySpan, Fate: foreign.Kept, To: "timeout.attempt"},
	}),
	foreign.Sourced(linkerdTimeouts, []foreign.Rule{
		{Key: "timeout.linkerd.io/request", Shape: anySpan, Fate: foreign.Nearly, To: "timeout.call", Text: "{} for the request and its answer with the body; here for the call until the answer's headers"},
		{Key: "timeout.linkerd.io/response", Shape: anySpan, Fate: foreign.Nearly, To: "timeout.body", Text: "{} for the answer, from the request's end on; here for its body, from its headers on"},
		{Key: "timeout.linkerd.io/idle", Shape: anySpan, Fate: foreign.Nearly, To: "timeout.idle", Text: "a stream may bring nothing for {}; " + streams},
	}),
	foreign.Sourced(linkerdBreaking, []foreign.Rule{
		{Key: "balancer.linkerd.io/failure-accrual", Shape: annotation(foreign.OneOf("consecutive")), Fate: foreign.Nearly, Text: "failures in a row, of answers with 5xx; here also of broken connections and timeouts"},
		{Key: accrual + "max-failures", Shape: annotation(foreign.Loosely(foreign.Whole(0, math.MaxUint32))), Fate: foreign.Nearly, To: "breaker.consecutive", Text: "{} failures in a row: " + anEndpoint},
		{Key: accrual + "min-penalty", Shape: anySpan, Fate: foreign.Kept, To: "breaker.open"},
		{Key: accrual + "max-penalty", Shape: anySpan, Fate: foreign.Kept, To: "breaker.open_max"},
		{Key: accrual + "jitter-ratio", Shape: annotation(foreign.Loosely(foreign.Decimal(0, 100))), Fate: foreign.Nearly, To: "breaker.open_jitter", Text: "there it shortens or lengthens a wait by up to {} of it, here it lengthens it"},
	}),
	foreign.Stays(notFailing, "*"),
)

// linkerdObject is what objects have whose annotations are read one by one.
var linkerdObject = slices.Concat(object, []foreign.Rule{{Key: "metadata.annotations", Fate: foreign.Elsewhere, Text: "each is judged by itself"}})

var linkerdProfileRules = foreign.Sourced(linkerdProfiles, slices.Concat([]foreign.Rule{
	{Key: "spec.retryBudget.retryRatio", Shape: foreign.Decimal(0, math.MaxFloat32), Fate: foreign.Nearly, To: "retry.budget.ratio", Text: "{} retries for each request, for each proxy; here for each process"},
	{Key: "spec.retryBudget.minRetriesPerSecond", Shape: count, Fate: foreign.Nearly, To: "retry.budget.floor", Text: "{} retries per second are always allowed, for each proxy; here for each process"},
	{Key: "spec.retryBudget.ttl", Shape: linkerdSpan, Fate: foreign.Kept, To: "retry.budget.window"},
	{Key: "spec.routes[].name", Shape: foreign.Word, Fate: foreign.Elsewhere, Text: "it names the dependency"},
	{Key: "spec.routes[].isRetryable", Shape: foreign.Flag, Fate: foreign.Nearly, To: "retry.attempts", Text: "as often as the budget and the timeout allow; here at most 9 retries after the first attempt"},
	{Key: "spec.routes[].timeout", Shape: linkerdSpan, Fate: foreign.Kept, To: "timeout.call"},
	{Key: "spec.routes[].responseClasses", Fate: foreign.Lost, Text: "here 408, 429, 502, 503, 504 and broken connections are repeated: http.transient and http.permanent say it of other statuses"},
}, foreign.Stays(notFailing, "spec.routes[].condition", "spec.dstOverrides", "spec.opaquePorts")))

// The tables of what Linkerd reads.
var (
	linkerdAnnotations = foreign.NewTable(ignored, strings.ToLower, annotationRules)
	linkerdService     = foreign.NewTable(ignored, nil, linkerdObject, foreign.Stays(notFailing, "spec"))
	linkerdHTTP        = foreign.NewTable(ignored, nil, linkerdObject, httpRoute.Rules[len(object):])
	linkerdGRPC        = foreign.NewTable(ignored, nil, linkerdObject, grpcRoute.Rules[len(object):])
	linkerdProfile     = foreign.NewTable(ignored, nil, linkerdObject, linkerdProfileRules)
)
