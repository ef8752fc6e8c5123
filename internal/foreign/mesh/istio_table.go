package mesh

import (
	"math"
	"slices"
	"time"

	"github.com/gabion-go/gabion/internal/foreign"
)

// The documents that say what Istio's keys mean, as of Istio 1.30.
const (
	istioVirtual     = "https://istio.io/latest/docs/reference/config/networking/virtual-service/"
	istioRetry       = istioVirtual + "#HTTPRetry"
	istioDestination = "https://istio.io/latest/docs/reference/config/networking/destination-rule/"
	istioPool        = istioDestination + "#ConnectionPoolSettings-HTTPSettings"
	istioTCP         = istioDestination + "#ConnectionPoolSettings-TCPSettings"
	istioOutlier     = istioDestination + "#OutlierDetection"
	istioBudget      = istioDestination + "#TrafficPolicy-RetryBudget"

	// The list without retryOn, and which DestinationRule counts, were read in Istio's sources:
	// https://github.com/istio/istio/blob/master/pilot/pkg/networking/core/route/retry/retry.go
	// https://github.com/istio/istio/blob/master/pilot/pkg/model/push_context.go
	// https://github.com/istio/istio/blob/master/pilot/pkg/model/destination_rule.go
)

const (
	notFailing = "it is not about calls that fail, and stays the mesh's"
	connection = "it is about connections, and stays the mesh's"
	byHosts    = "it compares hosts; a policy's breaker counts the calls of the dependency"
	ignored    = "the cluster's schema drops keys that it does not know"
	aHost      = "the mesh takes one host out; here the breaker is of the whole dependency, or of each endpoint that endpoints.list names"
)

var (
	count   = foreign.Whole(0, math.MaxUint32)
	count31 = foreign.Whole(0, math.MaxInt32)
	percent = foreign.Whole(0, 100)
	istioMS = foreign.SpanWithin(foreign.GoSpan, time.Millisecond, math.MaxInt64)
)

// object is what all Kubernetes objects have.
var object = slices.Concat(
	[]foreign.Rule{
		{Key: "apiVersion", Shape: foreign.Word, Fate: foreign.Elsewhere, Text: notFailing},
		{Key: "kind", Shape: foreign.Word, Fate: foreign.Elsewhere, Text: notFailing},
		{Key: "metadata.name", Shape: foreign.Word, Fate: foreign.Elsewhere, Text: "it names the dependency"},
		{Key: "metadata.namespace", Shape: foreign.Word, Fate: foreign.Elsewhere, Text: "it tells hosts of the same name apart"},
	},
	foreign.Stays(notFailing, "metadata.*", "status"),
)

var istioVirtualService = foreign.NewTable(ignored, nil, object, foreign.Sourced(istioVirtual, slices.Concat(
	[]foreign.Rule{
		{Key: "spec.hosts[]", Shape: foreign.Word, Fate: foreign.Elsewhere, Text: notFailing},
		{Key: "spec.http[].name", Shape: foreign.Word, Fate: foreign.Elsewhere, Text: "it names the dependency"},
		{Key: "spec.http[].route[].destination.host", Shape: foreign.Word, Fate: foreign.Elsewhere, Text: "it finds the DestinationRule"},
		{Key: "spec.http[].route[].destination.subset", Shape: foreign.Word, Fate: foreign.Elsewhere, Text: "it finds the DestinationRule's subset"},
		{Key: "spec.http[].route[].destination.port.number", Shape: foreign.Whole(0, 65535), Fate: foreign.Elsewhere, Text: "it finds the DestinationRule's port"},
		{Key: "spec.http[].timeout", Shape: foreign.GoSpan, Fate: foreign.Kept, To: "timeout.call", Source: istioVirtual + "#HTTPRoute"},
		{Key: "spec.http[].retries.attempts", Shape: count31, Fate: foreign.Kept, To: "retry.attempts", Text: "{} retries after the first attempt", Source: istioRetry},
		{Key: "spec.http[].retries.perTryTimeout", Shape: istioMS, Fate: foreign.Kept, To: "timeout.attempt", Source: istioRetry},
		{Key: "spec.http[].retries.retryOn", Shape: foreign.Commas, Fate: foreign.Nearly, To: "http.transient", Source: istioRetry},
		{Key: "spec.http[].retries.backoff", Shape: istioMS, Fate: foreign.Nearly, To: "retry.backoff.base", Text: "{} doubled up to ten times itself, full jitter, as Envoy does; here the first wait is up to {}, there as well", Source: istioRetry},
		{Key: "spec.http[].retries.retryRemoteLocalities", Shape: foreign.Flag, Fate: foreign.Lost, Text: "retries stay with the endpoint or go on by endpoints.list; localities are the mesh's", Source: istioRetry},
		{Key: "spec.http[].retries.retryIgnorePreviousHosts", Shape: foreign.Flag, Fate: foreign.Lost, Text: "a retry goes to where the balancer sends it, which with n hosts is the same one in 1 of n; with endpoints.list it goes elsewhere", Source: istioRetry},
	},
	foreign.Stays(notFailing, "spec.gateways", "spec.tls", "spec.tcp", "spec.exportTo", "spec.http[].match", "spec.http[].redirect", "spec.http[].directResponse",
		"spec.http[].delegate", "spec.http[].rewrite", "spec.http[].mirror", "spec.http[].mirrors", "spec.http[].mirrorPercent", "spec.http[].mirror_percent", "spec.http[].mirrorPercentage",
		"spec.http[].corsPolicy", "spec.http[].headers", "spec.http[].route[].weight", "spec.http[].route[].headers"),
	foreign.Stays("it makes calls fail on purpose; gabion's lab does that to a policy", "spec.http[].fault"),
)))

// traffic are the rules of a trafficPolicy.
var traffic = slices.Concat(
	foreign.Sourced(istioPool, []foreign.Rule{
		{Key: "connectionPool.http.http1MaxPendingRequests", Shape: count31, Fate: foreign.Nearly, To: "bulkhead.queue", Text: "{} requests wait for a connection there until their timeout; here as many wait for a slot, at most 1s"},
		{Key: "connectionPool.http.http2MaxRequests", Shape: count31, Fate: foreign.Nearly, To: "bulkhead.limit", Text: "{} requests at once for each proxy; here for each process, and further ones wait in the queue where the mesh refuses them"},
		{Key: "connectionPool.http.maxRetries", Shape: count31, Fate: foreign.Nearly, To: "retry.budget.min_in_flight", Text: "{} retries at once for each proxy; here for each process, and a retry counts while it waits, too"},
		{Key: "connectionPool.http.idleTimeout", Shape: foreign.GoSpan, Fate: foreign.Elsewhere, Text: connection},
		{Key: "connectionPool.http.maxRequestsPerConnection", Shape: count31, Fate: foreign.Elsewhere, Text: connection},
		{Key: "connectionPool.http.maxConcurrentStreams", Shape: count31, Fate: foreign.Elsewhere, Text: connection},
		{Key: "connectionPool.http.h2UpgradePolicy", Shape: foreign.OneOf("DEFAULT", "DO_NOT_UPGRADE", "UPGRADE"), Fate: foreign.Elsewhere, Text: connection},
		{Key: "connectionPool.http.useClientProtocol", Shape: foreign.Flag, Fate: foreign.Elsewhere, Text: connection},
	}),
	foreign.Sourced(istioTCP, []foreign.Rule{
		{Key: "connectionPool.tcp.maxConnections", Shape: count31, Fate: foreign.Nearly, To: "bulkhead.limit", Text: "{} connections are {} requests at once with HTTP/1.1, and more with HTTP/2; here it is {} requests"},
		{Key: "connectionPool.tcp.connectTimeout", Shape: istioMS, Fate: foreign.Lost, Text: "connecting has no time of its own here: an attempt that hangs in it takes its whole timeout.attempt"},
		{Key: "connectionPool.tcp.idleTimeout", Shape: foreign.GoSpan, Fate: foreign.Elsewhere, Text: connection},
		{Key: "connectionPool.tcp.maxConnectionDuration", Shape: istioMS, Fate: foreign.Elsewhere, Text: connection},
		{Key: "connectionPool.tcp.tcpKeepalive", Fate: foreign.Elsewhere, Text: connection},
	}),
	foreign.Sourced(istioOutlier, []foreign.Rule{
		{Key: "outlierDetection.consecutive5xxErrors", Shape: count, Fate: foreign.Nearly, To: "breaker.consecutive", Text: "{} failures in a row: " + aHost},
		{Key: "outlierDetection.consecutiveGatewayErrors", Shape: count, Fate: foreign.Nearly, To: "breaker.consecutive", Text: "{} of 502, 503 and 504 in a row; here all failures count: " + aHost},
		{Key: "outlierDetection.consecutiveErrors", Shape: count31, Fate: foreign.Nearly, To: "breaker.consecutive", Text: "the old name of consecutiveGatewayErrors. {} in a row: " + aHost},
		{Key: "outlierDetection.consecutiveLocalOriginFailures", Shape: count, Fate: foreign.Lost, Text: "failures to connect and answers count alike here, so {} is not told apart"},
		{Key: "outlierDetection.splitExternalLocalOriginErrors", Shape: foreign.Flag, Fate: foreign.Lost, Text: "failures to connect and answers count alike here"},
		{Key: "outlierDetection.interval", Shape: istioMS, Fate: foreign.Lost, Text: "each {} the mesh looks which hosts come back; here a breaker ends by itself when its time is over"},
		{Key: "outlierDetection.baseEjectionTime", Shape: istioMS, Fate: foreign.Nearly, To: "breaker.open", Text: "{} more with each ejection, at most 300s; here {}, then twice that, and one success ends it"},
		{Key: "outlierDetection.maxEjectionPercent", Shape: percent, Fate: foreign.Nearly, Text: "100 % of the hosts may be out, so a service that fails is left alone, as by a breaker"},
		{Key: "outlierDetection.minHealthPercent", Shape: percent, Fate: foreign.Lost, Text: "with fewer than {} % of the hosts healthy the mesh sends to all again, so that it does not leave a service alone that fails; here the breaker does"},
	}),
	foreign.Sourced(istioBudget, []foreign.Rule{
		{Key: "retryBudget.percent", Shape: foreign.Decimal(0, 100), Fate: foreign.Nearly, To: "retry.budget.ratio", Text: "{} % of the requests in flight may be retries, for each proxy; here for each process, and a retry counts while it waits, too"},
		{Key: "retryBudget.minRetryConcurrency", Shape: count, Fate: foreign.Kept, To: "retry.budget.min_in_flight"},
	}),
	foreign.Stays(notFailing, "loadBalancer", "tls", "tunnel", "proxyProtocol"),
)

var istioDestinationRule = foreign.NewTable(ignored, nil, object, foreign.Sourced(istioDestination, slices.Concat(
	[]foreign.Rule{
		{Key: "spec.host", Shape: foreign.Word, Fate: foreign.Elsewhere, Text: "it finds the routes to it"},
		{Key: "spec.subsets[].name", Shape: foreign.Word, Fate: foreign.Elsewhere, Text: "it finds the routes to it"},
		{Key: "spec.trafficPolicy.portLevelSettings[].port.number", Shape: foreign.Whole(0, 65535), Fate: foreign.Elsewhere, Text: "it finds the routes to it"},
		{Key: "spec.subsets[].trafficPolicy.portLevelSettings[].port.number", Shape: foreign.Whole(0, 65535), Fate: foreign.Elsewhere, Text: "it finds the routes to it"},
	},
	foreign.Under("spec.trafficPolicy", traffic),
	foreign.Under("spec.trafficPolicy.portLevelSettings[]", traffic),
	foreign.Under("spec.subsets[].trafficPolicy", traffic),
	foreign.Under("spec.subsets[].trafficPolicy.portLevelSettings[]", traffic),
	foreign.Stays(notFailing, "spec.subsets[].labels", "spec.exportTo", "spec.workloadSelector"),
)))
