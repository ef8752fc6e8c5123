package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// healthy is a service that calls a dependency 60 times a minute and a second one 6 times,
// and all is well: a few failures, a few retries that succeed.
var healthy = map[string]string{
	`gabion_calls_total{outcome="ok"}`:                     "0+60x400",
	`gabion_calls_total{outcome="attempts_exhausted"}`:     "0+0x400",
	`gabion_attempts_total{kind="first",result="success"}`: "0+59x400",
	`gabion_attempts_total{kind="first",result="server"}`:  "0+1x400",
	`gabion_attempts_total{kind="retry",result="success"}`: "0+1x400",
	`gabion_attempts_total{kind="retry",result="server"}`:  "0+0x400",
	`gabion_resent_below_total{}`:                          "0x400",
	`gabion_retried_calls_total{result="success"}`:         "0+1x400",
	`gabion_retried_calls_total{result="failure"}`:         "0+0x400",

	`gabion_retries_suppressed_total{reason="budget_exhausted"}`: "0x400",

	"gabion_attempts_until_success_sum":   "0+61x400",
	"gabion_attempts_until_success_count": "0+60x400",

	`gabion_attempt_duration_seconds_bucket{result="success",le="0.01"}`: "0+10x400",
	`gabion_attempt_duration_seconds_bucket{result="success",le="0.1"}`:  "0+60x400",
	`gabion_attempt_duration_seconds_bucket{result="success",le="+Inf"}`: "0+60x400",

	`gabion_deadline_remaining_seconds_bucket{le="0.01"}`: "0x400",
	`gabion_deadline_remaining_seconds_bucket{le="1"}`:    "0+10x400",
	`gabion_deadline_remaining_seconds_bucket{le="5"}`:    "0+60x400",
	`gabion_deadline_remaining_seconds_bucket{le="+Inf"}`: "0+60x400",

	`gabion_breaker_partitions{state="closed"}`:    "1x400",
	`gabion_breaker_partitions{state="open"}`:      "0x400",
	`gabion_breaker_partitions{state="half_open"}`: "0x400",
	`gabion_breaker_opens_total{}`:                 "0x400",
	`gabion_breaker_slow_ratio{}`:                  "0.01x400",
	`gabion_retries_off{}`:                         "0x400",
	`gabion_bulkhead_in_flight{}`:                  "3x400",
	`gabion_bulkhead_limit{}`:                      "10x400",

	`gabion_attempts_refused_total{reason="bulkhead_full"}`: "0x400",

	`gabion_messages_total{disposition="ack",reason="done"}`:              "0+5x400",
	`gabion_messages_total{disposition="dead_letter",reason="permanent"}`: "3x400",
	`gabion_idempotency_total{result="first"}`:                            "0+9x400",
	`gabion_idempotency_total{result="mismatch"}`:                         "2x400",
	`gabion_idempotency_total{result="outcome_unknown"}`:                  "1x400",
	`gabion_dead_letters{state="waiting"}`:                                "3x400",
	`gabion_dead_letters_oldest_age_seconds{}`:                            "60+60x400",
	`gabion_dead_letters_unresolved{}`:                                    "0x400",
	`gabion_dead_letters_put_total{}`:                                     "3x400",
	`gabion_redrives_stopped{}`:                                           "0x400",
	`gabion_dead_letters_lost_total{}`:                                    "5x400",
	`gabion_dead_letter_store_up{}`:                                       "1x400",
	`gabion_config_last_reload_success{}`:                                 "1x400",
	`gabion_label_overflow_total{label="operation"}`:                      "0x400",
	`gabion_events_lost_total{}`:                                          "0x400",
}

// input writes series as promtool reads them. Those that are no dependency's get no such
// label.
func input(b *strings.Builder, all map[string]string) {
	for _, s := range slices.Sorted(maps.Keys(all)) {
		name, rest, _ := strings.Cut(strings.TrimSuffix(s, "}"), "{")
		labels := []string{`job="shop"`, `instance="a:1"`}
		if !strings.HasPrefix(name, "gabion_config_") && !strings.HasPrefix(name, "gabion_label_") && name != "gabion_dead_letter_store_up" {
			labels = append(labels, `dependency="pay"`)
		}
		if rest != "" {
			labels = append(labels, rest)
		}
		fmt.Fprintf(b, "      - series: '%s{%s}'\n        values: '%s'\n", name, strings.Join(labels, ","), all[s])
	}
}

// ruleTest is one test of promtool: after how many minutes which alerts fire. Of alerts
// that are in neither list nothing is said.
type ruleTest struct {
	series map[string]string
	at     int
	fires  []*alert
	silent []*alert

	summary string // of the first that fires, if its text is tested
}

func (r *ruleTest) write(b *strings.Builder) {
	b.WriteString("  - interval: 1m\n    input_series:\n")
	input(b, r.series)
	b.WriteString("    alert_rule_test:\n")
	for _, a := range r.fires {
		fmt.Fprintf(b, "      - eval_time: %dm\n        alertname: %s\n        exp_alerts:\n          - exp_labels: {severity: %s", r.at, a.name, a.severity)
		for _, l := range slices.Sorted(maps.Keys(a.labels)) {
			fmt.Fprintf(b, ", %s: %q", l, a.labels[l])
		}
		b.WriteString("}\n")
		if r.summary != "" {
			fmt.Fprintf(b, "            exp_annotations: {summary: %q, runbook_url: %q}\n", r.summary, runbook+a.anchor())
		}
	}
	for _, a := range r.silent {
		fmt.Fprintf(b, "      - eval_time: %dm\n        alertname: %s\n        exp_alerts: []\n", r.at, a.name)
	}
}

// testRules runs tests of the rules and returns what promtool says.
func testRules(t *testing.T, rules string, tests ...ruleTest) (string, error) {
	t.Helper()
	var b strings.Builder
	b.WriteString("rule_files: [rules.yaml]\nevaluation_interval: 1m\ntests:\n")
	for i := range tests {
		tests[i].write(&b)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "rules.yaml"), []byte(rules), 0o644); err != nil {
		t.Fatal(err)
	}
	return promtool(t, dir, "tests.yaml", b.String(), "test", "rules")
}

// rulesForTests are the rules without annotations: their texts have numbers in them that do not matter
// here.
func rulesForTests() string {
	var kept []string
	for line := range strings.Lines(string(rulesFile())) {
		if l := strings.TrimSpace(line); l != "annotations:" && !strings.HasPrefix(l, "summary:") && !strings.HasPrefix(l, "runbook_url:") {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "")
}

func all() (every []*alert) {
	for i := range alerts {
		every = append(every, &alerts[i])
	}
	return every
}

func TestNoAlertFiresInHealth(t *testing.T) {
	if testing.Short() {
		t.Skip("long: promtool plays hours of metrics")
	}
	if out, err := testRules(t, rulesForTests(), ruleTest{series: healthy, at: 30, silent: all()}, ruleTest{series: healthy, at: 120, silent: all()}); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// A redrive that stopped by itself does not matter once its letters are settled.
func TestNoRedriveIsMissedWhereNoLetterWaits(t *testing.T) {
	if testing.Short() {
		t.Skip("long: promtool plays hours of metrics")
	}
	series := maps.Clone(healthy)
	series[`gabion_redrives_stopped{}`], series[`gabion_dead_letters{state="waiting"}`] = "1x400", "3x20 0x380"
	var stopped []*alert
	for _, a := range all() {
		if a.name == "GabionRedriveStopped" {
			stopped = append(stopped, a)
		}
	}
	if out, err := testRules(t, rulesForTests(), ruleTest{series: series, at: 15, fires: stopped}, ruleTest{series: series, at: 30, silent: stopped}); err != nil || len(stopped) != 1 {
		t.Errorf("%v\n%s", err, out)
	}
}

// firing is the test in which an alert fires: its own series over the healthy ones.
func firing(a *alert) ruleTest {
	series := maps.Clone(healthy)
	maps.Copy(series, a.fires)
	at := 35
	if a.lasts == "1h" {
		at = 61
	}
	return ruleTest{series: series, at: at, fires: []*alert{a}}
}

func allFiring() (tests []ruleTest) {
	for _, a := range all() {
		tests = append(tests, firing(a))
	}
	return tests
}

func TestEachAlertFires(t *testing.T) {
	if testing.Short() {
		t.Skip("long: promtool plays hours of metrics")
	}
	if out, err := testRules(t, rulesForTests(), allFiring()...); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestRulesThatAreBrokenAreSeen makes sure that the test above says something of each
// rule: none may pass that never fires.
func TestRulesThatAreBrokenAreSeen(t *testing.T) {
	if testing.Short() {
		t.Skip("long: promtool plays hours of metrics")
	}
	broken := rulesForTests()
	for _, a := range all() {
		broken = strings.Replace(broken, "expr: "+a.expr+"\n", "expr: vector(0) > 1\n", 1)
	}
	out, err := testRules(t, broken, allFiring()...)
	for _, a := range all() {
		if err == nil || !strings.Contains(out, "alertname: "+a.name+",") {
			t.Errorf("no check saw that %s never fires", a.name)
		}
	}
}

// The first thing that an alert says is what fails.
func TestAlertsNameTheCause(t *testing.T) {
	if testing.Short() {
		t.Skip("long: promtool plays hours of metrics")
	}
	var open *alert
	for i := range alerts {
		if alerts[i].name == "GabionBreakerOpen" {
			open = &alerts[i]
		}
	}
	cause := func(cause string, more map[string]string) ruleTest {
		test := firing(open)
		maps.Copy(test.series, more)
		test.summary = "shop calls pay: " + cause + "a breaker is open, or was in the last 5 minutes"
		return test
	}
	tests := []ruleTest{
		cause("server 503 ×150, ", map[string]string{
			`gabion_attempts_total{kind="first",result="server"}`:  "0+20x400",
			`gabion_attempts_total{kind="retry",result="server"}`:  "0+10x400",
			`gabion_attempts_total{kind="first",result="network"}`: "0+29x400",
			`gabion_retries_total{code="503"}`:                     "0+9x400",
			`gabion_retries_total{code="network"}`:                 "0+8x400",
		}),
		cause("network ×145, ", map[string]string{
			`gabion_attempts_total{kind="first",result="network"}`: "0+29x400",
			`gabion_retries_total{code="network"}`:                 "0+8x400",
		}),
		cause("", map[string]string{
			`gabion_attempts_total{kind="first",result="server"}`: "0x400",
			`gabion_attempts_total{kind="first",result="client"}`: "0+50x400",
		}),
	}
	if out, err := testRules(t, string(rulesFile()), tests...); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
