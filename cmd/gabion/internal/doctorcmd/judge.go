package doctorcmd

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/gabion-go/gabion/config"
	"github.com/gabion-go/gabion/lint"
	"github.com/gabion-go/gabion/policy"
)

// line is one thing that the measurement says about a dependency's policy.
type line struct {
	Dependency string          `json:"dependency"`
	Rule       string          `json:"rule"` // the lint rule behind it
	Page       string          `json:"page"`
	Severity   lint.Severity   `json:"severity"`
	Text       string          `json:"text"`
	Proposal   string          `json:"proposal,omitempty"`
	Changes    []config.Change `json:"changes,omitempty"`
}

// The bounds of what is worth a line.
const (
	fewCalls    = 100  // with fewer calls, doctor reports no shares
	manyCalls   = 1000 // with this many calls, doctor reports what never happened
	manyOpens   = 4.0  // in ten minutes: a breaker that flaps
	shareOfCuts = 0.01
	shareOfFull = 0.01
)

// judge says what a policy and its measurement do not agree on.
func judge(v *vitals, file *config.File) (lines []line) {
	p, facts := file.Policies[v.name].Resolved(), file.Facts[v.name]
	say := func(rule string, how lint.Severity, proposal string, changes []config.Change, format string, args ...any) {
		for i := range changes {
			changes[i].Dependency = v.name
		}
		lines = append(lines, line{v.name, rule, page(rule), how, fmt.Sprintf(format, args...), proposal, changes})
	}
	timeouts(v, p, say)
	budget(v, p, say)
	breakers(v, p, say)
	bulkheads(v, p, file.Written(v.name, "bulkhead.limit"), say)
	if facts.KeyRetention > 0 && v.longest > facts.KeyRetention {
		say(ruleRetention, lint.Error, "keep keys for at least "+text(niceTime(2*v.longest)), nil,
			"a call with several attempts took %s, and keys are kept for %s: a repeat after that is done twice", text(v.longest), text(facts.KeyRetention))
	}
	return lines
}

type sayer = func(rule string, how lint.Severity, proposal string, changes []config.Change, format string, args ...any)

// timeouts compares the attempt timeout with what attempts need.
func timeouts(v *vitals, p policy.Policy, say sayer) {
	if p.Timeout.Attempt <= 0 || p.Timeout.Percentile > 0 {
		return
	}
	if v.settled >= fewCalls && v.cut/v.settled >= shareOfCuts {
		say(ruleTimeout, lint.Warning, "look whether the dependency was in trouble; if it was not, give attempts more time", nil,
			"%s of the attempts (%s of %s) were ended by timeout.attempt of %s", percent(v.cut/v.settled), number(v.cut), number(v.settled), text(p.Timeout.Attempt))
	}
	if proposal, off := p.ProposeAttempt(v.latency); off && proposal.Attempt > 0 {
		rule := ruleFar
		if proposal.Attempt > p.Timeout.Attempt {
			rule = ruleTimeout
		}
		say(rule, lint.Note, "timeout.attempt: "+text(proposal.Attempt),
			[]config.Change{{Path: "timeout.attempt", Value: text(proposal.Attempt)}}, "%s", proposal.Reason)
	}
}

// budget says when re-sends were refused, and when there never were any.
func budget(v *vitals, p policy.Policy, say sayer) {
	refused := v.ended[policy.BudgetExhausted.String()]
	unsafe := v.ended[policy.NotSafe.String()]
	failed := v.calls - v.succeeded
	switch wanted := refused + v.retries; {
	case wanted >= 20 && refused/wanted >= 0.5:
		proposal, changes := "look at why so much failed: more retries would only add load", []config.Change(nil)
		if def := (policy.Policy{}).Resolved().Retry.Budget.Ratio; p.Retry.Budget.Ratio < def {
			proposal, changes = "retry.budget.ratio: "+def.String()+", the default", []config.Change{{Path: "retry.budget.ratio", Value: def.String()}}
		}
		say(ruleBudget, lint.Warning, proposal, changes,
			"the budget was used up: %s of %s calls that wanted a retry got none, with retry.budget.ratio %s", number(refused), number(wanted), p.Retry.Budget.Ratio)
	case v.calls >= manyCalls && v.retries == 0 && unsafe > 0:
		say(ruleUnsafe, lint.Warning, "give these calls idempotency keys, or say safe: true if they may be repeated", nil,
			"no call was ever repeated, and %s of %s that failed were not because nothing says that they may be", number(unsafe), number(failed))
	}
}

// breakers says when one flaps.
func breakers(v *vitals, p policy.Policy, say sayer) {
	if !v.knowOpens || v.opens < manyOpens || v.perTenMinutes(v.opens) < manyOpens {
		return
	}
	def := policy.Policy{}.Resolved().Breaker
	var changes []config.Change
	if p.Breaker.FailureRate > 0 && p.Breaker.FailureRate < def.FailureRate {
		changes = append(changes, config.Change{Path: "breaker.failure_rate", Value: def.FailureRate.String()})
	}
	if p.Breaker.MinCalls > 0 && p.Breaker.MinCalls < def.MinCalls {
		changes = append(changes, config.Change{Path: "breaker.min_calls", Value: strconv.Itoa(def.MinCalls)})
	}
	proposal := "the dependency comes and goes: look there"
	if len(changes) > 0 {
		proposal = "let it open only when hardly anything succeeds, as the default does"
	}
	say(ruleFlap, lint.Warning, proposal, changes, "the breaker opened %s times, %s in ten minutes: it flaps", number(v.opens), number(v.perTenMinutes(v.opens)))
}

// bulkheads says when one is always full, and when it never bites.
func bulkheads(v *vitals, p policy.Policy, chosen bool, say sayer) {
	limit := v.limit
	if limit == 0 && p.Bulkhead.Limit > 0 && !p.Bulkhead.Off {
		limit = float64(p.Bulkhead.Limit)
	}
	full := sum(v.ended, policy.BulkheadFull.String(), policy.QueueTimeout.String())
	used := v.rate() * v.latency.P99.Seconds()
	switch {
	case limit == 0 || v.calls < fewCalls:
	case full/v.calls >= shareOfFull:
		proposal, changes := "the dependency is too slow for this many calls: look there", []config.Change(nil)
		if want := int(math.Ceil(2 * used)); float64(want) > limit && p.Bulkhead.Limit > 0 {
			proposal = fmt.Sprintf("bulkhead.limit: %d, twice the rate × p99, if the dependency can take it", want)
			changes = []config.Change{{Path: "bulkhead.limit", Value: strconv.Itoa(want)}}
		}
		say(ruleBulkhead, lint.Warning, proposal, changes, "the bulkhead of %s slots refused %s of the calls (%s of %s); %s calls/s × p99 %s need %s slots",
			number(limit), percent(full/v.calls), number(full), number(v.calls), number(roundTo(v.rate(), 2)), text(v.latency.P99), number(math.Ceil(used)))
	case chosen && v.knowBusy && v.calls >= manyCalls && v.busiest <= limit/10 && p.Bulkhead.Limit > 0:
		want := int(max(10, 4*v.busiest))
		say(ruleWide, lint.Note, fmt.Sprintf("bulkhead.limit: %d", want), []config.Change{{Path: "bulkhead.limit", Value: strconv.Itoa(want)}},
			"at most %s of the bulkhead's %s slots were in use at a time: when the dependency hangs, %s calls will hang with it", number(v.busiest), number(limit), number(limit))
	}
}

// niceTime rounds a time up to something that people write.
func niceTime(d time.Duration) time.Duration {
	unit := time.Millisecond
	for unit*100 < d {
		unit *= 10
	}
	return (d + unit - 1) / unit * unit
}

func text(d time.Duration) string { return policy.FormatDuration(round(d)) }

func percent(x float64) string { return strconv.FormatFloat(roundTo(100*x, 2), 'f', -1, 64) + " %" }

func number(x float64) string {
	s := strconv.FormatFloat(roundTo(x, 12), 'f', -1, 64)
	if x >= 10_000 && x < 1e15 && x == math.Trunc(x) {
		for i := len(s) - 3; i > 0; i -= 3 {
			s = s[:i] + "," + s[i:]
		}
	}
	return s
}
