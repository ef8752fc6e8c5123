package main

import "fmt"

// seldom is the rate of failed calls below which their share says little: two in three
// minutes.
const seldom = 0.01

// outageAlerts are about calls that fail, whatever ends them. They need no breaker.
var outageAlerts = []alert{
	{
		name:     "GabionDependencyDown",
		expr:     fmt.Sprintf("%s > 0.9 and %s > %v", recFailing, recFailed, seldom),
		lasts:    "2m",
		severity: "critical",
		summary:  subject + because + "{{ $value | humanizePercentage }} of the calls fail",
		means:    "Nearly every call fails, for users too unless a fallback answers. The dependency is down, can't be reached, or turns everything away, as with 429. Its breaker need not be open: 429 and Retry-After hold calls back and do not open it.",
		look:     "\"Calls by outcome\" says what ends the calls: `retry_after_too_long` and `paced` mean that the dependency asks for time; `breaker_open` means that gabion has stopped asking; `unclassified` means an error that is not classified. \"Attempts by result\" and \"Retries by code\" say what comes back: `network` means that nothing listens there, or that the way is broken. Since when, and was something deployed then, here or there?",
		do:       "Tell the dependency's owner. If it turns calls away because this program sends too many (`throttled`), send fewer: `rate_limit.rate`, fewer jobs. If the address or the credentials changed, mend the configuration. gabion sends few retries until then; do not raise budgets. The calls go through again by themselves.",
		fires:    map[string]string{`gabion_calls_total{outcome="ok"}`: "0+60x20 1200x60", `gabion_calls_total{outcome="retry_after_too_long"}`: "_x20 0+60x60"},
		labels:   map[string]string{"job": "shop", "dependency": "pay"},
	},
	{
		name:     "GabionCallsFailing",
		expr:     fmt.Sprintf("%s > 0.2 and %s > %v", recFailing, recFailed, seldom),
		lasts:    "2m",
		severity: "warning",
		summary:  subject + because + "{{ $value | humanizePercentage }} of the calls fail",
		means:    "More than a fifth of the calls fail, after their retries. Answers that say no (`not_retryable`), callers who left (`canceled`), the program's own rate limit and its mistakes do not count.",
		look:     "\"Share of calls that failed\" says since when, \"Calls by outcome\" what ends them. \"Attempts by result\" and \"Retries by code\" say what comes back. Is it one operation, one partition (`gabion_breaker_state`), one process? \"Timeouts by layer\": is the dependency only slow?",
		do:       "Look after the dependency, before the rest fails too. If one kind of requests fails, find out what they have in common. If it is `bulkhead_full` or `queue_timeout`, see [GabionBulkheadSaturated](#gabionbulkheadsaturated). Do not raise retries: they failed already.",
		fires:    map[string]string{`gabion_calls_total{outcome="budget_exhausted"}`: "0+20x80"},
		labels:   map[string]string{"job": "shop", "dependency": "pay"},
	},
}
