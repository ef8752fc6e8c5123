package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/gabion-go/gabion/contrib/gabionprom/internal/catalog"
)

// A recording is an expression that the server keeps the values of.
type recording struct{ name, expr string }

// The names of recordings.
const (
	recCalls     = "dependency:gabion_calls:rate5m"
	recAmplified = "dependency:gabion_amplification:ratio_rate5m"
	recRetried   = "dependency:gabion_retried_calls:rate5m"
	recSuccess   = "dependency:gabion_retry_success:ratio_rate5m"
	recMean      = "dependency:gabion_attempts_until_success:mean5m"
	recMeanLong  = "dependency:gabion_attempts_until_success:mean6h"
	recHalf      = "dependency:gabion_attempt_duration_seconds:p50_5m"
	recLeft      = "dependency:gabion_deadline_remaining_seconds:p10_5m"
	recFailed    = "dependency:gabion_calls_failed:rate3m"
	recFailing   = "dependency:gabion_calls_failed:ratio_rate3m"
)

// failures selects the calls that failed because of the dependency.
var failures = fmt.Sprintf("outcome!~%q", strings.Join(catalog.NoFailures, "|"))

var recordings = []recording{
	{recCalls, rates(who, series(catalog.Calls), "5m")},
	{recAmplified, amplification(who, "5m", "")},
	{recRetried, rates(who, series(catalog.RetriedCalls, `result=~"success|failure"`), "5m")},
	{recSuccess, retrySuccess(who, "5m", "")},
	{recMean, mean(who, catalog.AttemptsForSuccess, "5m")},
	{recMeanLong, mean(who, catalog.AttemptsForSuccess, "6h")},
	{recHalf, quantile(0.5, who, catalog.AttemptDuration, "5m", `result="success"`)},
	{recLeft, quantile(0.1, who, catalog.DeadlineLeft, "5m")},
	{recFailed, rates(who, series(catalog.Calls, failures), "3m")},
	{recFailing, ratio(rates(who, series(catalog.Calls, failures), "3m"), rates(who, series(catalog.Calls, `outcome!="canceled"`), "3m"))},
}

// runbook is where the documents are for readers of alerts.
const runbook = "https://github.com/gabion-go/gabion/blob/main/docs/alerts.md#"

// rulesFile writes recordings and alerts as Prometheus reads them. They are one group, because
// only the rules of one group are evaluated in order: an alert of another group would see what
// was recorded a whole interval ago, or not, by chance.
func rulesFile() []byte {
	var b strings.Builder
	b.WriteString("# Made by contrib/gabionprom/internal/deploy. docs/alerts.md says what to do about each alert.\n")
	b.WriteString("groups:\n  - name: gabion\n    rules:\n")
	for _, r := range recordings {
		fmt.Fprintf(&b, "      - record: %s\n        expr: %s\n", r.name, r.expr)
	}
	for i := range alerts {
		a := &alerts[i]
		fmt.Fprintf(&b, "      - alert: %s\n        expr: %s\n", a.name, a.expr)
		if a.lasts != "" {
			fmt.Fprintf(&b, "        for: %s\n", a.lasts)
		}
		fmt.Fprintf(&b, "        labels:\n          severity: %s\n        annotations:\n          summary: %s\n          runbook_url: %s\n",
			a.severity, strconv.Quote(a.summary), runbook+a.anchor())
	}
	return []byte(b.String())
}

func (a *alert) anchor() string { return strings.ToLower(a.name) }
