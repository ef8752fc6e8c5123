package main

import (
	"fmt"
	"strings"

	"github.com/gabion-go/gabion/contrib/gabionprom/internal/catalog"
)

// A row is a group of panels.
type row struct {
	title  string
	panels []panel
}

// A panel shows lines over time, unless kind says otherwise.
type panel struct {
	title, about string
	kind         string // of Grafana; empty means timeseries
	unit         string // of Grafana
	threshold    float64
	width        int // of 24; zero means 8
	targets      []target
}

type target struct{ expr, legend string }

// window is the time over which rates are taken.
const window = "$__rate_interval"

func rate(by string, m *catalog.Metric, match ...string) string {
	return rates(by, series(m, append([]string{where}, match...)...), window)
}

func level(by string, m *catalog.Metric) string { return sum(by, series(m, where)) }

func largest(by string, m *catalog.Metric, match ...string) string {
	return fmt.Sprintf("max by (%s) (%s)", by, series(m, append([]string{where}, match...)...))
}

func quantiles(m *catalog.Metric, match ...string) (targets []target) {
	for _, q := range []float64{.5, .95, .99} {
		targets = append(targets, target{quantile(q, each, m, window, append([]string{where}, match...)...), fmt.Sprintf("{{dependency}} p%v", q*100)})
	}
	return targets
}

func one(expr, legend string) []target { return []target{{expr, legend}} }

const (
	perSecond = "reqps"
	asSeconds = "s"
	asShare   = "percentunit"
	name      = "{{dependency}}"
)

var rows = []row{
	{"Amplification and calls", []panel{
		{title: "Amplification", about: "Requests that go out for each call. 1 is a day without retries; above 1.2 retries are a load of their own.",
			threshold: 1.2, width: 12, targets: one(amplification(each, window, where), name)},
		{title: "Calls", unit: perSecond, width: 6, targets: one(rate(each, catalog.Calls), name)},
		{title: "Requests", about: "Attempts, and what is sent again below.", unit: perSecond, width: 6, targets: one(requests(each, window, where), name)},
		{title: "Calls by outcome", unit: perSecond, targets: one(rate("dependency, outcome", catalog.Calls), name+" {{outcome}}")},
		{title: "Share of calls that failed", about: "Because of the dependency: answers that say no do not count.", unit: asShare,
			targets: one(ratio(rate(each, catalog.Calls, failures), rate(each, catalog.Calls, `outcome!="canceled"`)), name)},
		{title: "Attempts by result", unit: perSecond, targets: one(rate("dependency, kind, result", catalog.Attempts), name+" {{kind}} {{result}}")},
	}},
	{"Retries and budget", []panel{
		{title: "Retries by code", about: "What is being repeated.", unit: perSecond, targets: one(rate("dependency, code, operation", catalog.Retries), name+" {{operation}} {{code}}")},
		{title: "Retry success", about: "Share of the calls with a retry that succeeded. Low means that retries only add load.", unit: asShare,
			targets: one(retrySuccess(each, window, where), name)},
		{title: "Attempts until success", about: "The mean. Rising means that the dependency gets worse.", targets: one(mean(each, catalog.AttemptsForSuccess, window, where), name)},
		{title: "Retry budget", about: "Retries and hedges that are allowed right now, in the process that has fewest.",
			targets: one(fmt.Sprintf("min by (%s) (%s)", each, series(catalog.BudgetTokens, where)), name)},
		{title: "Retries suppressed", unit: perSecond, targets: one(rate("dependency, reason", catalog.Suppressed), name+" {{reason}}")},
		{title: "Retries switched off", targets: []target{{largest(each, catalog.RetriesOff), name + " off"}, {rate(each, catalog.Switched), name + " switched per second"}}},
	}},
	{"Latency", []panel{
		{title: "Call duration", unit: asSeconds, targets: quantiles(catalog.CallDuration)},
		{title: "Call duration with retries", unit: asSeconds, targets: quantiles(catalog.CallDuration, `retried="yes"`)},
		{title: "Attempt duration", about: "Of successes, and the timeout where it is measured.", unit: asSeconds, targets: append(
			quantiles(catalog.AttemptDuration, `result="success"`), target{largest(each, catalog.AttemptTimeout), name + " timeout"})},
		{title: "Deadline left at attempt start", about: "The tenth with least time, against what half of the attempts need.", unit: asSeconds, targets: []target{
			{quantile(.1, each, catalog.DeadlineLeft, window, where), name + " left p10"},
			{quantile(.5, each, catalog.AttemptDuration, window, where, `result="success"`), name + " attempt p50"},
		}},
		{title: "Timeouts by layer", unit: perSecond, targets: one(rate("dependency, layer", catalog.Timeouts), name+" {{layer}}")},
		{title: "Slow attempts", unit: perSecond, targets: one(rate(each, catalog.SlowAttempts), name)},
	}},
	{"Breaker", []panel{
		{title: "Breaker state", kind: "state-timeline", width: 24, targets: one(stateNumber(), "{{dependency}} {{partition}} {{instance}}")},
		{title: "Breakers not closed", targets: []target{
			{rateless("dependency, state", catalog.BreakerPartitions, `state!="closed"`), name + " {{state}}"},
			{largest(each, catalog.EndpointsOut), name + " endpoints out"}, {largest(each, catalog.BackupsOut), name + " backups out"},
		}},
		{title: "Transitions", about: "In five minutes.", targets: []target{
			{fmt.Sprintf("sum by (dependency, from, to, cause) (increase(%s[5m])) > 0", series(catalog.BreakerTransitions, where)), name + " {{from}} → {{to}}: {{cause}}"},
			{fmt.Sprintf("sum by (dependency) (increase(%s[5m])) > 0", series(catalog.BreakerOpens, where)), name + " opened"},
			{fmt.Sprintf("sum by (dependency, cause) (increase(%s[5m])) > 0", series(catalog.BreakerExceeded, where)), name + " would have opened: {{cause}}"},
		}},
		{title: "Failure and slow ratio", unit: asShare, targets: []target{{largest(each, catalog.FailureRatio), name + " failed"}, {largest(each, catalog.SlowRatio), name + " slow"}}},
	}},
	{"Bulkhead and waits", []panel{
		{title: "Bulkhead", targets: []target{
			{level(each, catalog.InFlight), name + " in flight"}, {level(each, catalog.Limit), name + " limit"},
			{level(each, catalog.Queued), name + " queued"},
			{rate(each, catalog.LimitChanges), name + " limit changes per second"},
		}},
		{title: "Attempts refused", unit: perSecond, targets: one(rate("dependency, reason", catalog.Refused), name+" {{reason}}")},
		{title: "Waits", unit: perSecond, targets: one(rate("dependency, wait", catalog.Waits), name+" {{wait}}")},
		{title: "Paced", about: "For how much longer the dependency asked for time.", unit: asSeconds, targets: []target{{largest(each, catalog.Paced), name}, {rate(each, catalog.PaceSet), name + " asked per second"}}},
		{title: "Throttle", unit: asShare, targets: []target{
			{largest(each, catalog.ThrottleRefuses), name + " refuses"},
			{"1 - " + ratio(level(each, catalog.ThrottleAccepts), "("+level(each, catalog.ThrottleRequests)+" > 0)"), name + " not taken"},
		}},
		{title: "Rate limit", targets: []target{
			{level(each, catalog.RateLimit), name + " turns per second"}, {largest(each, catalog.RateLimitAhead), name + " turns ahead"},
			{largest(each, catalog.RateLimitNext), name + " seconds to the next"},
		}},
		{title: "Quotas", about: "The share of each quota that is left, and the calls that wait for room.", targets: []target{
			{ratio(level("dependency, quota", catalog.QuotaLeft), "("+level("dependency, quota", catalog.QuotaAmount)+" > 0)"), name + " {{quota}} left"},
			{level("dependency, quota", catalog.QuotaWaiting), name + " {{quota}} calls wait"},
		}},
		{title: "Fleet", about: "Whether shares of limits have ended because the store can't be reached, and the overrides that are in force.", targets: []target{
			{largest(each, catalog.ShareLost), name + " share lost"}, {largest(each, catalog.ShareLeft), name + " seconds left"},
			{fmt.Sprintf("max by (fleet) (%s{%s})", catalog.FleetMembers.Name, processes), "{{fleet}} processes"},
			{fmt.Sprintf("sum by (fleet) (rate(%s{%s}[$__rate_interval]))", catalog.FleetFailed.Name, processes), "{{fleet}} renewals failed per second"},
			{fmt.Sprintf("max by (fleet) (%s{%s})", catalog.FleetOverrides.Name, processes), "{{fleet}} overrides"},
		}},
		{title: "Results still open", about: "Streams, and bodies that are not closed.", targets: []target{{level(each, catalog.Streams), name}, {rate(each, catalog.Outlived), name + " new per second"}}},
		{title: "Spent", about: "In money, and in what it bought.", targets: []target{
			{rate("dependency, unit", catalog.Spent), name + " {{unit}} per second"},
			{ratio(rate("dependency, unit", catalog.Spent), rate("dependency, unit", catalog.SpentAnswers)), name + " {{unit}} per answer"},
		}},
		{title: "Results broken", unit: perSecond, targets: one(rate("dependency, reason", catalog.BodiesFailed), name+" {{reason}}")},
	}},
	{"Hedges and fallbacks", []panel{
		{title: "Hedges", unit: perSecond, targets: one(rate("dependency, won", catalog.Hedges), name+" won: {{won}}")},
		{title: "Hedges skipped", unit: perSecond, targets: one(rate("dependency, reason", catalog.HedgesSkipped), name+" {{reason}}")},
		{title: "Fallbacks", unit: perSecond, targets: one(rate("dependency, reason", catalog.Fallbacks), name+" {{reason}}")},
	}},
	{"Keys and messages", []panel{
		{title: "Idempotency", unit: perSecond, targets: one(rate("dependency, result", catalog.Idempotency), name+" {{result}}")},
		{title: "Messages", unit: perSecond, targets: one(rate("dependency, disposition, reason", catalog.Messages), name+" {{disposition}} {{reason}}")},
		{title: "Dead letters", about: "The store's own numbers: each process that shares it says the same.", targets: []target{
			{largest("dependency, state", catalog.DeadLetters), name + " {{state}}"}, {largest(each, catalog.DeadUnresolved), name + " outcome unknown"},
		}},
		{title: "Dead letters, new per minute", targets: []target{
			{fmt.Sprintf("60 * max by (dependency) (rate(%s[%s]))", series(catalog.DeadPut, where), window), name},
			{"60 * " + rate(each, catalog.DeadLost), name + " lost by a full store"},
		}},
		{title: "Oldest dead letter", unit: asSeconds, targets: one(largest(each, catalog.DeadAge), name)},
		{title: "Dead letters, room and redrives", targets: []target{
			{largest(each, catalog.DeadBytes), name + " bytes"}, {largest(each, catalog.Redrives), name + " redrives"},
			{largest(each, catalog.RedrivesStopped), name + " redrives that stopped by themselves"},
			{fmt.Sprintf("min by (job, instance) (%s{%s})", catalog.DeadUp.Name, processes), "{{instance}} store answers"},
		}},
		{title: "Outboxes", about: "The database's own numbers: each process that shares it says the same.", targets: []target{
			{fmt.Sprintf("max by (job, outbox, state) (%s{%s})", catalog.OutboxMessages.Name, processes), "{{outbox}} {{state}}"},
			{fmt.Sprintf("max by (job, outbox) (%s{%s})", catalog.OutboxAge.Name, processes), "{{outbox}} oldest, seconds"},
			{fmt.Sprintf("min by (job, instance, outbox) (%s{%s})", catalog.OutboxUp.Name, processes), "{{instance}} {{outbox}} answers"},
		}},
	}},
	{"Gabion itself", []panel{
		{title: "Configuration", targets: []target{
			{fmt.Sprintf("min by (job, instance) (%s{%s})", catalog.ReloadSuccess.Name, processes), "{{instance}} last reload succeeded"},
			{fmt.Sprintf("time() - max by (job, instance) (%s{%s})", catalog.ReloadTime.Name, processes), "{{instance}} seconds since"},
			{fmt.Sprintf("count by (job, hash) (%s{%s})", catalog.ConfigInfo.Name, processes), "processes with {{hash}}"},
			{rate(each, catalog.Reloads), name + " reloads per second"},
		}},
		{title: "What metrics lack", targets: []target{
			{fmt.Sprintf("sum by (job, label) (rate(%s{%s}[%s]))", catalog.Overflow.Name, processes, window), "{{label}} as _other"},
			{rate(each, catalog.EventsLost), name + " events lost"},
			{rate(each, catalog.ObserverPanics), name + " observer panics"},
			{rate(each, catalog.Spilled), name + " calls that share a partition"},
		}},
		{title: "Sent again below", about: "What net/http repeats by itself.", unit: perSecond, targets: one(rate(each, catalog.ResentBelow), name)},
	}},
}

// processes narrows to processes, for metrics of no dependency.
const processes = `job=~"$job", instance=~"$instance"`

func rateless(by string, m *catalog.Metric, match ...string) string {
	return sum(by, series(m, append([]string{where}, match...)...))
}

// stateNumber is the number of the state that each breaker is in. Of one that never
// moved there is only the state closed.
func stateNumber() string {
	var all []string
	for i, s := range states {
		all = append(all, fmt.Sprintf("%d * %s", i, series(catalog.BreakerState, where, `state="`+s.name+`"`)))
	}
	return fmt.Sprintf("max by (instance, dependency, partition) (%s)", strings.Join(all, " or "))
}

// states are those of breakers, in the order of their numbers.
var states = []struct{ name, color string }{
	{"closed", "green"}, {"half_open", "yellow"}, {"open", "red"}, {"forced_open", "dark-red"}, {"disabled", "purple"}, {"observe_only", "blue"},
}

func allPanels() (all []panel) {
	for _, r := range rows {
		all = append(all, r.panels...)
	}
	return all
}
