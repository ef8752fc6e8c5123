package mesh

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/internal/foreign"
	"github.com/gabion-go/gabion/policy"
)

func format(t *testing.T, name string) foreign.Format {
	t.Helper()
	all := Formats()
	i := slices.IndexFunc(all, func(f foreign.Format) bool { return f.Name == name })
	if i < 0 {
		t.Fatal(name)
	}
	return all[i]
}

const (
	vs    = "apiVersion: networking.istio.io/v1\nkind: VirtualService\nmetadata: {name: a}\nspec:\n  http:\n  - {route: [{destination: {host: a}}], "
	dr    = "apiVersion: networking.istio.io/v1\nkind: DestinationRule\nmetadata: {name: a}\nspec: {host: a, trafficPolicy: {"
	svc   = "apiVersion: v1\nkind: Service\nmetadata:\n  name: a\n  annotations: {"
	route = "name: r\nvirtual_hosts: [{name: v, routes: [{route: {cluster: a, "
	rule  = "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {name: a}\nspec: {rules: [{"
)

// TestWhatAFilePlays: what the first route of a file does, defaults of the mesh included.
func TestWhatAFilePlays(t *testing.T) {
	for _, c := range []struct {
		fact, format, text string
		holds              func(plays, nearest policy.Policy) bool
	}{
		{"Istio retries twice if nothing is said, without a timeout or a budget", "istio", vs + "}", func(p, n policy.Policy) bool {
			return p.Retry.Attempts == 3 && p.Timeout.Call == policy.Off && p.Timeout.Attempt == policy.Off && p.Retry.Budget.Off && p.Bulkhead.Off && n.Retry.Attempts == 0
		}},
		{"0s switches a timeout off", "istio", vs + "timeout: 0s}", func(p, n policy.Policy) bool {
			return p.Timeout.Call == policy.Off && n.Timeout.Call == policy.Off
		}},
		{"waits go up to ten times the first", "istio", vs + "retries: {attempts: 1, backoff: 50ms}}", func(p, n policy.Policy) bool {
			want := backoff.Full(50*time.Millisecond, 500*time.Millisecond)
			return p.Retry.Backoff == want && n.Retry.Backoff == want
		}},
		{"retries without attempts are none", "istio", vs + "retries: {backoff: 1s}}", func(p, n policy.Policy) bool {
			return p.Retry.Attempts == 1 && n.Retry.Attempts == 1 && p.Timeout.Attempt == policy.Off && n.Timeout.Attempt == 0
		}},
		{"an attempt has no more time than its call", "istio", vs + "timeout: 1s, retries: {attempts: 1, perTryTimeout: 3s}}", func(p, n policy.Policy) bool {
			return p.Timeout.Attempt == time.Second && n.Timeout.Attempt == time.Second
		}},
		{"a breaker's window holds two attempts", "istio", vs + "retries: {attempts: 1, perTryTimeout: 30s}}\n---\n" + dr + "outlierDetection: {maxEjectionPercent: 100}}}", func(p, n policy.Policy) bool {
			return p.Breaker.Window == time.Minute && p.Breaker.Consecutive == 5 && n.Breaker.Consecutive == 0
		}},
		{"a part of the hosts is no breaker", "istio", dr + "outlierDetection: {consecutive5xxErrors: 3, maxEjectionPercent: 99}}}", func(p, n policy.Policy) bool {
			return p.Breaker.Off && n.Breaker == policy.Breaker{}
		}},
		{"a retryBudget without numbers is 20 % and 3", "istio", vs + "}\n---\n" + dr + "retryBudget: {}}}", func(p, n policy.Policy) bool {
			return p.Retry.Budget == policy.Budget{Shape: policy.BudgetShare, Ratio: 0.2, MinInFlight: 3}
		}},
		{"Envoy has 15s, no retries, 1024 requests and 3 retries at once", "envoy", route + "}}]}]", func(p, n policy.Policy) bool {
			return p.Timeout.Call == 15*time.Second && p.Retry.Attempts == 1 && p.Bulkhead.Limit == 1024 && p.Retry.Budget.MinInFlight == 3 && n.Timeout.Call == 0
		}},
		{"Envoy retries once if it does", "envoy", route + "retry_policy: {retry_on: 5xx}}}]}]", func(p, n policy.Policy) bool {
			return p.Retry.Attempts == 2 && n.Retry.Attempts == 2 && p.Retry.Backoff == backoff.Full(25*time.Millisecond, 250*time.Millisecond)
		}},
		{"a retry_policy without retry_on does nothing", "envoy", route + "retry_policy: {num_retries: 3}}}]}]", func(p, n policy.Policy) bool {
			return p.Retry.Attempts == 1 && n.Retry.Attempts == 1
		}},
		{"statuses count with retriable-status-codes alone", "envoy", route + "retry_policy: {retry_on: reset, retriable_status_codes: [500]}}}]}]", func(p, n policy.Policy) bool {
			return n.HTTP.Transient == nil
		}},
		{"the Gateway API says nothing: no retry, no timeout", "gateway-api", rule + "}]}", func(p, n policy.Policy) bool {
			return p.Retry.Attempts == 1 && p.Timeout.Call == policy.Off && p.Retry.Budget.Off
		}},
		{"Linkerd retries once, at once, and opens after 7 failures for 1s", "linkerd", svc + "retry.linkerd.io/http: 5xx, balancer.linkerd.io/failure-accrual: consecutive}", func(p, n policy.Policy) bool {
			return p.Retry.Attempts == 2 && p.Retry.Backoff == backoff.Const(0) && p.Breaker.Consecutive == 7 && p.Breaker.Open == time.Second && p.Breaker.OpenMax == time.Minute
		}},
		{"Linkerd takes a limit of 0 as 1", "linkerd", svc + `retry.linkerd.io/limit: "0"}`, func(p, n policy.Policy) bool { return p.Retry.Attempts == 2 && n.Retry.Attempts == 2 }},
		{"a day is a time of Linkerd", "linkerd", svc + "timeout.linkerd.io/request: 1d}", func(p, n policy.Policy) bool { return n.Timeout.Call == policy.Off }},
		{"more than one retry for each request is one", "linkerd", "apiVersion: linkerd.io/v1alpha2\nkind: ServiceProfile\nmetadata: {name: a}\nspec: {retryBudget: {retryRatio: 1.5, ttl: 90s}, routes: [{name: r, isRetryable: true}]}", func(p, n policy.Policy) bool {
			return p.Retry.Budget.Ratio == 1 && p.Retry.Budget.Window == time.Minute && p.Timeout.Call == policy.Off
		}},
	} {
		got := imported(t, format(t, c.format), "a.yaml", []byte(c.text))
		if got.Wrong != nil || len(got.Routes) == 0 {
			t.Errorf("%s: %v, %d routes", c.fact, got.Wrong, len(got.Routes))
		} else if r := got.Routes[0]; !c.holds(r.Plays, r.Policy) {
			t.Errorf("%s: plays %+v, nearest %+v", c.fact, r.Plays, r.Policy)
		}
	}
}

// TestMistakes: what a mesh or its cluster refuses is a finding where it stands.
func TestMistakes(t *testing.T) {
	for _, c := range []struct{ fact, format, text, want string }{
		{"a time without a unit", "istio", vs + "timeout: 3}", "spec.http[0].timeout: 3 has no unit"},
		{"a time below 1ms", "istio", vs + "retries: {attempts: 1, perTryTimeout: 1us}}", `"1us" is too short`},
		{"a word that there is not", "istio", vs + "retries: {attempts: 1, retryOn: 5xxx}}", `there is no reason "5xxx" to retry`},
		{"a status that there is not", "istio", vs + "retries: {attempts: 1, retryOn: '777'}}", `there is no reason "777" to retry`},
		{"a percentage", "istio", dr + "outlierDetection: {maxEjectionPercent: 101}}}", "101 is too large"},
		{"no host", "istio", "apiVersion: networking.istio.io/v1\nkind: DestinationRule\nspec: {}", "a DestinationRule has no spec.host"},
		{"no route", "istio", "apiVersion: networking.istio.io/v1\nkind: VirtualService\nspec: {hosts: [a]}", "a VirtualService has no route"},
		{"a route without a destination", "istio", "apiVersion: networking.istio.io/v1\nkind: VirtualService\nspec: {http: [{timeout: 1s}]}", "spec.http[0]: goes nowhere"},
		{"a time in the form of Go", "envoy", route + "timeout: 250ms}}]}]", `"250ms" is not written as times are here`},
		{"a longest wait below the first", "envoy", route + "retry_policy: {retry_on: 5xx, retry_back_off: {base_interval: 1s, max_interval: 0.5s}}}}]}]", "is less than base_interval"},
		{"a status of three digits", "envoy", route + "retry_policy: {retriable_status_codes: [5]}}}]}]", "5 is too small"},
		{"a map in place of a list", "envoy", "virtual_hosts: {}", "virtual_hosts: wants a list"},
		{"an attempt longer than its request", "gateway-api", rule + "timeouts: {request: 1s, backendRequest: 2s}}]}", "2s is longer than the request may take, 1s"},
		{"a time with a point", "gateway-api", rule + "timeouts: {request: 1.5s}}]}", `"1.5s" is not written as the Gateway API writes times`},
		{"a status that is no failure", "gateway-api", rule + "retry: {codes: [302]}}]}", "302 is too small"},
		{"a number in an annotation", "linkerd", svc + "retry.linkerd.io/limit: 2}", "an annotation is a text, not 2"},
		{"a number as a time", "linkerd", svc + `retry.linkerd.io/timeout: "300"}`, "300 has no unit"},
		{"a word that Linkerd does not know", "linkerd", svc + "retry.linkerd.io/http: server-error}", `has no "server-error"`},
		{"a code that Linkerd does not know", "linkerd", svc + "retry.linkerd.io/grpc: aborted}", `has no "aborted"`},
		{"another breaker", "linkerd", svc + "balancer.linkerd.io/failure-accrual: rate}", `has no "rate"`},
	} {
		got := imported(t, format(t, c.format), "a.yaml", []byte(c.text))
		if len(got.Wrong) != 1 || !strings.Contains(got.Wrong[0].Reason, c.want) || got.Wrong[0].Line < 1 {
			t.Errorf("%s: %v, want %s", c.fact, got.Wrong, c.want)
		}
	}
}

// TestBothSpellingsOfEnvoysKeysAreOne: protobuf's JSON takes retryOn and retry_on.
func TestBothSpellingsOfEnvoysKeysAreOne(t *testing.T) {
	for spelled, want := range map[string]string{"retryOn": "retry_on", "retry_on": "retry_on", "consecutive5xx": "consecutive5xx", "consecutive_5xx": "consecutive5xx", "@type": "@type", "": ""} {
		if got := protoKey(spelled); got != want {
			t.Errorf("%s: %s, want %s", spelled, got, want)
		}
	}
}

// TestHostsOfServices: the spellings of a service's name are one.
func TestHostsOfServices(t *testing.T) {
	for _, c := range [][3]string{
		{"a", "shop", "a.shop"}, {"a.shop", "x", "a.shop"}, {"a.shop.svc", "x", "a.shop"}, {"a.shop.svc.cluster.local", "x", "a.shop"},
		{"api.example.com", "shop", "api.example.com"}, {"*.example.com", "shop", "*.example.com"}, {"", "shop", ""},
	} {
		if got := hostOf(c[0], c[1]); got != c[2] {
			t.Errorf("%s: %s, want %s", c[0], got, c[2])
		}
	}
}
