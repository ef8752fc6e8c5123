package grpcconfig

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/internal/grpccode"
	"github.com/gabion-go/gabion/policy"
)

const ms = time.Millisecond

// retrying is a config of one method with a retryPolicy, whose values are replaced by pairs
// of a key and a value; an empty value leaves the key out.
func retrying(pairs ...string) string {
	fields := [][2]string{
		{"maxAttempts", "4"}, {"initialBackoff", `"0.1s"`}, {"maxBackoff", `"1s"`}, {"backoffMultiplier", "2"},
		{"retryableStatusCodes", `["UNAVAILABLE"]`},
	}
	var written []string
	for _, f := range fields {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == f[0] {
				f[1] = pairs[i+1]
			}
		}
		if f[1] != "" {
			written = append(written, fmt.Sprintf("%q: %s", f[0], f[1]))
		}
	}
	return `{"methodConfig": [{"name": [{"service": "a.B"}], "retryPolicy": {` + strings.Join(written, ", ") + "}}]}"
}

func method(fields string) string {
	return `{"methodConfig": [{"name": [{"service": "a.B"}], ` + fields + "}]}"
}

func parsed(t *testing.T, text string, o Options) *Config {
	t.Helper()
	c, found := Parse("sc.json", []byte(text), o)
	if c == nil {
		t.Fatalf("%s:\n%v", text, found)
	}
	for _, m := range c.Methods {
		if err := m.Policy.Validate(); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	return c
}

func only(t *testing.T, text string, o Options) policy.Policy {
	t.Helper()
	c := parsed(t, text, o)
	if len(c.Methods) != 1 {
		t.Fatalf("%s: %d policies", text, len(c.Methods))
	}
	return c.Methods[0].Policy
}

// C60, C74: what a retryPolicy comes to.
func TestWhatARetryPolicyComesTo(t *testing.T) {
	base := policy.Policy{Safe: true, Timeout: policy.Timeout{Attempt: policy.Off}}
	base.Retry = policy.Retry{Attempts: 4, Backoff: backoff.Full(100*ms, time.Second)}
	base.GRPC.Permanent = []policy.GRPCCode{grpccode.Aborted}
	for _, c := range []struct {
		fact string
		text string
		want func(*policy.Policy)
		note string // one of the notes has this
	}{
		{"its own words", retrying(), func(p *policy.Policy) {}, "±20 %"},
		{"C74: ten attempts behave as five", retrying("maxAttempts", "10"), func(p *policy.Policy) { p.Retry.Attempts = 5 }, "10 behaves as 5"},
		{"waits that do not grow", retrying("backoffMultiplier", "1"), func(p *policy.Policy) { p.Retry.Backoff.Cap = 100 * ms }, "here waits double, up to gRPC's last one, 0.1s"},
		{"waits that shrink", retrying("backoffMultiplier", "0.5"), func(p *policy.Policy) { p.Retry.Backoff.Cap = 100 * ms }, "0.1s"},
		{"waits that grow less", retrying("backoffMultiplier", "1.5"), func(p *policy.Policy) { p.Retry.Backoff.Cap = 225 * ms }, "0.225s"},
		{"waits that grow more", retrying("backoffMultiplier", "3"), func(p *policy.Policy) {}, "the last one is 0.4s, not 0.9s"},
		{"one wait only", retrying("backoffMultiplier", "3", "maxAttempts", "2"), func(p *policy.Policy) { p.Retry.Attempts = 2 }, ""},
		{"a first wait longer than the longest", retrying("initialBackoff", `"5s"`), func(p *policy.Policy) { p.Retry.Backoff.Base = time.Second }, ""},
		{"waits longer than a year", retrying("maxBackoff", `"315576000000s"`), func(p *policy.Policy) { p.Retry.Backoff.Cap = longest }, "is 31536000s here"},
		{"a wait of a nanosecond", retrying("initialBackoff", `"0.000000001s"`), func(p *policy.Policy) { p.Retry.Backoff.Base = 10 * time.Microsecond }, "is 0.00001s here"},
		{"C74: codes in small letters", retrying("retryableStatusCodes", `["unavailable"]`), func(p *policy.Policy) {}, `grpc-go refuses "unavailable"`},
		{"codes by their number", retrying("retryableStatusCodes", `[14, 13]`), func(p *policy.Policy) { p.GRPC.Transient = []policy.GRPCCode{grpccode.Internal} }, "gabion retries INTERNAL because the list has it"},
		{"conflicts that are listed are repeated as often", retrying("retryableStatusCodes", `["UNAVAILABLE", "ABORTED"]`), func(p *policy.Policy) {
			p.GRPC, p.Retry.Contention = policy.GRPC{}, policy.ContentionRetry{Attempts: 4, Backoff: p.Retry.Backoff}
		}, "ABORTED is a conflict here"},
		{"UNAVAILABLE is not listed", retrying("retryableStatusCodes", `["RESOURCE_EXHAUSTED"]`), func(p *policy.Policy) {
			p.GRPC = policy.GRPC{Transient: []policy.GRPCCode{grpccode.ResourceExhausted}, Permanent: []policy.GRPCCode{grpccode.Unavailable, grpccode.Aborted}}
		}, "UNAVAILABLE is not listed"},
		{"OK and CANCELLED are no failures", retrying("retryableStatusCodes", `["UNAVAILABLE", "OK", "CANCELLED"]`), func(p *policy.Policy) {}, "does not retry CANCELLED"},
		{"an attempt has a timeout only where its end may be retried", retrying("retryableStatusCodes", `["UNAVAILABLE", "DEADLINE_EXCEEDED"]`), func(p *policy.Policy) {
			p.Timeout.Attempt, p.GRPC.Transient = 0, []policy.GRPCCode{grpccode.DeadlineExceeded}
		}, "as DEADLINE_EXCEEDED is listed"},
		{"and else has none", retrying(), func(p *policy.Policy) {}, "timeout.attempt: off, as in gRPC"},
		{"a code twice is there once", retrying("retryableStatusCodes", `["UNAVAILABLE", 13, 13]`), func(p *policy.Policy) { p.GRPC.Transient = []policy.GRPCCode{grpccode.Internal} }, ""},
	} {
		want := base.Clone()
		c.want(&want)
		got := parsed(t, c.text, Options{})
		if !reflect.DeepEqual(got.Methods[0].Policy, want) {
			t.Errorf("%s:\n%+v, want\n%+v", c.fact, got.Methods[0].Policy, want)
		}
		noted(t, c.fact, got.Notes, c.note)
	}
}

func noted(t *testing.T, fact string, notes []Finding, part string) {
	t.Helper()
	if !slices.ContainsFunc(notes, func(n Finding) bool { return strings.Contains(n.Reason, part) }) {
		t.Errorf("%s: nothing notes %q:\n%v", fact, part, notes)
	}
	for _, n := range notes {
		if n.Line < 1 || n.Col < 1 || n.File != "sc.json" {
			t.Errorf("%s: no position: %+v", fact, n)
		}
	}
}

func TestWhatTheRestOfAConfigComesTo(t *testing.T) {
	hedging := func(fields string) string { return method(`"hedgingPolicy": {` + fields + "}") }
	throttled := func(fields string) string {
		return `{"retryThrottling": {` + fields + "}, " + strings.TrimPrefix(retrying(), "{")
	}
	hedge := func(p *policy.Policy, h policy.Hedge) {
		p.Safe, p.Hedge, p.GRPC.Permanent = true, h, []policy.GRPCCode{grpccode.Aborted}
		p.Timeout.Attempt = policy.Off
	}
	budget := func(capacity int, ratio policy.Ratio) func(*policy.Policy) {
		return func(p *policy.Policy) {
			p.Safe, p.Retry.Attempts, p.Retry.Backoff = true, 4, backoff.Full(100*ms, time.Second)
			p.Timeout.Attempt = policy.Off
			p.Retry.Budget = policy.Budget{Shape: policy.BudgetGRPC, Capacity: capacity, Ratio: ratio}
			p.GRPC.Permanent = []policy.GRPCCode{grpccode.Aborted}
		}
	}
	const unavailable = `"nonFatalStatusCodes": ["UNAVAILABLE"]`
	for _, c := range []struct {
		fact string
		text string
		want func(*policy.Policy) // of a policy that does not retry
		note string
	}{
		{"nothing but a timeout", method(`"timeout": "2.5s"`), func(p *policy.Policy) { p.Timeout.Call, p.Timeout.Body = 2500*ms, 2500*ms }, "timeout is that of the whole call"},
		{"a timeout of a year and more", method(`"timeout": "99999999999s"`), func(p *policy.Policy) { p.Timeout.Call = policy.Off }, "more than a year, and off here"},
		{"a timeout of a nanosecond", method(`"timeout": ".000000001s"`), func(p *policy.Policy) { p.Timeout.Call, p.Timeout.Body = 100*time.Microsecond, ms }, "raised to 0.0001s"},
		{"no timeout", method(`"waitForReady": true`), func(p *policy.Policy) {}, "timeout: gRPC has none here"},
		{"waitForReady", method(`"waitForReady": true`), func(p *policy.Policy) {}, "waitForReady has no counterpart"},
		{"sizes", method(`"maxRequestMessageBytes": 4096`), func(p *policy.Policy) {}, "maxRequestMessageBytes has no counterpart"},
		{"hedging", hedging(`"maxAttempts": 3, "hedgingDelay": "0.5s", ` + unavailable), func(p *policy.Policy) {
			hedge(p, policy.Hedge{Max: 2, Delay: 500 * ms})
		}, "grpc-go has no hedging"},
		{"hedging that goes on after a conflict", hedging(`"maxAttempts": 3, "hedgingDelay": "0.5s", "nonFatalStatusCodes": ["UNAVAILABLE", "ABORTED"]`), func(p *policy.Policy) {
			hedge(p, policy.Hedge{Max: 2, Delay: 500 * ms})
			p.GRPC.Permanent, p.Retry.Contention.Attempts = nil, 3
		}, "ABORTED is a conflict here"},
		{"hedging all at once", hedging(`"maxAttempts": 9, ` + unavailable), func(p *policy.Policy) {
			hedge(p, policy.Hedge{Max: 4, Percentile: policy.Off})
		}, "sent as often as it may be, at once"},
		{"hedging after a year", hedging(`"maxAttempts": 3, "hedgingDelay": "40000000s", ` + unavailable), func(p *policy.Policy) {
			hedge(p, policy.Hedge{Max: 2, Delay: policy.Off})
		}, "only a failure brings a hedge"},
		{"hedges that do not fit into the call", hedging(`"maxAttempts": 4, "hedgingDelay": "7s", ` + unavailable), func(p *policy.Policy) {
			hedge(p, policy.Hedge{Max: 2, Delay: 7 * time.Second})
		}, "2 hedges fit into the call's 15s"},
		{"no hedge fits", hedging(`"maxAttempts": 4, "hedgingDelay": "20s", ` + unavailable), func(p *policy.Policy) { hedge(p, policy.Hedge{}) }, "0 hedges fit"},
		{"throttling", throttled(`"maxTokens": 10, "tokenRatio": 0.1`), budget(10, 0.1), ""},
		{"throttling in parts", throttled(`"maxTokens": 2.5, "tokenRatio": 0.12345`), budget(2, 0.123), "tokenRatio: 0.12345 is 0.123 here"},
		{"less than a token", throttled(`"maxTokens": 0.5, "tokenRatio": 0.0001`), budget(1, 0.001), "maxTokens: 0.5 is 1 here"},
		{"successes that pay for more than a failure", throttled(`"maxTokens": 1e3, "tokenRatio": 7`), budget(1000, 1), "tokenRatio: 7 is 1 here"},
		{"no throttling", retrying(), func(p *policy.Policy) { budget(0, 0)(p); p.Retry.Budget = policy.Budget{} }, "gabion's budget bounds retries"},
		{"null is what is not there", method(`"timeout": null, "retryPolicy": null`), func(p *policy.Policy) {}, ""},
	} {
		want := policy.Policy{Retry: policy.Retry{Attempts: 1}}
		c.want(&want)
		got := parsed(t, c.text, Options{})
		if !reflect.DeepEqual(got.Methods[0].Policy, want) {
			t.Errorf("%s:\n%+v, want\n%+v", c.fact, got.Methods[0].Policy, want)
		}
		noted(t, c.fact, got.Notes, c.note)
	}
}

// A config is copied exactly when nothing is left that gabion would add.
func TestTheExactFormAddsNothing(t *testing.T) {
	p := only(t, retrying(), Options{Exact: true})
	r := p.Resolved()
	if !r.Breaker.Off || !r.Bulkhead.Off || !r.Pace.Off || !r.Retry.Budget.Off || r.Timeout.Call != policy.Off || r.Timeout.Attempt != policy.Off ||
		r.Timeout.Last != policy.Off || r.Timeout.Idle != policy.Off || r.Retry.Hold != policy.Off || r.Retry.MaxAfter != longest || r.Hedge.Max != 0 {
		t.Errorf("%+v", r)
	}
	for _, n := range parsed(t, retrying(), Options{Exact: true}).Notes {
		if strings.Contains(n.Reason, "gabion's") || strings.Contains(n.Reason, "gabion adds") {
			t.Errorf("it adds: %s", n.Reason)
		}
	}
	if p := only(t, method(`"timeout": "1s"`), Options{Exact: true}); p.Timeout.Call != time.Second || p.Retry.Attempts != 1 {
		t.Errorf("%+v", p)
	}
}

func TestEachMethodHasTheConfigThatNamesItBest(t *testing.T) {
	c := parsed(t, `{"methodConfig": [
		{"name": [{"service": "a.B", "method": "Get"}, {"service": "a.C"}], "timeout": "1s"},
		{"name": [{"service": "a.B"}], "timeout": "2s"},
		{"name": [{}], "timeout": "3s"}, {"name": [], "timeout": "4s"}, {"timeout": "5s"}]}`, Options{})
	if len(c.Methods) != 3 || c.Methods[0].Dependency != "a.B.Get" || c.Methods[1].Dependency != "a.B" || c.Methods[2].Dependency != "all" {
		t.Errorf("%+v", c.Methods)
	}
	for path, want := range map[string]int{"/a.B/Get": 0, "/a.C/Get": 0, "/a.B/Put": 1, "/a.D/Get": 2, "": 2, "odd": 2} {
		if i, ok := c.Find(path); !ok || i != want {
			t.Errorf("%s: %d, %v", path, i, ok)
		}
	}
	if n := testing.AllocsPerRun(100, func() { c.Find("/a.D/Get") }); n > 0 {
		t.Errorf("to find a config takes %v allocations", n)
	}
	if _, ok := parsed(t, retrying(), Options{}).Find("/x.Y/Z"); ok {
		t.Error("found a method that the config does not name")
	}
}

// A megabyte of configs is read in a moment, also if all their names are alike.
func TestAMegabyteOfConfigs(t *testing.T) {
	var b strings.Builder
	b.WriteString(`{"methodConfig": [{"name": [{}]}`)
	for i := 0; b.Len() < 1<<20-100; i++ {
		fmt.Fprintf(&b, `,{"name":[{"service":"x%c"}]}`, rune(0x4e00+i))
	}
	b.WriteString("]}")
	c, found := Parse("sc.json", []byte(b.String()), Options{})
	if c == nil || len(c.Methods) < 30_000 {
		t.Fatal(found)
	}
	names := map[string]bool{}
	for _, m := range c.Methods {
		names[m.Dependency] = true
	}
	if len(names) != len(c.Methods) {
		t.Errorf("%d names for %d configs", len(names), len(c.Methods))
	}
}

func TestManyNamesAreNotSpokenOf(t *testing.T) {
	m := Method{Names: []string{"/a/", "/b/", "/c/", "/d/", "/e/", "/f/", "/g/", "/h/i", "/j/"}}
	if got := m.Spoken(); got != "/a/*, /b/*, /c/*, /d/*, /e/*, /f/*, /g/*, /h/i and 1 more" {
		t.Error(got)
	}
}

// Whatever a service is called, a file of gabion takes the name.
func TestNamesOfDependencies(t *testing.T) {
	c := parsed(t, `{"methodConfig": [{"name": [{"service": "é/x y"}]}, {"name": [{"service": "é/x-y"}]}, {"name": [{"service": "_"}]}, {"name": [{"service": "`+
		strings.Repeat("a", 200)+`"}]}]}`, Options{})
	var names []string
	for _, m := range c.Methods {
		names = append(names, m.Dependency)
	}
	if got := strings.Join(names, " "); got != "x-y x-y-2 all "+strings.Repeat("a", 90) {
		t.Error(got)
	}
}

func TestWhatStaysWithGRPC(t *testing.T) {
	for _, c := range []struct{ fact, text, rest string }{
		{"nothing", retrying(), ""},
		{"balancing and health", `{"loadBalancingConfig": [{"round_robin": {}}], "healthCheckConfig": {"serviceName": "x"}}`,
			`{"loadBalancingConfig": [{"round_robin": {}}], "healthCheckConfig": {"serviceName": "x"}}`},
		{"what is said of all methods is not said of those with a config of their own",
			`{"methodConfig": [{"name": [{"service": "a"}], "timeout": "1s"}, {"name": [{}], "waitForReady": true}]}`,
			`{"methodConfig": [{"name": [{"service": "a"}]}, {"name": [{}], "waitForReady": true}]}`},
	} {
		if got := parsed(t, c.text, Options{}).Rest; got != c.rest {
			t.Errorf("%s: %s", c.fact, got)
		}
	}
}
