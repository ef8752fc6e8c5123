package main

import (
	"fmt"
	"strings"

	"github.com/gabion-go/gabion/contrib/gabionprom/internal/catalog"
)

// who is what alerts are about: a dependency of a service, over all its processes. Labels
// that a server does not set do no harm.
const who = "cluster, namespace, job, dependency"

// where narrows a panel to what was chosen on the dashboard.
const where = `job=~"$job", instance=~"$instance", dependency=~"$dependency"`

// each is what a panel shows a line for.
const each = "dependency"

// series is a selector of a metric's series.
func series(m *catalog.Metric, match ...string) string {
	match = nonEmpty(match)
	if len(match) == 0 {
		return m.Name
	}
	return m.Name + "{" + strings.Join(match, ", ") + "}"
}

// part is a selector of a histogram's _sum, _count or _bucket.
func part(m *catalog.Metric, suffix string, match ...string) string {
	return strings.Replace(series(m, match...), m.Name, m.Name+suffix, 1)
}

func nonEmpty(all []string) (some []string) {
	for _, s := range all {
		if s != "" {
			some = append(some, s)
		}
	}
	return some
}

// sum adds up an instant vector.
func sum(by, vector string) string { return fmt.Sprintf("sum by (%s) (%s)", by, vector) }

// rates adds up how much counters grow in a second.
func rates(by, selector, window string) string {
	return sum(by, fmt.Sprintf("rate(%s[%s])", selector, window))
}

// grown is true when a counter grew, also if it was not there before.
func grown(by, selector, window string) string {
	return fmt.Sprintf("(sum by (%[1]s) (increase(%[2]s[%[3]s])) > 0) or (sum by (%[1]s) (%[2]s unless %[2]s offset %[3]s) > 0)", by, selector, window)
}

// quantile is that of a histogram, native if the server has it so, else classic.
func quantile(q float64, by string, m *catalog.Metric, window string, match ...string) string {
	return fmt.Sprintf("histogram_quantile(%[1]v, sum by (%[2]s) (rate(%[3]s[%[5]s]))) or histogram_quantile(%[1]v, sum by (%[2]s, le) (rate(%[4]s[%[5]s])))",
		q, by, series(m, match...), part(m, "_bucket", match...), window)
}

// mean is that of a classic histogram.
func mean(by string, m *catalog.Metric, window string, match ...string) string {
	return ratio(rates(by, part(m, "_sum", match...), window), rates(by, part(m, "_count", match...), window))
}

func ratio(a, b string) string { return a + " / " + b }

// requests is how many requests go out in a second: attempts, and what is sent again below.
func requests(by, window, match string) string {
	return fmt.Sprintf("(%s + (%s or 0 * %s))",
		rates(by, series(catalog.Attempts, match), window),
		rates(by, series(catalog.ResentBelow, match), window),
		rates(by, series(catalog.Attempts, match), window))
}

func amplification(by, window, match string) string {
	return ratio(requests(by, window, match), rates(by, series(catalog.Calls, match), window))
}

func retrySuccess(by, window, match string) string {
	return ratio(rates(by, series(catalog.RetriedCalls, match, `result="success"`), window),
		rates(by, series(catalog.RetriedCalls, match, `result=~"success|failure"`), window))
}
