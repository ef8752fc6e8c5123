package gabiongrpc

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/internal/grpccode"
	"github.com/gabion-go/gabion/internal/grpcconfig"
	"github.com/gabion-go/gabion/policy"
)

const shopConfig = `{
  "loadBalancingConfig": [{"round_robin": {}}],
  "methodConfig": [{
    "name": [{"service": "shop.Catalogue"}],
    "timeout": "2s",
    "retryPolicy": {
      "maxAttempts": 4, "initialBackoff": "0.1s", "maxBackoff": "1s", "backoffMultiplier": 2,
      "retryableStatusCodes": ["UNAVAILABLE"]
    }
  }, {
    "name": [{"service": "shop.Orders", "method": "Place"}],
    "timeout": "5s"
  }],
  "retryThrottling": {"maxTokens": 10, "tokenRatio": 0.1}
}`

func TestAServiceConfigAtRunTime(t *testing.T) {
	s, err := FromServiceConfig([]byte(shopConfig))
	if err != nil {
		t.Fatal(err)
	}
	p, ok := s.Policy("/shop.Catalogue/Find")
	if !ok || !p.Safe || p.Timeout.Call != 2*time.Second || p.Retry.Attempts != 4 || p.Retry.Backoff != backoff.Full(100*time.Millisecond, time.Second) ||
		p.Retry.Budget != (policy.Budget{Shape: policy.BudgetGRPC, Capacity: 10, Ratio: 0.1}) {
		t.Errorf("%v, %+v", ok, p)
	}
	if p, ok := s.Policy("/shop.Orders/Place"); !ok || p.Safe || p.Retry.Attempts != 1 || p.Timeout.Call != 5*time.Second {
		t.Errorf("%v, %+v", ok, p)
	}
	if _, ok := s.Policy("/shop.Orders/Cancel"); ok {
		t.Error("a method that nothing is said of has a policy")
	}
	if name, ok := s.Dependency("/shop.Orders/Place"); name != "shop.Orders.Place" || !ok {
		t.Error(name, ok)
	}
	if got := s.Rest(); got != `{"loadBalancingConfig": [{"round_robin": {}}]}` {
		t.Error(got)
	}
	if len(s.Notes) == 0 || s.Notes[0].Line == 0 || !strings.HasPrefix(s.Notes[0].Error(), "service config:") {
		t.Errorf("%v", s.Notes)
	}
	if p, _ := s.Exact().Policy("/shop.Catalogue/Find"); !p.Breaker.Off || p.Retry.Attempts != 4 {
		t.Errorf("%+v", p)
	}
	if _, err := gabion.NewRegistry(s.Policies()); err != nil {
		t.Error(err)
	}
}

// What callers write into what they get changes nothing.
func TestPoliciesOfAServiceConfigAreCopies(t *testing.T) {
	s, err := FromServiceConfig([]byte(strings.Replace(shopConfig, `["UNAVAILABLE"]`, `["UNAVAILABLE", "INTERNAL"]`, 1)))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		p, _ := s.Policy("/shop.Catalogue/Find")
		all := s.Policies()["shop.Catalogue"]
		for _, list := range [][]policy.GRPCCode{p.GRPC.Transient, all.GRPC.Transient} {
			if list[0] != grpccode.Internal {
				t.Error(list)
			}
			list[0] = grpccode.Unknown
		}
	}
}

func TestTheZeroServiceConfigHasNothing(t *testing.T) {
	var s ServiceConfig
	if _, ok := s.Policy("/a/b"); ok || len(s.Policies()) != 0 || s.Rest() != "" || s.Exact() != &s {
		t.Error("it has something")
	}
	if _, ok := s.Dependency("/a/b"); ok {
		t.Error("it has a dependency")
	}
}

func TestMistakesOfAServiceConfigAtRunTime(t *testing.T) {
	_, err := FromServiceConfig([]byte(`{"methodConfig": [{"name": [{}], "timeout": "1"}, {"retryPolicy": 3}]}`))
	var found Findings
	if !errors.As(err, &found) || len(found) != 2 || found[0].Line != 1 || found[0].Col != 45 {
		t.Fatal(err)
	}
	if want := "service config:1:45: timeout: \"1\" has no unit\n"; !strings.HasPrefix(err.Error(), want) {
		t.Error(err)
	}
	if _, err := FromServiceConfig(nil); err == nil {
		t.Error("nothing is a config")
	}
}

// accepts asks grpc-go.
func accepts(js string) error {
	conn, err := grpc.NewClient("passthrough:///nowhere", grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultServiceConfig(js))
	if conn != nil {
		conn.Close()
	}
	return err
}

// agree holds a reading to grpc-go's: where one refuses what the other takes, a finding or a
// note says so.
func agree(t *testing.T, js string) {
	t.Helper()
	theirs := accepts(js)
	c, found := grpcconfig.Parse("sc.json", []byte(js), grpcconfig.Options{})
	refused, looser, ended := false, strings.Contains(js, `"unavailable"`) || strings.Contains(js, `\u0055`), false
	for _, f := range found {
		refused = refused || !f.Differs
		ended = ended || f.Differs && endsReading(f.Reason)
	}
	if c != nil {
		for _, n := range c.Notes {
			looser = looser || n.Differs
		}
	}
	switch {
	case theirs == nil && refused:
		t.Errorf("grpc-go takes what is refused here:\n%s\n%v", js, found)
	case theirs != nil && !refused && !looser && !ended:
		t.Errorf("grpc-go refuses what is taken here:\n%s\n%v\n%v", js, theirs, found)
	}
}

// endsReading reports a mistake of which grpc-go knows nothing, and behind which others are
// not seen.
func endsReading(reason string) bool {
	return strings.Contains(reason, "twice") || strings.Contains(reason, "UTF-8") || strings.Contains(reason, "bytes") || strings.Contains(reason, "deeply")
}

// pools are what values are drawn from: good ones, and mistakes of all kinds.
var pools = map[string][]string{
	"maxAttempts":            {"2", "3", "5", "10", "1", "0", "-1", "3.0", "3e0", `"3"`, "null", "true", "99999999999999999999", "{}"},
	"initialBackoff":         {`"0.1s"`, `"1s"`, `".5s"`, `"5.s"`, `"0s"`, `"0"`, `"1"`, `"-1s"`, `"100ms"`, `"315576000000s"`, `"315576000001s"`, `"0.1234567890s"`, `"+1s"`, `"1.2.3s"`, `"s"`, "1", "null", `""`, `"-0.5s"`, `"99999999999999999999s"`},
	"backoffMultiplier":      {"2", "1", "0.5", "0", "-1", "1e400", `"2"`, "null", "2e0"},
	"retryableStatusCodes":   {`["UNAVAILABLE"]`, `[14]`, `["OK"]`, `[]`, "null", `"UNAVAILABLE"`, `["unavailable"]`, `["CANCELED"]`, `["CANCELLED", 13]`, "[17]", "[16]", "[-1]", "[1.0]", "[null]", `[true]`, `["UNAVAILABLE", "X"]`, `["\u0055NKNOWN"]`},
	"name":                   {`[{"service": "a.B"}]`, `[{"service": "a.B", "method": "C"}]`, `[{}]`, "[]", "null", `[null]`, `[{"method": "C"}]`, `[{"service": 3}]`, `[{"service": "a"}, {"service": "a"}]`, "{}", `[{"service": null}]`, `[{"Service": "x"}]`, `[{"servce": "x"}]`},
	"timeout":                {`"1s"`, `"0s"`, `"-1s"`, `"1"`, "1", "null", `"315576000001s"`},
	"waitForReady":           {"true", "false", "null", `"true"`, "1"},
	"maxRequestMessageBytes": {"1", "-1", "1.5", `"1"`, "null", "9223372036854775807", "9223372036854775808", "1e3"},
	"maxTokens":              {"10", "0.5", "1000", "1001", "0", "-1", `"10"`, "null", "1e3"},
	"tokenRatio":             {"0.1", "1", "2", "0", "-0.1", "null", `"0.1"`},
}

type drawer struct{ *rand.Rand }

// value draws a value of a key, mostly the first, which is right.
func (d drawer) value(key string) string {
	pool := pools[key]
	if d.IntN(24) > 0 {
		return pool[0]
	}
	return pool[d.IntN(len(pool))]
}

// object writes an object of some keys, with a misspelling now and then.
func (d drawer) object(of map[string]string) string {
	var fields []string
	for _, key := range []string{"name", "timeout", "waitForReady", "maxRequestMessageBytes", "retryPolicy", "hedgingPolicy", "maxAttempts", "initialBackoff", "maxBackoff", "backoffMultiplier", "retryableStatusCodes", "maxTokens", "tokenRatio", "methodConfig", "retryThrottling", "healthCheckConfig", "loadBalancingPolicy"} {
		text, has := of[key]
		if !has {
			continue
		}
		switch d.IntN(100) {
		case 0:
			continue
		case 1:
			key = strings.ToUpper(key)
		case 2:
			key = key[1:]
		}
		fields = append(fields, fmt.Sprintf("%q: %s", key, text))
		if d.IntN(150) == 0 {
			fields = append(fields, fields[d.IntN(len(fields))])
		}
	}
	return "{" + strings.Join(fields, ", ") + "}"
}

func (d drawer) config() string {
	var methods []string
	for range d.IntN(3) {
		of := map[string]string{"name": d.value("name")}
		for _, key := range []string{"timeout", "waitForReady", "maxRequestMessageBytes"} {
			if d.IntN(2) == 0 {
				of[key] = d.value(key)
			}
		}
		if d.IntN(3) > 0 {
			of["retryPolicy"] = d.object(map[string]string{
				"maxAttempts": d.value("maxAttempts"), "initialBackoff": d.value("initialBackoff"), "maxBackoff": d.value("initialBackoff"),
				"backoffMultiplier": d.value("backoffMultiplier"), "retryableStatusCodes": d.value("retryableStatusCodes"),
			})
		}
		methods = append(methods, d.object(of))
	}
	of := map[string]string{"methodConfig": "[" + strings.Join(methods, ", ") + "]"}
	if d.IntN(2) == 0 {
		of["retryThrottling"] = d.object(map[string]string{"maxTokens": d.value("maxTokens"), "tokenRatio": d.value("tokenRatio")})
	}
	if d.IntN(4) == 0 {
		of["healthCheckConfig"] = []string{`{"serviceName": "x"}`, `{"serviceName": 3}`, "null", "[]"}[d.IntN(4)]
		of["loadBalancingPolicy"] = []string{`"round_robin"`, "3", "null"}[d.IntN(3)]
	}
	return d.object(of)
}

// What grpc-go takes is taken, and what it refuses is refused, unless a finding or a note
// says that the two differ there.
func TestServiceConfigsAreJudgedAsGRPCJudgesThem(t *testing.T) {
	for _, js := range []string{
		"", " ", "{}", "null", "[]", "3", `"x"`, "{", `{"a": 1,}`, "{}{}", "\ufeff{}", "{\"a\": \"\xff\"}", `{"methodConfig": null}`, `{"methodConfig": [null]}`,
		`{"loadBalancingConfig": [{"round_robin": {}}]}`, `{"loadBalancingConfig": []}`, `{"loadBalancingConfig": [{}]}`, `{"loadBalancingConfig": [{"round_robin": {}, "pick_first": {}}]}`,
		`{"loadBalancingConfig": [null]}`, `{"loadBalancingConfig": "round_robin"}`, `{"loadBalancingConfig": [{"round_robin": {}}, {}]}`, `{"loadBalancingConfig": [{"pick_first": {}}, 3]}`,
		`{"retryThrottling": {"maxTokens": 0}}`, `{"methodConfig": [], "retryThrottling": {"maxTokens": 0}}`, shopConfig,
		`{"methodConfig": [{"retryPolicy": {}}]}`, `{"methodConfig": [{"retryPolicy": {"maxAttempts": "x"}}]}`, `{"methodConfig": [{"name": [], "retryPolicy": {}}]}`,
		`{"methodConfig": [{"retryPolicy": {"initialBackoff": "x"}}]}`, `{"methodConfig": [{"retryPolicy": {"backoffMultiplier": "x"}}]}`, `{"methodConfig": [{"retryPolicy": {"retryableStatusCodes": [99]}}]}`,
		`{"x": ` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + "}", `{"x": ` + strings.Repeat("[", 10_001) + strings.Repeat("]", 10_001) + "}",
	} {
		agree(t, js)
	}
	d := drawer{rand.New(rand.NewPCG(63, 1))}
	for range 4000 {
		agree(t, d.config())
	}
}

func FuzzServiceConfigsAreJudgedAsGRPCJudgesThem(f *testing.F) {
	d := drawer{rand.New(rand.NewPCG(63, 2))}
	for range 30 {
		f.Add(d.config())
	}
	f.Add(shopConfig)
	f.Fuzz(func(t *testing.T, js string) {
		if strings.Contains(strings.ToLower(js), "loadbalancing") || strings.Contains(js, `\u`) || len(js) > 10_000 {
			return // which balancers there are only the program knows; each key can be spelled with escapes
		}
		agree(t, js)
	})
}
