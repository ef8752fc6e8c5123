package main

import (
	"fmt"
	"slices"

	"github.com/gabion-go/gabion/contrib/gabionprom/internal/catalog"
)

func init() { alerts = slices.Concat(outageAlerts, alerts, capacityAlerts, dataAlerts, letterAlerts) }

// capacityAlerts are about time and room.
var capacityAlerts = []alert{
	{
		name:     "GabionAttemptsStartedDoomed",
		expr:     fmt.Sprintf("%s < %s", recLeft, recHalf),
		lasts:    "10m",
		severity: "warning",
		summary:  subject + "a tenth of the attempts start with less than {{ $value | humanizeDuration }} left, which half of them need",
		means:    "Attempts start although their call's deadline is so near that they will probably be cut off. The dependency does work whose caller has left.",
		look:     "\"Deadline left at attempt start\" against the time of attempts. Where does the time go: in the callers before this call, in queues, in waits between retries?",
		do:       "Set `timeout.fit` (or `timeout.margin`), so that such attempts are not sent. Give the call more time, or retry less often.",
		fires: map[string]string{
			`gabion_deadline_remaining_seconds_bucket{le="0.01"}`: "0+60x80",
			`gabion_deadline_remaining_seconds_bucket{le="1"}`:    "0+60x80",
		},
		labels: map[string]string{"job": "shop", "dependency": "pay"},
	},
	{
		name: "GabionBulkheadSaturated",
		expr: fmt.Sprintf("max by (%[1]s) (%[2]s >= %[3]s) > 0 or %[4]s > 0", who, catalog.InFlight.Name, catalog.Limit.Name,
			rates(who, series(catalog.Refused, `reason=~"bulkhead_full|queue_timeout"`), "5m")),
		lasts:    "5m",
		severity: "warning",
		summary:  subject + "all slots of the bulkhead are taken",
		means:    "As many calls are out as the bulkhead lets out. More calls wait, or are refused with `bulkhead_full` or `queue_timeout`.",
		look:     "\"Attempt duration\": did the dependency become slow? Then slots are held for longer. \"Calls\": is there more traffic? \"Results still open\": are bodies not closed?",
		do:       "If the dependency is slow, leave the limit: it protects both. If there is more traffic and the dependency can take it, raise `bulkhead.limit` to traffic × time of an attempt × 1.5, or `bulkhead.max` where the limit is learned.",
		fires:    map[string]string{`gabion_bulkhead_in_flight{}`: "10x80"},
		labels:   map[string]string{"job": "shop", "dependency": "pay"},
	},
	{
		name:     "GabionSlowRatioRising",
		expr:     fmt.Sprintf("max by (%s) (%s) > 0.5", who, catalog.SlowRatio.Name),
		lasts:    "5m",
		severity: "warning",
		summary:  subject + "{{ $value | humanizePercentage }} of the calls are slow",
		means:    "More than half of the calls take longer than `breaker.slow_call`. Slow calls hold slots and time, and are often how an outage begins.",
		look:     "\"Attempt duration\" says since when. Is it one operation, one partition, one process?",
		do:       "Look after the dependency before it stops. If a time like this is normal for it, `breaker.slow_call` is too short.",
		fires:    map[string]string{`gabion_breaker_slow_ratio{}`: "0.7x80"},
		labels:   map[string]string{"job": "shop", "dependency": "pay"},
	},
	{
		name:     "GabionBackupOut",
		expr:     fmt.Sprintf("max by (%s) (%s) > 0", who, catalog.BackupsOut.Name),
		lasts:    "10m",
		severity: "warning",
		summary:  subject + "a backup would not work if it were needed",
		means:    "An endpoint that stands behind another one fails what is sent to it to find out. If the one before it fails as well, calls fail.",
		look:     "The page and the log say which backup it is and what it answers. `gabion_breaker_state` has its name as `partition`.",
		do:       "Mend the backup now, while nothing depends on it: expired keys, quotas, and rules of firewalls that only the primary has are usual.",
		fires:    map[string]string{`gabion_backups_out{}`: "1x80"},
		labels:   map[string]string{"job": "shop", "dependency": "pay"},
	},
	{
		name: "GabionOverrideForgotten",
		expr: fmt.Sprintf("max by (%[1]s) (%[2]s) > 0 or max by (%[1]s) (%[3]s) > 0",
			who, series(catalog.BreakerPartitions, `state=~"forced_open|disabled"`), catalog.RetriesOff.Name),
		lasts:    "1h",
		severity: "info",
		summary:  subject + "a breaker or the retries have been switched by hand for an hour",
		means:    "An operator forced a breaker open, disabled it, or switched retries off. Until it is undone, gabion does not protect this dependency as its policy says.",
		look:     "`gabion_breaker_state` and `gabion_retries_off` say which it is.",
		do:       "Ask who did it and why. Undo it when the reason is gone. An override with an end undoes itself.",
		fires:    map[string]string{`gabion_retries_off{}`: "1x80"},
		labels:   map[string]string{"job": "shop", "dependency": "pay"},
	},
}

// dataAlerts are about work that may be lost or done twice, and about gabion itself.
var dataAlerts = []alert{
	{
		name: "GabionWorkLeftRunning",
		expr: fmt.Sprintf("sum by (%[1]s) (%[2]s) > 0 and on (%[1]s) sum by (%[1]s) (%[3]s) > 0",
			who, catalog.Streams.Name, catalog.Messages.Name),
		lasts:    "5m",
		severity: "warning",
		summary:  "{{ $labels.job }}: the work of {{ $value | humanize }} messages of {{ $labels.dependency }} goes on although its time is over",
		means:    "Work of messages ignores its context: it did not return after its time and its grace. The messages go on without it, and other messages have its slots, up to `Lend`. What it still does may have an effect.",
		look:     "The log has a line for each message, with `left running`. \"Results still open\" says since when. A goroutine dump of the process says where the work hangs: mostly in a call without a context, or at a lock.",
		do:       "Give the work's context to all that it calls. A restart of the process ends what hangs; messages that are not done come again.",
		fires: map[string]string{
			`gabion_streams_open{}`: "2x80",
			`gabion_messages_total{disposition="retry",reason="failed"}`: "0+1x80",
		},
		labels: map[string]string{"job": "shop", "dependency": "pay"},
	},
	{
		name:     "GabionDeadLetters",
		expr:     grown(who, series(catalog.Messages, `disposition="dead_letter"`), "15m"),
		severity: "critical",
		summary:  "{{ $labels.job }}: messages of {{ $labels.dependency }} became dead letters",
		means:    "Messages were put aside because they can't be handled. They stay there until an operator looks.",
		look:     "The label `reason` of `gabion_messages_total`: `attempts_exhausted` mostly is an outage of something that the work needs; `permanent` is a bug or a bad message; `mismatch` is an id that was used twice; `outcome_unknown` needs an operator to find out what happened.",
		do:       "`gabion deadletter ls` and `show` have the letters and their errors. Mend the cause, then `gabion deadletter redrive`. Of `outcome_unknown`, find out first whether the effect happened: [redrive.md](redrive.md) goes through it.",
		fires:    map[string]string{`gabion_messages_total{disposition="dead_letter",reason="permanent"}`: "_x30 1x30"},
		labels:   map[string]string{"job": "shop", "dependency": "pay"},
	},
	{
		name:     "GabionIdempotencyMismatch",
		expr:     grown(who, series(catalog.Idempotency, `result="mismatch"`), "15m"),
		severity: "critical",
		summary:  "{{ $labels.job }}: one idempotency key came with two different requests",
		means:    "A client used a key again for another request. It was refused, so nothing was done twice, but the client believes that it sent one thing and means another.",
		look:     "The log has a line for each, with a hash of the key. Which client is it? Does it make keys per user or per day instead of per operation? Did it change the body between two attempts?",
		do:       "Have the client mended: a key belongs to one operation and one body. Do not make the check weaker.",
		fires:    map[string]string{`gabion_idempotency_total{result="mismatch"}`: "_x30 1x30"},
		labels:   map[string]string{"job": "shop", "dependency": "pay"},
	},
	{
		name:     "GabionOutcomeUnknown",
		expr:     grown(who, series(catalog.Idempotency, `result="outcome_unknown"`), "15m"),
		severity: "critical",
		summary:  "{{ $labels.job }}: of some keys it is unknown whether the work was done",
		means:    "A run ended without saying whether its effect happened, as when a process dies. Under Hold, gabion does not run it again, so an operator must find out.",
		look:     "`gabion idempotency ls` lists the records. Look for the effect where it would be: in the ledger, at the payment provider.",
		do:       "Resolve each record by hand: done, or nothing happened. docs/idempotency.md says how.",
		fires:    map[string]string{`gabion_idempotency_total{result="outcome_unknown"}`: "_x30 1x30"},
		labels:   map[string]string{"job": "shop", "dependency": "pay"},
	},
	{
		name:     "GabionConfigReloadFailed",
		expr:     fmt.Sprintf("%s == 0", catalog.ReloadSuccess.Name),
		lasts:    "5m",
		severity: "warning",
		summary:  "{{ $labels.job }} on {{ $labels.instance }} goes on with its old policies: the new file was refused",
		means:    "The configuration was changed and has mistakes. The policies from before stay in force.",
		look:     "The log has every finding with file and line. `gabion config check` prints them, too.",
		do:       "Mend the file. It is read again by itself if the program watches it.",
		fires:    map[string]string{`gabion_config_last_reload_success{}`: "0x80"},
		labels:   map[string]string{"job": "shop", "instance": "a:1"},
	},
	{
		name:     "GabionMetricsIncomplete",
		expr:     fmt.Sprintf("sum by (job) (increase(%s[1h])) > 0 or sum by (job) (increase(%s[1h])) > 0", catalog.Overflow.Name, catalog.EventsLost.Name),
		severity: "info",
		summary:  "{{ $labels.job }}: gabion's metrics lack something",
		means:    "Some label had more values than its bound, and the rest was counted as `_other`. Or events were lost because the queue was full. Calls are not affected.",
		look:     "The label `label` of `gabion_label_overflow_total`. The usual reason is an operation that is named by URL.",
		do:       "Name operations by route (`gabionhttp.Transport.Operation`, `gabion.WithOperation`). Raise a bound of `gabionprom.Config` only if that many names are meant.",
		fires:    map[string]string{`gabion_label_overflow_total{label="operation"}`: "0+1x80"},
		labels:   map[string]string{"job": "shop"},
	},
}
