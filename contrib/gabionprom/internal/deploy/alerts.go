package main

import (
	"fmt"

	"github.com/gabion-go/gabion/contrib/gabionprom/internal/catalog"
)

// An alert is a rule, with what its reader needs to know.
type alert struct {
	name     string
	expr     string
	lasts    string // for how long, before it fires
	severity string // critical: look now; warning: today; info: this week
	summary  string

	means, look, do string // for docs/alerts.md

	// For its test: series in the notation of promtool, which replace or add to the healthy
	// ones, and the labels that it then has besides its severity.
	fires  map[string]string
	labels map[string]string
}

const subject = "{{ $labels.job }} calls {{ $labels.dependency }}: "

// because is what fails most, as the page says it: "server 503 ×799, ". The class is that of
// the attempts, and the code that of the retries. It is empty where nothing fails.
var because = most(series(catalog.Attempts, `cluster=%q,namespace=%q,job=%q,dependency=%q,result!~'success|client|business|ignored'`), "result",
	`{{ label "result" . }}{{ $class := label "result" . }}`+
		most(series(catalog.Retries, `cluster=%q,namespace=%q,job=%q,dependency=%q`), "code", `{{ if ne (label "code" .) $class }} {{ label "code" . }}{{ end }}`)+
		` ×{{ printf "%.0f" (value .) }}, `)

// most is a template of Prometheus that writes text for the series that grew most in five
// minutes, of all with one value of the label.
func most(series, label, text string) string {
	query := "topk(1, sum by (" + label + ") (increase(" + series + "[5m]))) > 0"
	return "{{ range query (printf `" + query + "` $labels.cluster $labels.namespace $labels.job $labels.dependency) }}" + text + "{{ end }}"
}

var alerts = []alert{
	{
		name:     "GabionAmplificationHigh",
		expr:     fmt.Sprintf("%s > 1.2 and %s > 0.1", recAmplified, recCalls),
		lasts:    "5m",
		severity: "critical",
		summary:  subject + because + "{{ $value | humanize }} requests for each call",
		means:    "Retries and hedges send more than 20 % more requests than there are calls. If the dependency fails because it is overloaded, they keep it down.",
		look:     "The panel \"Amplification\" says since when. \"Retries by code\" says what is being repeated. Are requests sent again below (`gabion_resent_below_total`), or retried by another layer above or below gabion?",
		do:       "If the dependency is overloaded, switch retries off: `gabion.SetRetries(false)` for the process, `Dependency.Retries().Stop(0)` for one. Then lower `retry.attempts` or the budget. Switch off the retries of every other layer.",
		fires:    map[string]string{`gabion_attempts_total{kind="retry",result="server"}`: "0+30x80"},
		labels:   map[string]string{"job": "shop", "dependency": "pay"},
	},
	{
		name: "GabionBreakerOpen",
		expr: fmt.Sprintf("max by (%[1]s) (%[2]s) > 0 or sum by (%[1]s) (increase(%[3]s[5m])) > 0",
			who, series(catalog.BreakerPartitions, `state=~"open|half_open"`), catalog.BreakerOpens.Name),
		severity: "warning",
		summary:  subject + because + "a breaker is open, or was in the last 5 minutes",
		means:    "Calls failed or were slow often enough that gabion refuses some or all of them. Callers get `breaker_open` at once. A few calls probe whether the dependency is back.",
		look:     "\"Transitions\" has the cause. \"Calls by outcome\" says how bad it is, and \"Attempts by result\" what the failures are. \"Failure and slow ratio\" ends where the breaker opened: an open breaker has no ratio. `gabion_breaker_state` names the partition. Does the dependency's owner know?",
		do:       "Mostly nothing: it closes when probes succeed. Look after the dependency. If the breaker opened without need, its rules are too sharp: see `breaker.failure_rate` and `min_calls`.",
		fires:    map[string]string{`gabion_breaker_partitions{state="open"}`: "0x20 1x40"},
		labels:   map[string]string{"job": "shop", "dependency": "pay"},
	},
	{
		name:     "GabionBreakerStuckOpen",
		expr:     fmt.Sprintf("max by (%s) (max_over_time(%s[1m])) > 0", who, series(catalog.BreakerPartitions, `state=~"open|half_open"`)),
		lasts:    "10m",
		severity: "critical",
		summary:  subject + because + "a breaker has not closed for 10 minutes",
		means:    "The dependency has been failing for ten minutes, as far as the probes can tell.",
		look:     "Is the dependency down, or does it only reject the probes? `gabion_breaker_state` names the partition. \"Attempts by result\" has the class of the probes' failures.",
		do:       "Treat it as an outage of the dependency. If it is well in fact, close the breaker by hand: with the button of [the live page](page.md#overrides), or in the program with `Dependency.Breaker` and `Breaker.Reset`. The partition is the one that `gabion_breaker_state` names, which is the host for calls through gabionhttp. Then find out why its probes fail.",
		fires:    map[string]string{`gabion_breaker_partitions{state="open"}`: "1x80"},
		labels:   map[string]string{"job": "shop", "dependency": "pay"},
	},
	{
		name: "GabionBreakerFlapping",
		// A thousand partitions that open once each do not flap.
		expr: fmt.Sprintf("sum by (%[1]s, instance) (increase(%[2]s[10m])) > 4 unless sum by (%[1]s, instance) (increase(%[2]s[10m])) <= 2 * sum by (%[1]s, instance) (%[3]s)",
			who, catalog.BreakerOpens.Name, catalog.BreakerPartitions.Name),
		severity: "warning",
		summary:  subject + because + "a breaker opened {{ $value | humanize }} times in 10 minutes",
		means:    "The breaker closes when its probes succeed and opens again under the full load, more than twice for each breaker of the dependency. A breaker whose probes fail does not flap: it stays open. The dependency has some capacity, but not enough, or fails for a part of the requests.",
		look:     "\"Transitions\" has the causes. Do one kind of requests or one partition fail? Is the dependency short of capacity?",
		do:       "Send it less: a smaller bulkhead or a rate limit lets it recover. A longer `breaker.open`, or more `probe_calls`, makes the breaker slower to believe in it.",
		fires:    map[string]string{`gabion_breaker_opens_total{}`: "0+1x80"},
		labels:   map[string]string{"job": "shop", "dependency": "pay", "instance": "a:1"},
	},
	{
		name: "GabionRetryBudgetExhausted",
		expr: fmt.Sprintf("%s / %s > 0.01",
			rates(who, series(catalog.Suppressed, `reason="budget_exhausted"`), "5m"), recCalls),
		lasts:    "5m",
		severity: "warning",
		summary:  subject + because + "the retry budget is spent: {{ $value | humanizePercentage }} of the calls fail without a retry",
		means:    "More calls fail than the budget has retries for. The budget does what it is for: it keeps retries from adding to an outage. Those calls fail with `budget_exhausted`.",
		look:     "\"Attempts by result\": is this an outage, or a steady share of failures? \"Retry budget\" has the level.",
		do:       "In an outage, look after the dependency and leave the budget alone. If a small, steady share of failures spends it, mend these failures first. Only then raise the budget.",
		fires:    map[string]string{`gabion_retries_suppressed_total{reason="budget_exhausted"}`: "0+10x80"},
		labels:   map[string]string{"job": "shop", "dependency": "pay"},
	},
	{
		name:     "GabionRetrySuccessLow",
		expr:     fmt.Sprintf("%s < 0.5 and %s > 0.05", recSuccess, recRetried),
		lasts:    "10m",
		severity: "warning",
		summary:  subject + because + "only {{ $value | humanizePercentage }} of the calls that are retried succeed",
		means:    "Retries mostly fail, too. They add load and waiting, and help few.",
		look:     "\"Retries by code\": are these failures that pass? Is the backoff shorter than the failure lasts?",
		do:       "Mark failures that do not pass as permanent (`http.permanent`, or a classifier). Otherwise this is an outage: let the breaker and the budget work.",
		fires: map[string]string{
			`gabion_retried_calls_total{result="success"}`: "0+1x80",
			`gabion_retried_calls_total{result="failure"}`: "0+20x80",
		},
		labels: map[string]string{"job": "shop", "dependency": "pay"},
	},
	{
		name:     "GabionMeanAttemptsRising",
		expr:     fmt.Sprintf("%[1]s > 1.1 and %[1]s > 1.2 * %[2]s", recMean, recMeanLong),
		lasts:    "5m",
		severity: "warning",
		summary:  subject + "a success takes {{ $value | humanize }} attempts, and took fewer before",
		means:    "Calls still succeed, but need more attempts than in the last hours. The dependency gets worse, and users do not see it yet.",
		look:     "\"Attempts until success\" says since when: is it a deployment? \"Retries by code\" says what fails.",
		do:       "Tell the dependency's owner while there is time. Check that the budget would hold a full outage.",
		fires: map[string]string{
			"gabion_attempts_until_success_sum":   "0+60x20 1200+180x40",
			"gabion_attempts_until_success_count": "0+60x80",
		},
		labels: map[string]string{"job": "shop", "dependency": "pay"},
	},
}
