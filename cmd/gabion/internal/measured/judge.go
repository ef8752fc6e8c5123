package measured

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"time"

	"github.com/gabion-go/gabion/config"
	"github.com/gabion-go/gabion/internal/facts"
	"github.com/gabion-go/gabion/internal/formulas"
	"github.com/gabion-go/gabion/internal/lint"
	"github.com/gabion-go/gabion/internal/policyfile"
	"github.com/gabion-go/gabion/policy"
)

// The lint rules behind what is measured.
const (
	ruleTimeout   = "G031" // timeout-cuts-healthy
	ruleFar       = "G032" // timeout-far-above
	ruleBudget    = "G021" // budget-without-income
	ruleUnsafe    = "G002" // write-without-key
	ruleFlap      = "G017" // breaker-trips-by-chance
	ruleBulkhead  = "G029" // bulkhead-too-small
	ruleRetention = "G037" // retention-too-short
)

// The bounds of what is worth a finding.
const (
	fewCalls    = 100  // with fewer calls, no shares are told
	manyCalls   = 1000 // with this many calls, what never happened is said
	manyOpens   = 4.0  // in ten minutes: a breaker that flaps
	shareOfCuts = 0.01
	shareOfFull = 0.01
)

// judge says what the measurement of one dependency and a file do not agree on.
type judge struct {
	*vitals
	file  *config.File
	p     policy.Policy // resolved
	found []lint.Finding
}

// judged are the findings of one dependency.
func judged(v *vitals, file *config.File) []lint.Finding {
	j := judge{vitals: v, file: file, p: file.Policies[v.name].Resolved()}
	j.timeouts()
	j.budget()
	j.breakers()
	j.bulkheads()
	if kept := facts.Of(file).Facts[v.name].KeyRetention; kept > 0 && v.longest > kept {
		j.say(ruleRetention, lint.Error, "", "keep keys for at least "+text(niceTime(2*v.longest)), nil,
			"a call with several attempts took %s, and keys are kept for %s: a repeat after that is done twice", text(v.longest), text(kept))
	}
	return j.found
}

func (j *judge) say(rule string, how lint.Severity, path, proposal string, fix []policyfile.Change, format string, args ...any) {
	f := lint.Finding{Severity: how, Dependency: j.name, Path: path, Fix: fix}
	f.Rule = lint.Rules()[slices.IndexFunc(lint.Rules(), func(r lint.Rule) bool { return r.ID == rule })]
	f.Finding = config.Finding(policyfile.Of(j.file).Finding(j.name, path, fmt.Sprintf("%s: measured: %s", j.name, fmt.Sprintf(format, args...)), proposal))
	j.found = append(j.found, f)
}

// set is a change of one of the dependency's keys.
func (j *judge) set(path, value string) policyfile.Change {
	return policyfile.Change{Dependency: j.name, Path: path, Value: value}
}

// timeouts compares the attempt timeout with what attempts need.
func (j *judge) timeouts() {
	t := j.p.Timeout
	if t.Attempt > 0 && t.Percentile == 0 && j.attempts >= fewCalls && j.cut/j.attempts >= shareOfCuts {
		j.say(ruleTimeout, lint.Warning, "", "look whether the dependency was in trouble; if it was not, give attempts more time", nil,
			"%s of the attempts (%s of %s) ran into their timeout", percent(j.cut/j.attempts), number(j.cut), number(j.attempts))
	}
	j.callEnds()
	to, why := formulas.ProposeAttempt(j.file.Policies[j.name], j.sample())
	if to == 0 {
		return
	}
	rule, how := ruleFar, lint.Note
	if t.Attempt > 0 && to > t.Attempt {
		rule, how = ruleTimeout, lint.Warning
	}
	j.say(rule, how, "timeout.attempt", "timeout.attempt: "+policy.FormatDuration(to), []policyfile.Change{j.set("timeout.attempt", policy.FormatDuration(to))}, "%s", why)
}

// callEnds says where answers took longer than the call may take. Only those can have that were
// measured under a longer one.
func (j *judge) callEnds() {
	low, _ := j.took.Between(0.99, 0)
	if call := j.p.Timeout.Call; call > 0 && j.took.Count() >= fewCalls && low >= call {
		j.say(ruleTimeout, lint.Warning, "timeout.call", "write timeout.call: "+text(niceTime(4*low))+" or more, if callers can wait", nil,
			"p99 of %s answers is above %s, and timeout.call is %s: it ends calls that would be answered", number(float64(j.took.Count())), text(low), text(call))
	}
}

// budget says when re-sends were refused, and when there never were any.
func (j *judge) budget() {
	refused := j.ended[policy.BudgetExhausted.String()]
	unsafe := j.ended[policy.NotSafe.String()]
	failed := j.calls - j.succeeded
	switch wanted := refused + j.retries; {
	case wanted >= 20 && refused/wanted >= 0.5:
		proposal, fix := "look at why so much failed: more retries would only add load", []policyfile.Change(nil)
		if def := (policy.Policy{}).Resolved().Retry.Budget.Ratio; j.p.Retry.Budget.Ratio < def && !j.p.Retry.Budget.Off {
			proposal, fix = "retry.budget.ratio: "+def.String()+", the default", []policyfile.Change{j.set("retry.budget.ratio", def.String())}
		}
		j.say(ruleBudget, lint.Warning, "", proposal, fix,
			"the budget was used up: %s of %s calls that wanted a retry got none", number(refused), number(wanted))
	case j.calls >= manyCalls && j.retries == 0 && unsafe > 0:
		j.say(ruleUnsafe, lint.Warning, "", "give these calls idempotency keys, or say safe: true if they may be repeated", nil,
			"no call was ever repeated, and %s of %s that failed were not because nothing says that they may be", number(unsafe), number(failed))
	}
}

// breakers says when one flaps.
func (j *judge) breakers() {
	if j.opens < manyOpens || j.perTenMinutes(j.opens) < manyOpens {
		return
	}
	def := policy.Policy{}.Resolved().Breaker
	var fix []policyfile.Change
	if rate := j.p.Breaker.FailureRate; rate > 0 && rate < def.FailureRate {
		fix = append(fix, j.set("breaker.failure_rate", def.FailureRate.String()))
	}
	if n := j.p.Breaker.MinCalls; n > 0 && n < def.MinCalls {
		fix = append(fix, j.set("breaker.min_calls", strconv.Itoa(def.MinCalls)))
	}
	proposal := "the dependency comes and goes: look there"
	if len(fix) > 0 {
		proposal = "let it open only when hardly anything succeeds, as the default does"
	}
	j.say(ruleFlap, lint.Warning, "", proposal, fix, "the breaker opened %s times, %s in ten minutes: it flaps", number(j.opens), number(j.perTenMinutes(j.opens)))
}

// bulkheads says when one is always full. What else its limit should be depends on what the
// dependency can take, which nothing measures.
func (j *judge) bulkheads() {
	limit := j.limit
	if limit == 0 && j.p.Bulkhead.Limit > 0 && !j.p.Bulkhead.Off {
		limit = float64(j.p.Bulkhead.Limit)
	}
	full := sum(j.ended, policy.BulkheadFull.String(), policy.QueueTimeout.String())
	if limit == 0 || j.calls < fewCalls || full/j.calls < shareOfFull {
		return
	}
	p99 := round(j.took.Quantile(0.99))
	used, proposal := j.rate()*p99.Seconds(), "the dependency is too slow for this many calls: look there"
	if want := math.Ceil(2 * used); want > limit {
		proposal = fmt.Sprintf("twice the rate × p99 is %s: a limit of that, if the dependency can take it", number(want))
	}
	j.say(ruleBulkhead, lint.Warning, "", proposal, nil, "the bulkhead of %s slots refused %s of the calls (%s of %s); %s calls/s × p99 %s need %s slots",
		number(limit), percent(full/j.calls), number(full), number(j.calls), number(roundTo(j.rate(), 2)), text(p99), number(math.Ceil(used)))
}

// shortens reports whether a change makes anything shorter, or a bulkhead smaller, in the
// policy that results.
func shortens(was *config.File, text []byte, fix []policyfile.Change) bool {
	after, err := policyfile.Edit(was.Name, text, fix)
	if err != nil || len(fix) == 0 {
		return false
	}
	is, _ := config.Read(was.Name, after)
	p, q := was.Policies[fix[0].Dependency].Resolved(), is.Policies[fix[0].Dependency].Resolved()
	return q.Timeout.Percentile > p.Timeout.Percentile || shorter(q.Bulkhead.Limit, p.Bulkhead.Limit) ||
		anyShorter(reflect.ValueOf(q), reflect.ValueOf(p))
}

// anyShorter compares all durations below two values of one type.
func anyShorter(is, was reflect.Value) bool {
	for i := range is.NumField() {
		switch a, b := is.Field(i), was.Field(i); {
		case a.Kind() == reflect.Struct:
			if anyShorter(a, b) {
				return true
			}
		case a.Type() == reflect.TypeFor[time.Duration]():
			if shorter(time.Duration(a.Int()), time.Duration(b.Int())) {
				return true
			}
		}
	}
	return false
}

// shorter compares limits, where one that is not positive is no limit.
func shorter[T int | time.Duration](is, was T) bool { return is > 0 && (was <= 0 || is < was) }
