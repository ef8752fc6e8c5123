package lab

import (
	"strings"
	"testing"

	"github.com/gabion-go/gabion/internal/foreign/formats"
	"github.com/gabion-go/gabion/policy"
)

// mixes is a minute in which half of the requests fail, in each way there is.
const mixes = `version: 1
title: x
duration: 40s
clients:
  shop: {count: 10, rate: 100/s, calls: [{to: db, method: GET}]}
services:
  db: {time: 1ms}
faults:
  - {kind: errors, service: db, at: 5s, for: 30s, share: 40%, answers: [404 8%, 429 10%, 500 10%, 501 8%, 502 10%, 503 10%, reset 8%, refused 9%, unavailable 9%, internal 9%, resource_exhausted 9%]}
policies:
  db: {timeout: {call: 10s, attempt: 1s}}
`

// Each file of another system sends again what stands in its list, and nothing else.
func TestFilesSendAgainWhatTheirListsSay(t *testing.T) {
	ways := strings.Fields("404 429 500 501 502 503 reset refused unavailable internal resource_exhausted")
	const (
		istio = "apiVersion: networking.istio.io/v1\nkind: VirtualService\nmetadata: {name: vs}\nspec:\n  hosts: [db]\n  http:\n    - route: [{destination: {host: db}}]\n"
		envoy = "name: r\nvirtual_hosts:\n  - name: v\n    domains: ['*']\n    routes:\n      - match: {prefix: /}\n        route:\n          cluster: db\n          retry_policy: "
		nginx = "upstream db { server a; server b; server c; }\nserver { location / { proxy_pass http://db; "
		dapr  = "apiVersion: dapr.io/v1alpha1\nkind: Resiliency\nmetadata: {name: r}\nspec:\n  policies:\n    retries:\n      again: {policy: constant, duration: 10ms, maxRetries: 2"
		apps  = "}\n  targets:\n    apps:\n      db: {retry: again}\n"
		route = "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {name: r}\nspec:\n  rules:\n    - backendRefs: [{name: db, port: 80}]\n      retry: {attempts: 2, codes: "
		slb   = "apiVersion: v1\nkind: Service\nmetadata:\n  name: db\n  annotations:\n    retry.linkerd.io/http: "
		rpc   = `{"methodConfig": [{"name": [{}], "retryPolicy": {"maxAttempts": 3, "initialBackoff": "0.01s", "maxBackoff": "0.02s", "backoffMultiplier": 2, "retryableStatusCodes": `
	)
	for _, c := range []struct{ format, fact, text, again string }{
		{"istio", "silent: connections and two codes of gRPC", istio, "refused unavailable"},
		{"istio", "gateway-error", istio + "      retries: {attempts: 2, retryOn: 'gateway-error'}\n", "502 503 reset refused"},
		{"istio", "5xx", istio + "      retries: {attempts: 2, retryOn: '5xx'}\n", "500 501 502 503 reset refused"},
		{"istio", "as before 1.24", istio + "      retries: {attempts: 2, retryOn: 'connect-failure,refused-stream,unavailable,cancelled,503'}\n", "503 refused unavailable"},
		{"envoy", "reset", envoy + "{retry_on: reset, num_retries: 2}\n", "reset refused"},
		{"envoy", "codes of gRPC", envoy + "{retry_on: 'internal,resource-exhausted', num_retries: 2}\n", "internal resource_exhausted"},
		{"envoy", "statuses", envoy + "{retry_on: 'retriable-status-codes', num_retries: 2, retriable_status_codes: [404, 503]}\n", "404 503"},
		{"gateway-api", "codes", route + "[500, 503]}\n", "500 503 reset refused"},
		{"linkerd", "statuses", slb + "'500-502'\n", "500 501 502 refused"},
		{"linkerd", "codes of gRPC", strings.Replace(slb, "http", "grpc", 1) + "internal,unavailable\n", "refused unavailable internal"},
		{"linkerd", "a ServiceProfile", "apiVersion: linkerd.io/v1alpha2\nkind: ServiceProfile\nmetadata: {name: db.x}\nspec: {routes: [{name: r, isRetryable: true}]}\n", "500 501 502 503 unavailable internal"},
		{"nginx", "silent: errors and timeouts", nginx + "} }", "reset refused"},
		{"nginx", "statuses alone", nginx + "proxy_next_upstream http_404 http_503; } }", "404 503"},
		{"dapr", "silent: all that fails", dapr + apps, "404 429 500 501 502 503 reset refused unavailable internal resource_exhausted"},
		{"dapr", "statuses", dapr + ", matching: {httpStatusCodes: '429,502-503', gRPCStatusCodes: '8-9,14'}" + apps, "429 502 503 reset refused unavailable resource_exhausted"},
		{"resilience4j", "all that fails", "resilience4j.retry.instances:\n  db: {maxAttempts: 3, waitDuration: 10ms}\n", "404 429 500 501 502 503 reset refused unavailable internal resource_exhausted"},
		{"dotnet", "what is transient there", `{"HttpStandardResilience": {"Retry": {"MaxRetryAttempts": 2, "Delay": "00:00:00.01"}, "CircuitBreaker": {"FailureRatio": 1}}}`, "429 500 501 502 503 reset refused"},
		{"aws", "what is transient there", "[default]\nmax_attempts = 3\nretry_mode = standard\n", "429 500 502 503 reset refused"},
		{"grpc-service-config", "UNAVAILABLE", rpc + `["UNAVAILABLE"]}}]}`, "429 502 503 reset refused unavailable"},
		{"grpc-service-config", "RESOURCE_EXHAUSTED, which no status becomes", rpc + `["RESOURCE_EXHAUSTED"]}}]}`, "resource_exhausted"},
		{"grpc-service-config", "UNKNOWN", rpc + `["UNKNOWN"]}}]}`, "500 501"},
	} {
		r, err := formats.Open(c.format, formats.Source{Name: "theirs", Text: []byte(c.text)})
		if err != nil || len(r.Wrong) > 0 || len(r.Routes) != 1 {
			t.Errorf("%s, %s: %v, %v, %d routes", c.format, c.fact, err, r.Wrong, len(r.Routes))
			continue
		}
		f := &Foreign{Name: c.format, Policies: map[string]policy.Policy{"db": r.Routes[0].Played()}, Repeats: map[string][]string{"db": r.Routes[0].Repeats}}
		s, err := Parse("mixes", []byte(mixes))
		if err != nil {
			t.Fatal(err)
		}
		report, err := s.Run(t.Context(), Options{Theirs: f, Replications: 1, Alone: true})
		if err != nil {
			t.Fatal(err)
		}
		var again []string
		for _, way := range ways {
			if share, _, err := report.Metric(0, "resent_"+way, "db", ""); err != nil {
				t.Fatal(err)
			} else if share.Value > 0 {
				again = append(again, way)
			}
		}
		if got := strings.Join(again, " "); got != c.again {
			t.Errorf("%s, %s: sent again were %s, want %s", c.format, c.fact, got, c.again)
		}
	}
}
