package main

import (
	_ "embed" // the program in docs/metrics.md
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/gabion-go/gabion/contrib/gabionprom/internal/catalog"
	"github.com/gabion-go/gabion/policy"
)

// linked is a text in which each reason of a call's end leads to what it means.
func linked(text string) string {
	for _, r := range policy.Reasons() {
		word := "`" + r.String() + "`"
		text = strings.ReplaceAll(text, word, "["+word+"](reasons.md#"+r.String()+")")
	}
	return text
}

// alertsDoc is the runbook.
func alertsDoc() []byte {
	var b strings.Builder
	b.WriteString(`<!-- Made by contrib/gabionprom/internal/deploy: change alerts*.go there, and run go generate. -->
# Alerts

[deploy/prometheus/alerts.yaml](../deploy/prometheus/alerts.yaml) has these rules. Load it with ` + "`rule_files`" + ` in prometheus.yml. Each
alert links to its section here. The names in quotation marks are panels of [the dashboard](../deploy/grafana/gabion.json); [metrics.md](metrics.md)
explains the metrics.

` + "`critical`" + ` means look now, ` + "`warning`" + ` today, ` + "`info`" + ` this week. The thresholds are a start: change them in your copy.

`)
	for i := range alerts {
		a := &alerts[i]
		fmt.Fprintf(&b, "* [%s](#%s): %s\n", a.name, a.anchor(), a.severity)
	}
	for i := range alerts {
		a := &alerts[i]
		lasts := ""
		if a.lasts != "" {
			lasts = fmt.Sprintf(", once it is true for %s", a.lasts)
		}
		fmt.Fprintf(&b, "\n## %s\n\n%s%s.\n\n**What it means.** %s\n\n**What to look at.** %s\n\n**What to do.** %s\n\n```promql\n%s\n```\n",
			a.name, a.severity, lasts, linked(a.means), linked(a.look), linked(a.do), a.expr)
	}
	b.WriteString("\n## Recordings\n\nThe alerts use these.\n\n| recording | expression |\n|---|---|\n")
	for _, r := range recordings {
		fmt.Fprintf(&b, "| `%s` | `%s` |\n", r.name, strings.ReplaceAll(r.expr, "|", `\|`))
	}
	return []byte(b.String())
}

// program is what docs/metrics.md shows, as the compiler reads it.
//
//go:embed program/main.go
var program string

// metricsDoc lists every metric.
func metricsDoc() []byte {
	var b strings.Builder
	b.WriteString(`<!-- Made by contrib/gabionprom/internal/deploy from internal/catalog: change it there, and run go generate. -->
# Metrics

` + "`contrib/gabionprom`" + ` exposes these to Prometheus. Names, types, units and labels are stable.

It is a module of its own:

` + "```sh\ngo get github.com/gabion-go/gabion/contrib/gabionprom github.com/prometheus/client_golang\n```" + `

A program that exposes the metrics of its dependencies at ` + "http://localhost:2112/metrics" + `:

` + "```go\n" + program + "```" + `

Counters and histograms come from events, so they count from the moment that the Metrics observes. Gauges come from
` + "`Registry.Stats`" + ` at each scrape. Those of dead letters come from the store in ` + "`gabionprom.Config.Letters`" + `, which is asked every ten seconds
at most; a scrape waits half a second for it at most. Those of outboxes come from ` + "`gabionprom.Config.Outboxes`" + `, which are asked once a minute at most.
` + "`promletters.Letters`" + ` and ` + "`promletters.Outbox`" + ` make what both take.

**Counters begin at zero**, so that ` + "`increase`" + ` sees the first time that a breaker opens. That is about 120 series of each dependency, so it is so
for the first 100. What is counted by operation or code appears when it first counts, and so do the results of keys and
messages together.

**Amplification** is the number to look at first: how many requests go out for each call. With retries at rest it is 1. The recording
` + "`" + recAmplified + "`" + ` has it.

**Labels are bounded.** There are at most 1000 dependencies, 200 operations and codes of each dependency, and 10,000 of all
together. What is past a bound counts as ` + "`_other`" + `, and in ` + "`gabion_label_overflow_total`" + `. Names keep their place until the program ends. ` + "`gabionprom.Config`" + ` has the bounds.

**Histograms of seconds** are exposed in both forms. A server that takes native histograms gets buckets that are 9 % wide, and others
get classic ones from 0.1 ms to 30 s. Dashboard and alerts use whichever is there.

`)
	b.WriteString("| metric | type | unit | labels | meaning | used by |\n|---|---|---|---|---|---|\n")
	uses := usage()
	for _, m := range catalog.All() {
		kind := string(m.Type)
		if m.Native {
			kind += ", native and classic"
		}
		help := m.Help
		if m.Note != "" {
			help += " " + m.Note
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s | %s |\n", m.Name, kind, m.Unit, code(m.Labels), help, strings.Join(uses[m.Name], "; "))
	}
	b.WriteString("\nMetrics without a unit count the things that their meaning names.\n")
	return []byte(b.String())
}

func code(labels []string) string {
	quoted := make([]string, len(labels))
	for i, l := range labels {
		quoted[i] = "`" + l + "`"
	}
	return strings.Join(quoted, " ")
}

var metricName = regexp.MustCompile(`\b(?:dependency:)?gabion_[a-z0-9_]+(?::[a-z0-9_]+)?`)

// namesIn returns the metrics and recordings that an expression names.
func namesIn(expr string) []string {
	names := metricName.FindAllString(expr, -1)
	slices.Sort(names)
	return slices.Compact(names)
}

// usage says by which alerts and panels each metric is used, also by way of a recording.
func usage() map[string][]string {
	uses := map[string][]string{}
	add := func(expr, user string) {
		for _, name := range through(expr) {
			if !slices.Contains(uses[name], user) {
				uses[name] = append(uses[name], user)
			}
		}
	}
	for i := range alerts {
		add(alerts[i].expr, fmt.Sprintf("[%s](alerts.md#%s)", alerts[i].name, alerts[i].anchor()))
	}
	for _, p := range allPanels() {
		for _, t := range p.targets {
			add(t.expr, "panel \""+p.title+"\"")
		}
	}
	return uses
}

// through returns the metrics behind an expression.
func through(expr string) (metrics []string) {
	for _, name := range namesIn(expr) {
		if m := catalog.Find(name); m != nil {
			metrics = append(metrics, m.Name)
		}
		for _, r := range recordings {
			if r.name == name {
				metrics = append(metrics, through(r.expr)...)
			}
		}
	}
	return metrics
}
