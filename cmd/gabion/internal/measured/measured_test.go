package measured

import (
	"bytes"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gabion-go/gabion/config"
	"github.com/gabion-go/gabion/internal/formulas"
	"github.com/gabion-go/gabion/internal/lint"
	"github.com/gabion-go/gabion/internal/policyfile"
	"github.com/gabion-go/gabion/internal/recording"
)

// A share has two digits of what is less: not all of the calls are not 100 %.
func TestNotAllIsNot100Percent(t *testing.T) {
	for x, want := range map[float64]string{
		0: "0 %", 0.0123: "1.2 %", 0.32: "32 %", 0.5: "50 %", 0.7: "70 %", 0.986: "98.6 %", 0.995: "99.5 %", 99_999.0 / 100_000: "99.999 %", 1: "100 %",
	} {
		if got := percent(x); got != want {
			t.Errorf("%v: %s, want %s", x, got, want)
		}
	}
}

// The bounds are those of the buckets that contrib/gabionprom exposes.
func TestTheBoundsAreThoseOfTheMetrics(t *testing.T) {
	code, err := os.ReadFile("../../../../contrib/gabionprom/histogram.go")
	if err != nil {
		t.Fatal(err)
	}
	list := regexp.MustCompile(`(?s)var bounds = [^{]*\{(.*?)\}`).FindSubmatch(code)
	var bounds []time.Duration
	for s := range strings.SplitSeq(string(list[1]), ",") {
		if s = strings.TrimSpace(s); s != "" {
			f, err := strconv.ParseFloat(s, 64)
			if err != nil {
				t.Fatal(err)
			}
			bounds = append(bounds, seconds(f))
		}
	}
	if !slices.Equal(bounds, formulas.Bounds[:]) {
		t.Errorf("the metrics have %v", bounds)
	}
}

// The names that are read are those that contrib/gabionprom exposes.
func TestMetricsAreThoseThatThereAre(t *testing.T) {
	code, err := os.ReadFile("metrics.go")
	if err != nil {
		t.Fatal(err)
	}
	docs, err := os.ReadFile("../../../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile(`"(gabion_[a-z_]+)"`).FindAllSubmatch(code, -1)
	if len(names) < 7 {
		t.Fatalf("%d names", len(names))
	}
	for _, n := range names {
		if name := string(n[1]); name != "gabion_" && !bytes.Contains(docs, []byte("| `"+name+"` |")) {
			t.Errorf("%s is not exposed", name)
		}
	}
}

// metrics is what an endpoint answers for a dependency with 20,000 calls in 1,000 s.
const metrics = `# TYPE process_start_time_seconds gauge
process_start_time_seconds 1.7e+09
# TYPE gabion_calls_total counter
gabion_calls_total{dependency="stock",operation="",outcome="ok"} 19000
gabion_calls_total{dependency="stock",operation="",outcome="bulkhead_full"} 1000
# TYPE gabion_attempts_total counter
gabion_attempts_total{dependency="stock",kind="first",operation="",result="success"} 19000
gabion_attempts_total{dependency="stock",kind="retry",operation="",result="timeout"} 400
# TYPE gabion_timeouts_total counter
gabion_timeouts_total{dependency="stock",layer="attempt"} 400
# TYPE gabion_bulkhead_limit gauge
gabion_bulkhead_limit{dependency="stock"} 10
# TYPE gabion_attempt_duration_seconds histogram
gabion_attempt_duration_seconds_bucket{dependency="stock",operation="",result="success",le="0.5"} 15000
gabion_attempt_duration_seconds_bucket{dependency="stock",operation="",result="success",le="1"} 18900
gabion_attempt_duration_seconds_bucket{dependency="stock",operation="",result="success",le="2"} 19000
gabion_attempt_duration_seconds_bucket{dependency="stock",operation="",result="success",le="+Inf"} 19000
gabion_attempt_duration_seconds_sum{dependency="stock",operation="",result="success"} 9000
gabion_attempt_duration_seconds_count{dependency="stock",operation="",result="success"} 19000
`

func TestMetricsAreRead(t *testing.T) {
	all, err := readMetrics(strings.NewReader(metrics), time.Unix(1_700_001_000, 0))
	if err != nil {
		t.Fatal(err)
	}
	v := all["stock"]
	if v.calls != 20000 || v.rate() != 20 || v.retries != 400 || v.cut != 400 || v.limit != 10 || v.took != (formulas.Counts{11: 15_000, 12: 3900, 13: 100}) || v.facts().P99 != 988*time.Millisecond {
		t.Errorf("%+v", v)
	}
	for _, none := range []string{"", "up 1\n", "}{", "<html>"} {
		if all, err := readMetrics(strings.NewReader(none), time.Now()); len(all) > 0 || err == nil {
			t.Errorf("%q: %v, %v", none, all, err)
		}
	}
}

// look is what is found in a file with what was measured.
func look(t *testing.T, s *Source, text []byte) (found []lint.Finding) {
	t.Helper()
	f, broken := config.Read("gabion.yaml", text)
	if len(broken) > 0 {
		t.Fatal(broken)
	}
	all := lint.Run([]*config.File{f}, lint.Options{Measured: s.Facts(), More: s.Findings(f)}).Findings
	for _, one := range all {
		if s.Settle(&one, all, f, text) {
			found = append(found, one)
		}
	}
	s.Dependencies()
	return found
}

// Whatever a source holds, nothing panics.
func FuzzSources(f *testing.F) {
	f.Add([]byte(metrics))
	f.Add([]byte(`{"version":1,"dependencies":[{"name":"a","calls":1e308}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, read := range []func() (map[string]*vitals, error){
			func() (map[string]*vitals, error) { return readMetrics(bytes.NewReader(data), time.Now()) },
			func() (map[string]*vitals, error) { return readPage(bytes.NewReader(data)) },
			func() (map[string]*vitals, error) {
				all, _, err := readRecording(recording.Entries(bytes.NewReader(data)))
				return all, err
			},
		} {
			all, _ := read()
			look(t, &Source{all: all}, []byte("version: 1\ndependencies: {stock: {}, a: {}}\n"))
		}
	})
}

// Behind each line is a rule that there is.
func TestTheRulesBehindTheLinesAreRules(t *testing.T) {
	for _, id := range []string{ruleTimeout, ruleFar, ruleBudget, ruleUnsafe, ruleFlap, ruleBulkhead, ruleRetention} {
		if !slices.ContainsFunc(lint.Rules(), func(r lint.Rule) bool { return r.ID == id }) {
			t.Errorf("%s is no rule", id)
		}
	}
}

// All lines pass the rule, also those that propose to change something else than the
// attempt's timeout.
func TestTheRuleKnowsWhatMakesAPolicyShorter(t *testing.T) {
	text := []byte("version: 1\ndependencies:\n  stock: {timeout: {call: 10s, attempt: 2s}, breaker: {open: 1s}}\n")
	f, _ := config.Read("f", text)
	for change, want := range map[string]bool{
		"timeout.attempt 1s": true, "timeout.attempt 3s": false, "timeout.call 9s": true, "timeout.call 11s": false,
		"breaker.slow_call 1s": true, "breaker.slow_call 1900ms": false, "breaker.open 500ms": true, "breaker.open 3s": false,
		"bulkhead.queue_timeout 100ms": true, "bulkhead.queue_timeout 2s": false, "bulkhead.limit 10": true, "bulkhead.limit 200": false,
		"timeout.percentile 99.9%": true, "retry.attempts 2": false, "timeout.call off": false,
	} {
		path, value, _ := strings.Cut(change, " ")
		fix := []policyfile.Change{{Dependency: "stock", Path: path, Value: value}}
		if _, err := policyfile.Edit("f", text, fix); err != nil {
			t.Fatal(change, err)
		}
		if got := shortens(f, text, fix); got != want {
			t.Errorf("%s shortens: %t", change, got)
		}
	}
}
