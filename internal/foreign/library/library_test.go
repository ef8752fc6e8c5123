package library

import (
	"strings"
	"testing"
	"time"

	"github.com/gabion-go/gabion/internal/foreign"
	"github.com/gabion-go/gabion/internal/terms"
	"github.com/gabion-go/gabion/internal/yamlstrict"
	"github.com/gabion-go/gabion/policy"
)

func format(t testing.TB, name string) foreign.Format {
	t.Helper()
	for _, f := range Formats() {
		if f.Name == name {
			return f
		}
	}
	t.Fatal(name)
	return foreign.Format{}
}

// What the other system refuses is a mistake with a line.
func TestWhatTheOtherSystemRefuses(t *testing.T) {
	for _, c := range []struct{ format, text, want string }{
		{"resilience4j", "resilience4j.retry.instances.a:\n  maxAttempts: 0", "a:2: resilience4j.retry.instances.a.maxAttempts: 0 is too small"},
		{"resilience4j", "resilience4j.retry.instances.a:\n  waitDuration: soon", "a:2: resilience4j.retry.instances.a.waitDuration: \"soon\" is no time"},
		{"resilience4j", "resilience4j.retry.instances.a:\n  waitDuration: -5", "-5 is negative"},
		{"resilience4j", "resilience4j.retry.instances.a:\n  baseConfig: b", "a:2: resilience4j.retry.instances.a.baseConfig: there is no configuration b"},
		{"resilience4j", "resilience4j.circuitbreaker.instances.a.failureRateThreshold: 101", "101 is too large"},
		{"resilience4j", "resilience4j.circuitbreaker.instances.a.failure-rate-threshold: 50%", "write 50, without the sign"},
		{"resilience4j", "resilience4j.circuitbreaker.instances.a.slidingWindowType: CALLS", "has no \"CALLS\""},
		{"resilience4j", "resilience4j.retry.instances: [a]", "wants keys with values, not a list"},
		{"dotnet", `{"Retry": {"MaxRetryAttempts": 0}}`, "0 is too small"},
		{"dotnet", `{"Retry": {"Delay": "2s"}}`, `"2s" is no time`},
		{"dotnet", `{"AttemptTimeout": {"Timeout": "30"}}`, "30 alone is a number of days"},
		{"dotnet", `{"AttemptTimeout": {"Timeout": "-00:00:01"}}`, "is negative"},
		{"dotnet", `{"AttemptTimeout": {"Timeout": "00:00:20"}}`, "SamplingDuration, 30s, is less than twice the timeout of an attempt, 20s"},
		{"dotnet", `{"TotalRequestTimeout": {"Timeout": "00:00:05"}}`, "the timeout of an attempt, 10s, is longer than that of the whole request, 5s"},
		{"dotnet", `{"CircuitBreaker": {"FailureRatio": 1.5}}`, "1.5 is too large"},
		{"dotnet", `{"Retry": {"BackoffType": "Fast"}}`, `has no "Fast"`},
		{"dotnet", `{"Retry": `, "not YAML"},
		{"dapr", "apiVersion: dapr.io/v1alpha1\nkind: Resiliency\nspec: {targets: {apps: {a: {timeout: b}}}}", "a:3: spec.targets.apps.a.timeout: there is no policy b below timeouts"},
		{"dapr", "apiVersion: dapr.io/v1alpha1\nkind: Resiliency\nspec: {policies: {retries: {a: {maxRetries: -2}}}}", "-2 is too small"},
		{"dapr", "apiVersion: dapr.io/v1alpha1\nkind: Resiliency\nspec: {policies: {retries: {a: {policy: linear}}}}", `has no "linear"`},
		{"aws", "[default]\nretry_mode = eager", `a:2: default.retry_mode: has no "eager"`},
		{"aws", "[default]\nmax_attempts = 0", "0 is too small"},
		{"aws", "[default\nmax_attempts = 2", "a:1: line: a section has no end"},
		{"aws", "[default]\nmax_attempts 2", "a:2: line: is neither a section nor a key with a value"},
		{"nginx", "location / { proxy_pass http://a; proxy_next_upstream_tries -1; }", "-1 is negative"},
		{"nginx", "location / { proxy_pass http://a; proxy_next_upstream http_501; }", `has no case "http_501"`},
		{"nginx", "location / { proxy_pass http://a; proxy_read_timeout fast; }", `"fast" is no time`},
		{"nginx", "location / { proxy_pass http://a }", "a directive has no end"},
		{"nginx", "http { server {\n}", "a:2: nginx: a block has no end"},
		{"nginx", "server { } }", "there is no block that this ends"},
		{"nginx", "log_format x 'abc;\n", "a quoted word has no end"},
		{"nginx", "{}", "a block has no name"},
	} {
		got := imported(format(t, c.format), "a", []byte(c.text)).Wrong
		var text strings.Builder
		for _, f := range got {
			text.WriteString(strings.Replace(f.Error(), "a:"+itoa(f.Line)+":"+itoa(f.Col)+":", "a:"+itoa(f.Line)+":", 1))
		}
		if !strings.Contains(text.String(), c.want) {
			t.Errorf("%s: %q: %s, want %s", c.format, c.text, text.String(), c.want)
		}
	}
}

func itoa(n int) string { return number(float64(n)) }

// What the other system does where its file says nothing.
func TestDefaultsOfTheOthersPlay(t *testing.T) {
	for _, c := range []struct {
		format, text string
		holds        func(p policy.Policy) bool
	}{
		{"resilience4j", "resilience4j.retry.instances.a: {}", func(p policy.Policy) bool {
			return p.Retry.Attempts == 3 && p.Retry.Backoff.Base == 500*time.Millisecond && p.Retry.Budget.Off && p.Breaker.Off && p.Safe
		}},
		{"resilience4j", "resilience4j.circuitbreaker.instances.a: {}", func(p policy.Policy) bool {
			b := p.Breaker
			return p.Retry.Attempts == 1 && b.WindowCalls == 100 && b.MinCalls == 100 && b.FailureRate == 0.5 && b.Open == time.Minute && b.ProbeCalls == 10
		}},
		{"resilience4j", "resilience4j.timelimiter.instances.a: {}", func(p policy.Policy) bool { return p.Timeout.Attempt == time.Second && p.Timeout.Call == policy.Off }},
		{"resilience4j", "resilience4j.bulkhead.instances.a: {}", func(p policy.Policy) bool { return p.Bulkhead.Limit == 25 && p.Bulkhead.Queue == policy.Off }},
		{"resilience4j", "resilience4j.ratelimiter.instances.a: {}", func(p policy.Policy) bool { return p.RateLimit.Rate == 0 }},
		{"dotnet", `{"Retry": {"UseJitter": true}}`, func(p policy.Policy) bool {
			b := p.Breaker
			return p.Retry.Attempts == 4 && p.Retry.Backoff.Base == 4*time.Second && p.Timeout.Call == 30*time.Second && p.Timeout.Attempt == 10*time.Second &&
				b.FailureRate == 0.1 && b.MinCalls == 100 && b.Window == 30*time.Second && b.Open == 5*time.Second && p.Bulkhead.Limit == 1000
		}},
		{"dotnet", `{"Hedging": {"MaxHedgedAttempts": 1}}`, func(p policy.Policy) bool {
			return p.Retry.Attempts == 1 && p.Hedge.Max == 1 && p.Hedge.Delay == 2*time.Second && p.Safe
		}},
		{"dapr", daprHead + "spec: {policies: {retries: {r: {}}, circuitBreakers: {c: {}}}, targets: {apps: {a: {retry: r, circuitBreaker: c}}}}", func(p policy.Policy) bool {
			return p.Retry.Attempts == terms.MaxSends && p.Retry.Backoff.Base == 5*time.Second && p.Breaker.Consecutive == 6 && p.Breaker.Open == time.Minute && p.Breaker.Probes == 1
		}},
		{"aws", "[default]\nmax_attempts = 4\n", func(p policy.Policy) bool {
			return p.Retry.Attempts == 4 && p.Retry.Backoff.Base == 50*time.Millisecond && p.Retry.Budget.Cost == 14
		}},
		{"aws", "[default]\nretry_mode = legacy\n", func(p policy.Policy) bool {
			return p.Retry.Attempts == 3 && p.Retry.Backoff.Base == 2*time.Second && p.Retry.Budget.Cost == 5
		}},
		{"nginx", "upstream a { server b; server c; } location / { proxy_pass http://a; }", func(p policy.Policy) bool {
			return p.Retry.Attempts == 2 && !p.Safe && p.Timeout.Attempt == time.Minute && len(p.HTTP.Permanent) == 4 && p.Breaker.Off
		}},
		{"nginx", "location / { proxy_pass http://a; proxy_read_timeout 1300ms; }", func(p policy.Policy) bool { return p.Timeout.Attempt == 1300*time.Millisecond }},
		{"nginx", "location / { proxy_pass http://a; proxy_read_timeout '1m 2s 500ms'; }", func(p policy.Policy) bool { return p.Timeout.Attempt == 62500*time.Millisecond }},
		{"nginx", "location / { proxy_pass http://a; proxy_read_timeout 1m30; }", func(p policy.Policy) bool { return p.Timeout.Attempt == 90*time.Second }},
		{"nginx", "location / { proxy_pass http://a; }", func(p policy.Policy) bool { return p.Retry.Attempts == 1 }},
		{"nginx", "upstream a { server b; server c; } location / { proxy_next_upstream off; proxy_pass http://a; }", func(p policy.Policy) bool { return p.Retry.Attempts == 1 }},
		{"nginx", "upstream a { server b; server c; } proxy_next_upstream error non_idempotent; location / { proxy_pass http://a/; }", func(p policy.Policy) bool { return p.Retry.Attempts == 2 && p.Safe }},
	} {
		got := imported(format(t, c.format), "a", []byte(c.text))
		if len(got.Routes) != 1 || got.Wrong != nil || !c.holds(got.Routes[0].Plays) {
			t.Errorf("%s: %s: %v %+v", c.format, c.text, got.Wrong, got.Routes)
		}
		for i := range got.Routes {
			for _, p := range []policy.Policy{got.Routes[i].Plays, got.Routes[i].Policy} {
				if err := p.Validate(); err != nil {
					t.Errorf("%s: %s: %v", c.format, c.text, err)
				}
			}
		}
	}
}

const daprHead = "apiVersion: dapr.io/v1alpha1\nkind: Resiliency\n"

// What a policy can't say is left out, and said.
func TestWhatCannotBeSaidIsSaid(t *testing.T) {
	got := imported(format(t, "resilience4j"), "a", []byte("resilience4j.circuitbreaker.instances.a:\n  permittedNumberOfCallsInHalfOpenState: 5000"))
	if p := got.Routes[0].Policy; p.Breaker.Probes != 0 || p.Validate() != nil {
		t.Errorf("%+v", p.Breaker)
	}
	if r := got.Remarks[0]; r.Fate != foreign.Lost || r.Line != 2 || !strings.Contains(r.Text, "5000 can't be written as breaker.probe") {
		t.Errorf("%+v", r)
	}
}

func TestCommentsAndCommasInJSON(t *testing.T) {
	text := "{\"a\": \"// no\", // yes\n\"b\": [1, 2, /* , */ ], \"c\\\"\": {\"d\": 1,},\n}"
	want := "{\"a\": \"// no\",       \n\"b\": [1, 2          ], \"c\\\"\": {\"d\": 1 } \n}"
	if got := string(plainJSON([]byte(text))); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// imported reads a text as a format.
func imported(f foreign.Format, name string, text []byte) *foreign.Import {
	doc, trees, found := yamlstrict.Trees(name, text)
	if len(found) > 0 && !f.Plain {
		return &foreign.Import{Wrong: found}
	}
	if f.Plain {
		trees = nil
	}
	return f.Read(&foreign.File{Name: name, Text: text, Document: doc, Documents: trees})
}
