package scenario

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gabion-go/gabion/lab/internal/draw"
)

func TestWhatIsWrongWithQuotas(t *testing.T) {
	const call, service = "{to: db}", "time: exp 20ms}"
	for _, c := range []struct{ fact, call, quotas, says string }{
		{"no list", call, "{exact: true}", "quotas.list is missing"},
		{"no unit", call, "{list: [500]}", "has no unit"},
		{"an estimate", call, "{list: [500 requests/1m estimate 3]}", "a service knows nothing of that"},
		{"nine", call, "{list: [" + strings.Repeat("500 requests/1m, ", 8) + "1 requests/1m]}", "9 quotas are too many"},
		{"two minds", call, "{list: [500 requests/1m], exact: true, retry_after: 1s}", "retry_after contradicts exact"},
		{"an unknown word", call, "{list: [500 requests/1m], tells: lies}", "is not known"},
		{"no call uses it", call, "{list: [500 tokens/1m]}", "db: no call of it uses tokens"},
		{"no quota is of it", "{to: db, uses: [3 usd]}", "{list: [500 requests/1m]}", "usd is used, and no service has a quota of it"},
		{"requests", "{to: db, uses: [3 requests]}", "{list: [500 requests/1m]}", "is one of each request anyway"},
		{"used twice", "{to: db, uses: [3 tokens, 4 tokens]}", "{list: [500 tokens/1m]}", "says twice what it uses of tokens"},
		{"no amount", "{to: db, uses: [many tokens]}", "{list: [500 tokens/1m]}", "is no amount of tokens"},
		{"a duration", "{to: db, uses: [3ms tokens]}", "{list: [500 tokens/1m]}", "is no amount of tokens"},
		{"an amount of nothing", "{to: db, uses: [900]}", "{list: [500 tokens/1m]}", "has no unit"},
		{"a p99 below the median", "{to: db, uses: [lognormal 900/100 tokens]}", "{list: [5000 tokens/1m]}", "a p99 below its median"},
		{"an estimate of nothing", "{to: db, estimates: 3}", "{list: [500 requests/1m]}", "estimates means nothing without uses"},
	} {
		text := strings.Replace(with(t, call, c.call), service, strings.TrimSuffix(service, "}")+", quotas: "+c.quotas+"}", 1)
		_, err := Parse("x.yaml", []byte(text))
		var found Findings
		if !errors.As(err, &found) || !strings.Contains(found.Error(), c.says) {
			t.Errorf("%s: %v, want %s", c.fact, err, c.says)
		}
	}
}

func TestUsagesMeanWhatTheySay(t *testing.T) {
	for text, want := range map[string]float64{
		"900 tokens": 900, "exp 900 tokens": 900, "uniform 200..1060 tokens": 630, "0.25 usd": 0.25, "exp 20 + 5 tokens": 25,
		"90% uniform 200..1060 | 10% uniform 2000..6000 tokens": 967, "lognormal 700/5000 tokens": float64(draw.LogNormal(700*time.Millisecond, 5000*time.Millisecond).Mean()) / 1e6,
	} {
		v, problem, _ := parseUsage(text)
		if problem != "" {
			t.Errorf("%s %s", text, problem)
			continue
		}
		if got := float64(v.(usage).Mean()) / 1e6; got < want*0.97 || got > want*1.03 {
			t.Errorf("%s means %v, want %v", text, got, want)
		}
	}
}

// What a quota allows bounds a service as its workers do: 200,000 tokens a minute are 3.45 calls of 967 a second.
func TestAQuotaIsACapacity(t *testing.T) {
	f, err := Open("paid-api")
	if err != nil {
		t.Fatal(err)
	}
	if c, err := f.Capacity(0); err != nil || c < 3.4 || c > 3.5 {
		t.Errorf("%v a second: %v", c, err)
	}
}

// paid is the scenario paid-api with something else in it.
func paid(t *testing.T, pairs ...string) string {
	t.Helper()
	text, err := Text("paid-api")
	if err != nil {
		t.Fatal(err)
	}
	s := string(text)
	for i := 0; i < len(pairs); i += 2 {
		if !strings.Contains(s, pairs[i]) {
			t.Fatalf("paid-api does not say %q", pairs[i])
		}
		s = strings.Replace(s, pairs[i], pairs[i+1], 1)
	}
	return s
}

// The quotas of the policy are what helps in the story. Without an estimate they do as well: answers correct it, and what
// is left is told. So no rule asks for one.
func TestWhatTheQuotasOfAPolicyAreFor(t *testing.T) {
	if testing.Short() {
		t.Skip("long: three runs of six minutes")
	}
	const quotas = "    rate_limit: {quotas: [500 requests/1m, 200000 tokens/1m estimate 500]}\n"
	over := func(pairs ...string) float64 {
		return figures(t, paid(t, append(pairs, "duration: 10m", "duration: 6m")...), 1)("over_quota", "model")
	}
	with, without := over(), over(quotas, "")
	silent := over(", estimates: 0.5", "", quotas, "    rate_limit: {quotas: [200000 tokens/1m]}\n")
	t.Logf("refused of the requests while there is more work than quota: %.2f %%, without quotas %.2f %%, without an estimate %.2f %%", 100*with, 100*without, 100*silent)
	if with > 0.005 || silent > 0.005 || without < 0.05 {
		t.Error("it is not what makes the difference")
	}
}

// One attempt at one of three endpoints that fails is what a call has lost (rule G067).
func TestWhatASecondAttemptIsFor(t *testing.T) {
	data, err := os.ReadFile("testdata/endpoints.yaml")
	if err != nil {
		t.Fatal(err)
	}
	failing := strings.Replace(string(data), "kind: down", "kind: errors", 1)
	once := strings.Replace(failing, "safe: true", "safe: true, retry: off", 1)
	if once == failing {
		t.Fatal("the scenario has changed")
	}
	two, one := figures(t, failing, 1)("failed", ""), figures(t, once, 1)("failed", "")
	t.Logf("%.3f %% fail with a second attempt, and %.3f %% without", 100*two, 100*one)
	if two > 0.0001 || one < 0.001 {
		t.Error("a second attempt makes no difference")
	}
}
