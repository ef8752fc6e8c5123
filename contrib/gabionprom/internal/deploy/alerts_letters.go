package main

import (
	"fmt"

	"github.com/gabion-go/gabion/contrib/gabionprom/internal/catalog"
)

// waiting are the dead letters that wait.
var waiting = series(catalog.DeadLetters, `state="waiting"`)

// letterAlerts are about dead letters that are left alone. GabionDeadLetters tells of each that comes.
var letterAlerts = []alert{
	{
		name:     "GabionDeadLettersInflow",
		expr:     fmt.Sprintf("max by (%s) (increase(%s[15m])) > 50", who, catalog.DeadPut.Name),
		severity: "critical",
		summary:  "{{ $labels.job }}: {{ $value | humanize }} messages of {{ $labels.dependency }} became dead letters in 15 minutes",
		means:    "Messages are given up one after another. One bad message is a dead letter; many are an outage of something that the work needs, or a deployment that can't read them.",
		look:     "`gabion deadletter stats` says why they are given up, `gabion deadletter ls --since 15m` has the last error of each. What was deployed before it began?",
		do:       "Stop what causes it: undo the deployment, or pause the consumers. A policy with more attempts or a breaker would have kept these messages with the broker. Redrive when the cause is mended.",
		fires:    map[string]string{`gabion_dead_letters_put_total{}`: "0+10x80"},
		labels:   map[string]string{"job": "shop", "dependency": "pay"},
	},
	{
		name:     "GabionDeadLettersPileUp",
		expr:     fmt.Sprintf("max by (%[1]s) (%[2]s) > max by (%[1]s) (min_over_time(%[2]s[1h]))", who, waiting),
		lasts:    "15m",
		severity: "warning",
		summary:  "{{ $labels.job }}: {{ $value | humanize }} dead letters of {{ $labels.dependency }} wait, and they become more",
		means:    "There are more dead letters than an hour ago, and they are not being settled.",
		look:     "`gabion deadletter stats` counts them by reason, `gabion deadletter ls` lists them.",
		do:       "Mend the cause, then redrive them at a rate that the dependency can take. Drop what is no longer wanted. [redrive.md](redrive.md) goes through it.",
		fires:    map[string]string{`gabion_dead_letters{state="waiting"}`: "0+1x80"},
		labels:   map[string]string{"job": "shop", "dependency": "pay"},
	},
	{
		name:     "GabionDeadLettersOld",
		expr:     fmt.Sprintf("max by (%s) (%s) > 86400", who, catalog.DeadAge.Name),
		lasts:    "15m",
		severity: "warning",
		summary:  "{{ $labels.job }}: a dead letter of {{ $labels.dependency }} has waited for {{ $value | humanizeDuration }}",
		means:    "A message was given up more than a day ago, and it is not decided yet what becomes of it. A customer may be waiting for its effect.",
		look:     "`gabion deadletter ls --before 1d` lists those that are older than a day.",
		do:       "Redrive, resolve or drop each. Drop a letter that is no longer wanted, do not leave it.",
		fires:    map[string]string{`gabion_dead_letters_oldest_age_seconds{}`: "90000+60x80"},
		labels:   map[string]string{"job": "shop", "dependency": "pay"},
	},
	{
		name:     "GabionDeadLettersUnresolved",
		expr:     fmt.Sprintf("max by (%s) (%s) > 0", who, catalog.DeadUnresolved.Name),
		lasts:    "1h",
		severity: "warning",
		summary:  "{{ $labels.job }}: the outcome of {{ $value | humanize }} dead letters of {{ $labels.dependency }} is unknown",
		means:    "Their work may have had its effect or not, as when a process died in the middle. No redrive takes them until an operator has found out.",
		look:     "`gabion deadletter ls --reason outcome_unknown` lists them. Look for the effect where it would be: in the ledger, at the payment provider.",
		do:       "`gabion deadletter resolve` each: done, or nothing happened. Then a redrive may take those of which nothing happened.",
		fires:    map[string]string{`gabion_dead_letters_unresolved{}`: "2x80"},
		labels:   map[string]string{"job": "shop", "dependency": "pay"},
	},
	{
		name:     "GabionRedriveStopped",
		expr:     fmt.Sprintf("max by (%[1]s) (%[2]s) > 0 and max by (%[1]s) (%[3]s) > 0", who, catalog.RedrivesStopped.Name, waiting),
		severity: "warning",
		summary:  "{{ $labels.job }}: a redrive of {{ $labels.dependency }} stopped by itself",
		means:    "Of the last 20 letters that the redrive ran, fewer than half succeeded. So it stopped, and what is left waits again. The cause was thought to be mended, and is not. The alert ends when another redrive of the group is ordered, or when no letter waits.",
		look:     "`gabion deadletter redrives` says why it stopped, `gabion deadletter ls` has the last error of each letter. Do all fail alike, or only those of one reason?",
		do:       "Mend the cause, then order another redrive, at first of a few letters by their IDs. Drop what can't succeed any more. [redrive.md](redrive.md) goes through it.",
		fires:    map[string]string{`gabion_redrives_stopped{}`: "1x80"},
		labels:   map[string]string{"job": "shop", "dependency": "pay"},
	},
	{
		name:     "GabionDeadLettersLost",
		expr:     grown(who, series(catalog.DeadLost), "15m"),
		severity: "critical",
		summary:  "{{ $labels.job }}: a full store removed dead letters of {{ $labels.dependency }}",
		means:    "The store of dead letters is full and has `DropOldest`. To make room it removed the letters that waited the longest. They were not settled, and their messages are gone.",
		look:     "The log has a line `letters_lost` for each group, with how many they were and how long the oldest waited. The panel \"Dead letters\" says what fills the store.",
		do:       "Stop the inflow, and settle what waits: redrive or drop it. Raise `MaxLetters` or `MaxBytes` if the store is too small for an outage. With `Refuse`, the default, a full store leaves messages with the broker. What was removed can only come from the senders again.",
		fires:    map[string]string{`gabion_dead_letters_lost_total{}`: "_x30 1x30"},
		labels:   map[string]string{"job": "shop", "dependency": "pay"},
	},
	{
		name:     "GabionDeadLetterStoreDown",
		expr:     fmt.Sprintf("%s == 0", catalog.DeadUp.Name),
		lasts:    "5m",
		severity: "critical",
		summary:  "{{ $labels.job }} on {{ $labels.instance }}: the store of dead letters does not answer",
		means:    "Messages that are given up can't be put away. Consumers leave them with the broker, which delivers them again and again: nothing is lost, but nothing of them gets done.",
		look:     "Is the database up, its disk full, its file locked or read-only? `gabion deadletter stats` says what it answers.",
		do:       "Mend the store. Consumers go on by themselves.",
		fires:    map[string]string{`gabion_dead_letter_store_up{}`: "0x80"},
		labels:   map[string]string{"job": "shop", "instance": "a:1"},
	},
	{
		name:     "GabionOutboxParked",
		expr:     fmt.Sprintf("max by (job, outbox) (%s) > 0", series(catalog.OutboxMessages, `state="parked"`)),
		lasts:    "5m",
		severity: "warning",
		summary:  "{{ $labels.job }}: {{ $value | humanize }} messages of the outbox {{ $labels.outbox }} are parked",
		means:    "The relay has given them up, and what is behind them in the same aggregate waits.",
		look:     "`gabion outbox ls` lists them with the last error. The relay logs each with `what=parked`. Does the broker have the topic?",
		do:       "Make the topic, or mend what the error says. Then `gabion outbox retry` them, or `gabion outbox discard` what is no longer wanted.",
		fires:    map[string]string{`gabion_outbox_messages{state="parked",outbox="orders"}`: "1x80"},
		labels:   map[string]string{"job": "shop", "outbox": "orders"},
	},
}
