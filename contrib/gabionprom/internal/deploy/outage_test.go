package main

import (
	"maps"
	"slices"
	"testing"

	"github.com/gabion-go/gabion/contrib/gabionprom/internal/catalog"
	"github.com/gabion-go/gabion/policy"
)

func named(t *testing.T, names ...string) (found []*alert) {
	t.Helper()
	for _, name := range names {
		i := slices.IndexFunc(alerts, func(a alert) bool { return a.name == name })
		if i < 0 {
			t.Fatalf("there is no %s", name)
		}
		found = append(found, &alerts[i])
	}
	return found
}

// outages are what happened to the healthy service of the other tests from the 20th
// minute on, with the outcomes that real calls have then.
var outages = []struct {
	fact          string
	series        map[string]string
	at            int
	fires, silent []string
}{
	{
		fact: "one minute of 429 with Retry-After is seen",
		series: map[string]string{
			`gabion_calls_total{outcome="ok"}`:                   "0+60x20 1200 1260+60x40",
			`gabion_calls_total{outcome="retry_after_too_long"}`: "0x20 30x40",
			`gabion_calls_total{outcome="paced"}`:                "0x20 30x40",
		},
		at: 23, fires: []string{"GabionCallsFailing"},
	},
	{
		fact: "minutes of 429 with Retry-After mean that it is down",
		series: map[string]string{
			`gabion_calls_total{outcome="ok"}`:                   "0+60x20 1200x40",
			`gabion_calls_total{outcome="retry_after_too_long"}`: "_x20 0+5x40",
			`gabion_calls_total{outcome="paced"}`:                "_x20 0+55x40",
		},
		at: 26, fires: []string{"GabionDependencyDown", "GabionCallsFailing"}, silent: []string{"GabionBreakerOpen", "GabionBreakerFlapping"},
	},
	{
		fact: "so do refused connections, before and after the breaker opens",
		series: map[string]string{
			`gabion_calls_total{outcome="ok"}`:                 "0+60x20 1200x40",
			`gabion_calls_total{outcome="attempts_exhausted"}`: "0x20 0+30x40",
			`gabion_calls_total{outcome="budget_exhausted"}`:   "_x20 0+10x40",
			`gabion_calls_total{outcome="breaker_open"}`:       "_x20 0+20x40",
		},
		at: 26, fires: []string{"GabionDependencyDown", "GabionCallsFailing"},
	},
	{
		fact:   "from the start of the program on, too",
		series: map[string]string{`gabion_calls_total{outcome="ok"}`: "_x60", `gabion_calls_total{outcome="all_failing"}`: "0+60x60"},
		at:     6, fires: []string{"GabionDependencyDown", "GabionCallsFailing"},
	},
	{
		fact:   "a third of the calls is a warning",
		series: map[string]string{`gabion_calls_total{outcome="unclassified"}`: "0x20 0+30x40"},
		at:     26, fires: []string{"GabionCallsFailing"}, silent: []string{"GabionDependencyDown"},
	},
	{
		fact:   "a small share is silent",
		series: map[string]string{`gabion_calls_total{outcome="budget_exhausted"}`: "0x20 0+6x40"},
		at:     26, silent: []string{"GabionDependencyDown", "GabionCallsFailing"},
	},
	{
		fact: "one call that failed, of one, is silent",
		series: map[string]string{
			`gabion_calls_total{outcome="ok"}`:                 "0x60",
			`gabion_calls_total{outcome="attempts_exhausted"}`: "0x20 1x40",
		},
		at: 22, silent: []string{"GabionDependencyDown", "GabionCallsFailing"},
	},
	{
		fact: "answers that say no, callers who leave and mistakes are silent",
		series: map[string]string{
			`gabion_calls_total{outcome="not_retryable"}`: "0x20 0+600x40",
			`gabion_calls_total{outcome="canceled"}`:      "0x20 0+600x40",
			`gabion_calls_total{outcome="key_missing"}`:   "0x20 0+600x40",
			`gabion_calls_total{outcome="rate_limited"}`:  "0x20 0+600x40",
		},
		at: 30, silent: []string{"GabionDependencyDown", "GabionCallsFailing"},
	},
	{
		fact: "callers who leave do not hide that all other calls fail",
		series: map[string]string{
			`gabion_calls_total{outcome="ok"}`:           "0+60x20 1200x40",
			`gabion_calls_total{outcome="canceled"}`:     "0x20 0+30x40",
			`gabion_calls_total{outcome="call_timeout"}`: "0x20 0+30x40",
		},
		at: 26, fires: []string{"GabionDependencyDown"},
	},
	{
		fact: "open for ten minutes with failing probes does not flap",
		series: map[string]string{
			`gabion_breaker_opens_total{}`: "0x20 1x40",
			`gabion_breaker_transitions_total{from="half_open",to="open",cause="probe_failed"}`:  "0x20 0+15x40",
			`gabion_breaker_transitions_total{from="open",to="half_open",cause="cooldown_over"}`: "0x20 0+15x40",
			`gabion_breaker_partitions{state="open"}`:                                            "0x20 1x40",
			`gabion_breaker_partitions{state="closed"}`:                                          "1x20 _x40",
		},
		at: 31, fires: []string{"GabionBreakerStuckOpen"}, silent: []string{"GabionBreakerFlapping"},
	},
	{
		fact: "a hundred partitions that open once do not flap",
		series: map[string]string{
			`gabion_breaker_opens_total{}`:              "0x20 100x40",
			`gabion_breaker_partitions{state="closed"}`: "101x20 1x40",
			`gabion_breaker_partitions{state="open"}`:   "0x20 100x40",
		},
		at: 25, silent: []string{"GabionBreakerFlapping"},
	},
	{
		fact:   "a breaker whose states are not exposed flaps all the same",
		series: map[string]string{`gabion_breaker_opens_total{}`: "0+1x60", `gabion_breaker_partitions{state="closed"}`: "_x60", `gabion_breaker_partitions{state="open"}`: "_x60", `gabion_breaker_partitions{state="half_open"}`: "_x60"},
		at:     25, fires: []string{"GabionBreakerFlapping"},
	},
}

func TestOutages(t *testing.T) {
	if testing.Short() {
		t.Skip("long: promtool plays hours of metrics")
	}
	for _, o := range outages {
		t.Run(o.fact, func(t *testing.T) {
			series := maps.Clone(healthy)
			maps.Copy(series, o.series)
			if out, err := testRules(t, rulesForTests(), ruleTest{series: series, at: o.at, fires: named(t, o.fires...), silent: named(t, o.silent...)}); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// TestOutcomesThatAreNoFailures holds the list against what the policy says of each reason.
func TestOutcomesThatAreNoFailures(t *testing.T) {
	for _, r := range policy.Reasons() {
		want := !r.Unavailable()
		switch r {
		case policy.UnclassifiedError, policy.WorkCrashed: // nothing better is known
			want = false
		case policy.RateLimited: // the program's own
			want = true
		}
		if got := slices.Contains(catalog.NoFailures, r.String()); got != want {
			t.Errorf("%s is no failure: %v", r, got)
		}
	}
}
