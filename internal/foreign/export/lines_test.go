package export

import (
	"strings"
	"testing"

	"github.com/gabion-go/gabion/config"
	"github.com/gabion-go/gabion/internal/foreign"
	"github.com/gabion-go/gabion/policy"
)

// lines has a case for each line of the tables, by its ID without the format: a policy for which the line holds, and
// what the file then has, by format, or for all.
var lines = map[string]struct {
	policy string
	says   string // part of the line's text
	writes map[string]string
}{
	"timeout.call: bounded": {"timeout: {call: 9s}", "", map[string]string{
		"istio": "timeout: 9s", "envoy": "timeout: 9s", "gateway-api": "request: 9s", "linkerd": "timeout.linkerd.io/request: 9s", "grpc": `"timeout": "9s"`}},
	"timeout.call: of one attempt": {"timeout: {call: 9s}, retry: off", "", map[string]string{"": "stock: 9s"}},
	"timeout.body: bounded":        {"timeout: {call: 9s}", "the call's 9s bound its answer", map[string]string{"": `"timeout": "9s"`}},
	"timeout.attempt: bounded": {"safe: true, timeout: {attempt: 1500ms}", "", map[string]string{
		"istio": "perTryTimeout: 1s500ms", "envoy": `per_try_timeout: "1.5s"`, "gateway-api": "backendRequest: 1s500ms", "linkerd": "retry.linkerd.io/timeout: 1500ms", "dapr": "stock: 1s500ms"}},
	"timeout.idle: bounded": {"timeout: {idle: 7s}", "7s of silence", map[string]string{"envoy": "idle_timeout: 7s", "linkerd": "timeout.linkerd.io/idle: 7s"}},
	"timeout.idle: off":     {"timeout: {idle: off}", "", map[string]string{"": "idle_timeout: 0s"}},
	"retry.attempts: several": {"safe: true, retry: {attempts: 5}", "", map[string]string{
		"istio": "attempts: 4", "envoy": "num_retries: 4", "gateway-api": "attempts: 4", "linkerd": `retry.linkerd.io/limit: "4"`, "dapr": "maxRetries: 4"}},
	"retry.attempts: up to five":     {"safe: true, retry: {attempts: 4}", "", map[string]string{"": `"maxAttempts": 4`}},
	"retry.attempts: more than five": {"safe: true, retry: {attempts: 7}", "at most 5 attempts; here 7", map[string]string{"": `"maxAttempts": 5`}},
	"retry.attempts: one":            {"retry: off", "", map[string]string{"istio": "attempts: 0", "dapr": "maxRetries: 0"}},
	"retry.attempts: not safe":       {"retry: {attempts: 4}", "nothing is repeated", map[string]string{"dapr": "maxRetries: 0"}},
	"retry.attempts: no code":        {"safe: true, grpc: {permanent: [UNAVAILABLE]}", "needs a code", nil},
	"safe: reads only": {"retry: {attempts: 4}", "GET, HEAD and OPTIONS", map[string]string{
		"istio": "exact: HEAD", "envoy": "GET|HEAD|OPTIONS", "gateway-api": "method: OPTIONS", "linkerd": "method: OPTIONS"}},
	"retry.backoff: ten times the first wait": {"safe: true, retry: {backoff: {base: 100ms, cap: 1s}}", "", map[string]string{"": "backoff: 100ms"}},
	"retry.backoff: another cap":              {"safe: true, retry: {backoff: {base: 100ms, cap: 3s}}", "ten times the first, 1s, and here 3s", map[string]string{"": "backoff: 100ms"}},
	"retry.backoff: another shape": {"safe: true, retry: {backoff: {kind: constant, base: 200ms}}", "here constant", map[string]string{
		"istio": "backoff: 200ms", "envoy": `base_interval: "0.2s"`}},
	"retry.backoff: full jitter":    {"safe: true, retry: {backoff: {base: 100ms, cap: 3s}}", "", map[string]string{"": "max_interval: 3s"}},
	"retry.backoff: the first wait": {"safe: true, retry: {backoff: {base: 100ms, cap: 3s}}", "100ms bounds the first wait", map[string]string{"": "backoff: 100ms"}},
	"retry.backoff: at once":        {"safe: true", "a retry goes at once; here full 1s to 30s", nil},
	"retry.backoff: constant":       {"safe: true, retry: {backoff: {kind: constant, base: 200ms, cap: 200ms}}", "", map[string]string{"": "duration: 200ms"}},
	"retry.backoff: growing":        {"safe: true", "waits begin with 500ms", map[string]string{"": "maxInterval: 30s"}},
	"retry.backoff: waits":          {"safe: true, retry: {backoff: {base: 100ms, cap: 3s}}", "begin with 100ms and double up to 3s", map[string]string{"": `"maxBackoff": "3s"`}},
	"retry.max_after: Retry-After":  {"safe: true, retry: {max_after: 40s}", "after a Retry-After above 40s", map[string]string{"": "max_interval: 40s"}},
	"http: a 500":                   {"safe: true", "other statuses from 500 on are not", nil},
	"http.transient: statuses": {"safe: true, http: {transient: [425]}", "", map[string]string{
		"istio": "408,425,429", "envoy": "[408, 425, 429", "gateway-api": "[408, 425, 429", "linkerd": "408,425,429", "dapr": "408,425,429"}},
	"http.permanent: statuses": {"safe: true, http: {permanent: [429]}", "", map[string]string{
		"istio": "408,502", "envoy": "[408, 502", "gateway-api": "[408, 502", "linkerd": "408,502", "dapr": "408,502"}},
	"grpc.transient: codes": {"safe: true, grpc: {transient: [RESOURCE_EXHAUSTED]}", "", map[string]string{
		"istio": "resource-exhausted,unavailable", "envoy": "resource-exhausted,unavailable", "linkerd": "resource-exhausted,unavailable", "dapr": "8,14", "grpc": `["RESOURCE_EXHAUSTED", "UNAVAILABLE"]`}},
	"grpc.transient: other codes": {"safe: true, grpc: {transient: [DATA_LOSS]}", "can be repeated", nil},
	"grpc.permanent: codes": {"safe: true, grpc: {permanent: [UNAVAILABLE], transient: [INTERNAL]}", "", map[string]string{
		"istio": "reset,internal,408", "envoy": "codes,internal", "linkerd": "retry.linkerd.io/grpc: internal", "dapr": `gRPCStatusCodes: "13"`, "grpc": `["INTERNAL"]`}},
	"retry.budget: a share": {"safe: true, retry: {budget: {shape: share, ratio: 25%, min_in_flight: 4}}", "", map[string]string{
		"istio": "percent: 25\n      minRetryConcurrency: 4", "envoy": "value: 25"}},
	"retry.budget: a share of calls": {"safe: true, retry: {budget: {shape: window, ratio: 20%, floor: 4/s, window: 9s}}", "", map[string]string{"": "percent: 20\n      interval: 9s\n    minRetryRate:\n      count: 4"}},
	"retry.budget: throttling":       {"safe: true, retry: {budget: {shape: grpc, capacity: 20, ratio: 25%}}", "", map[string]string{"": `"maxTokens": 20`}},
	"retry.budget: another": {"safe: true", "here", map[string]string{
		"istio": "percent: 23.1", "envoy": "value: 23.1", "gateway-api": "percent: 30", "grpc": `"tokenRatio": 0.3`}},
	"retry.budget: off": {"safe: true, retry: {attempts: 4, budget: off}", "in an outage 4 attempts are 4.0× the load", map[string]string{"envoy": "max_retries: 4294967295"}},
	"breaker.consecutive: in a row": {"breaker: {consecutive: 7}", "", map[string]string{
		"istio": "consecutive5xxErrors: 7", "envoy": "consecutive_5xx: 7", "linkerd": `max-failures: "7"`, "dapr": `trip: "consecutiveFailures >= 7"`}},
	"breaker.open: in a row": {"breaker: {open: 1500ms}", "", map[string]string{
		"istio": "baseEjectionTime: 1s500ms", "envoy": `base_ejection_time: "1.5s"`, "linkerd": "min-penalty: 1500ms", "dapr": "timeout: 1s500ms"}},
	"breaker.open_max: in a row":    {"breaker: {open: 2s, open_max: 6s}", "", map[string]string{"envoy": "max_ejection_time: 6s", "linkerd": "max-penalty: 6s"}},
	"breaker.open_jitter: in a row": {"breaker: {open_jitter: 20%}", "", map[string]string{"": `jitter-ratio: "0.2"`}},
	"breaker.probes: in a row":      {"breaker: {probes: 4}", "", map[string]string{"": "maxRequests: 4"}},
	"breaker: the rest":             {"breaker: {failure_rate: 50%}", "", nil},
	"bulkhead.limit: bounded":       {"bulkhead: {limit: 70}", "", map[string]string{"istio": "http2MaxRequests: 70", "envoy": "max_requests: 70"}},
	"bulkhead.limit: learned":       {"bulkhead: {limit: learned, max: 70}", "fixed at 70", map[string]string{"istio": "http2MaxRequests: 70", "envoy": "max_requests: 70"}},
	"bulkhead.off: off":             {"bulkhead: off", "", map[string]string{"": "max_requests: 4294967295"}},
	"bulkhead: the rest":            {"bulkhead: {limit: 70, queue: 30}", "ends at once, with 503; here 30 wait", nil},

	// What is lost has no place in a file.
	"trust: lost":               {"trust: internal", "no deadline", nil},
	"key: lost":                 {"key: required", "no key is made", nil},
	"timeout.call: lost":        {"safe: true, timeout: {call: 9s, attempt: 2s}, retry: {backoff: {kind: constant, base: 1s, cap: 1s}}", "they may take 8s, here 9s", nil},
	"timeout.attempt: lost":     {"safe: true, timeout: {attempt: 2s}, retry: {attempts: 1, contention: {attempts: 3}}", "here it ends after 2s", nil},
	"timeout.percentile: lost":  {"safe: true, timeout: {percentile: 99.9%}", "not taken from what is measured", nil},
	"timeout.attempt_min: lost": {"safe: true, timeout: {percentile: 99.9%, attempt_min: 70ms}", "not taken from what is measured", nil},
	"timeout.last: lost":        {"safe: true, timeout: {attempt: 2s, last: 3s}", "here it has 3s", nil},
	"timeout.strict: lost":      {"safe: true", "here they get what is left of the call", nil},
	"timeout.idle: lost":        {"timeout: {idle: 7s}", "here 7s", nil},
	"timeout.body: lost":        {"timeout: {body: 70s, call: off}", "here 1m10s", nil},
	"timeout.margin: lost":      {"safe: true, timeout: {margin: 70ms}", "here at least 70ms", nil},
	"timeout.fit: lost":         {"safe: true, timeout: {fit: 50%}", "too late", nil},
	"retry.hold: lost":          {"safe: true", "here it waits for one that succeeds", nil},
	"retry.immediate: lost":     {"safe: true, retry: {immediate: true}", "where nothing was sent", nil},
	"retry.max_after: lost":     {"safe: true, retry: {attempts: 1, contention: {attempts: 3}}", "Retry-After is not read", nil},
	"retry.budget: lost":        {"safe: true, retry: {attempts: 4}", "in an outage 4 attempts are 4.0× the load", nil},
	"retry.contention: lost":    {"safe: true, retry: {contention: {attempts: 6}}", "up to 5 times", nil},
	"hedge: lost":               {"safe: true, hedge: {max: 2}", "here up to 2 do", nil},
	"hedge: not written":        {"safe: true, hedge: {max: 2, delay: 70ms}, retry: {backoff: {base: 100ms, cap: 3s}}", "up to 2 do, each after 70ms. With hedge_on_per_try_timeout one would go after per_try_timeout and retry_back_off, up to 100ms more", nil},
	"pace: lost":                {"pace: {max: 6s}", "at most 6s", nil},
	"throttle: lost":            {"throttle: {k: 1.5}", "here from 1.5 requests", nil},
	"breaker: lost":             {"breaker: {consecutive: off}", "no breaker", nil},
	"bulkhead: lost":            {"bulkhead: {limit: 70}", "here at most 70", nil},
	"rate_limit: lost":          {"rate_limit: {rate: 70/s}", "here at most 70/s", nil},
	"http: lost":                {"retry: off, http: {transient: [500]}", "say nothing there", nil},
	"http.replay_limit: lost":   {"http: {replay_limit: 9999}", "not gabion's to say", nil},
	"grpc: lost":                {"retry: off, grpc: {transient: [INTERNAL]}", "say nothing there", nil},
	"prices: lost":              {"prices: [1 usd/1000 tokens]", "not added up", nil},
	"partitions: lost":          {"partitions: {max: 70}", "say", nil},
	"endpoints: lost":           {"endpoints: {list: [a=http://a, b=http://b]}", "one host", nil},
	"fleet: lost":               {"fleet: {slots: true}", "ten times as much", nil},
}

func policyOf(t *testing.T, text string) policy.Policy {
	t.Helper()
	f, err := config.Parse("x", []byte("version: 1\ndependencies: {stock: {"+text+"}}"))
	if err != nil {
		t.Fatal(err)
	}
	return f.Policies["stock"]
}

// Each line of each table has a case, in which it holds and the file has what it says.
func TestEveryLineOfTheTables(t *testing.T) {
	used := map[string]bool{}
	for _, f := range Formats() {
		for _, m := range f.Mappings {
			id := strings.TrimPrefix(m.ID, f.Name+": ")
			c, ok := lines[id]
			if !ok {
				t.Errorf("%s: the line has no case", m.ID)
				continue
			}
			used[id] = true
			e := f.Write(Dependency{Name: "stock", Policy: policyOf(t, c.policy)})
			var row *Row
			for i := range e.Rows {
				if e.Rows[i].ID == m.ID {
					row = &e.Rows[i]
				}
			}
			writes := c.writes[f.Name]
			if writes == "" {
				writes = c.writes[""]
			}
			switch {
			case row == nil:
				t.Errorf("%s does not hold for %s:\n%s", m.ID, c.policy, table(e))
			case row.Fate != m.Fate:
				t.Errorf("%s: another fate\n%s", m.ID, table(e))
			case m.Fate != foreign.Kept && !strings.Contains(row.Text, c.says):
				t.Errorf("%s says %q, not %q", m.ID, row.Text, c.says)
			case m.Target != "" && writes == "" && m.Fate != foreign.Lost && m.ID != f.Name+": grpc.transient: other codes":
				t.Errorf("%s: the case does not say what the file has", m.ID)
			case !strings.Contains(e.Text, writes):
				t.Errorf("%s: no %q in\n%s", m.ID, writes, e.Text)
			}
		}
	}
	for id := range lines {
		if !used[id] {
			t.Errorf("no table has the line %s", id)
		}
	}
}
