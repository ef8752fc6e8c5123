package dashboard

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/gabion-go/gabion/internal/formulas"
	"github.com/gabion-go/gabion/internal/terms"
	"github.com/gabion-go/gabion/policy"
)

// levels says in a sentence each what the parts of a dependency have counted.
func (v *vitals) levels(e *evidence) (all []string) {
	if !v.known {
		return nil
	}
	add := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	s, p := &v.stats, &v.policy
	if b := v.lead().Breaker; !v.unguarded && b.State == policy.StateClosed {
		all = append(all, breakerLevel(&b, &p.Breaker))
	}
	if text := v.timeoutLevel(e); text != "" {
		all = append(all, text)
	}
	if t := &s.Throttle; t.On {
		add("throttle: %d requests, %d accepted in %s; above %s × accepted it refuses, now %s of the calls",
			t.Requests, t.Accepts, span(p.Throttle.Window), trimmed(p.Throttle.K), percent(float64(t.Refuses)))
	}
	if r := &s.RateLimit; r.On {
		text := "a turn is free"
		if r.Next > 0 {
			text = "the next turn is free in " + span(r.Next)
		}
		add("rate limit: %s a second, bursts of %d; %s, %d are taken ahead", trimmed(r.Rate), r.Burst, text, r.Ahead)
	}
	if x := &s.Share; x.On {
		all = append(all, shareLevel(s))
	}
	for _, q := range s.Quotas() {
		all = append(all, quotaLevel(&q))
	}
	if p.Hedge.Max > 0 && !p.Hedge.Off {
		add("hedges: %s sent so far, %d brought the answer", plural(s.Totals.Hedges, "was", "were"), s.Totals.HedgesWon)
	}
	all = append(all, endpointLevels(s)...)
	if s.Streams > 0 {
		add("results: %s still open after their time and hold no slot", plural(s.Streams, "is", "are"))
	}
	for _, x := range s.Spent {
		if x.Answers > 0 {
			add("spent: %s %s in %s, %s %s each", amount(x.Amount), x.Unit, plural(x.Answers, "answer", "answers"), amount(x.Amount/float64(x.Answers)), x.Unit)
		}
	}
	if t := &s.Totals; t.Calls > 0 {
		add("since it was made: %s, %s succeeded, %.2f attempts per call, %s never sent",
			plural(t.Calls, "call", "calls"), share(t.Succeeded, t.Calls), float64(t.Attempts)/float64(t.Calls), plural(t.Unsent, "was", "were"))
	}
	return all
}

// shareLevel says what this process has of limits that it shares with others.
func shareLevel(s *policy.Stats) string {
	x := &s.Share
	var parts []string
	if x.RateOf > 0 || x.Rate > 0 {
		part := trimmed(math.Round(float64(x.Rate)*100)/100) + " a second"
		if x.RateOf > 0 {
			part += " of " + trimmed(float64(x.RateOf))
		}
		parts = append(parts, part)
	}
	if x.SlotsOf > 0 {
		parts = append(parts, fmt.Sprintf("%d of %d slots", x.Slots, x.SlotsOf))
	}
	if x.Floored {
		parts = append(parts, percent(float64(x.Floor))+" of what the retry budget has without a success")
	}
	if quotas := s.Quotas(); len(quotas) > 0 && quotas[0].Shared {
		parts = append(parts, percent(float64(quotas[0].Part))+" of "+quotas[0].Name())
	}
	text := "share of the fleet: " + strings.Join(parts, ", ")
	if x.Lost {
		return text + "; the store can't be reached, so this holds until it is back"
	}
	return text + "; good for " + span(x.Until.Sub(s.Now))
}

// quotaLevel says how much of a quota is left, and who waits for more.
func quotaLevel(q *policy.QuotaStats) string {
	text := fmt.Sprintf("%s: %s of %s left", q.Name(), thousands(q.Left), thousands(q.Amount))
	if q.Told {
		text += ", as the dependency says"
	}
	if q.Waiting > 0 {
		text += fmt.Sprintf(", %s", plural(int64(q.Waiting), "call waits", "calls wait"))
		if q.Next > 0 {
			text += ", room in " + span(q.Next)
		}
	}
	if q.Factor > 0 && (q.Factor < 0.8 || q.Factor > 1.25) {
		text += "; calls use " + trimmed(math.Round(q.Factor*10)/10) + " times their estimates"
	}
	return text
}

// thousands writes an amount with its thousands apart.
func thousands(v float64) string {
	if v < 1000 {
		return strconv.FormatFloat(math.Round(v*100)/100, 'f', -1, 64)
	}
	text := strconv.FormatFloat(v, 'f', 0, 64)
	for at := len(text) - 3; at > 0; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}

// timeoutLevel says what an attempt's time rests on where it is measured, and else whether
// another would fit better.
func (v *vitals) timeoutLevel(e *evidence) string {
	t := &v.timeout
	if t.Basis == terms.TimeoutFixed {
		to, why := formulas.ProposeAttempt(v.policy, v.sample(e))
		if to == 0 {
			return ""
		}
		return why + ": write " + policy.FormatDuration(to)
	}
	text, share := fmt.Sprintf("attempt timeout: %s now, ", span(t.Attempt)), strings.TrimSuffix(t.Percentile.String(), "%")
	switch t.Basis {
	case terms.TimeoutStretched:
		return text + "since attempts were cut off in series, and those that may go on are answered"
	case terms.TimeoutTooFew:
		return text + fmt.Sprintf("the upper bound: %d of the %d latencies that p%s needs are known", t.Samples, t.Needed, share)
	case terms.TimeoutMeasured:
		return text + fmt.Sprintf("measured: p%s of %s, %s cut off before", share,
			plural(t.Samples+t.Cut, "attempt", "attempts"), plural(t.Cut, "was", "were"))
	case terms.TimeoutHopeless:
		return text + "since hardly any attempt succeeds that takes longer; one in 16 has the upper bound"
	}
	return text + fmt.Sprintf("longer than measured: %s cut off, so p%s is not known", plural(t.Cut, "was", "were"), share)
}

// sample is what decides about times, here as in gabion lint --measured.
func (v *vitals) sample(e *evidence) formulas.Sample {
	t, state := &v.stats.Totals, v.lead().Breaker.State
	return formulas.Sample{
		Took: e.took, Calls: float64(t.Calls), Failed: float64(t.Calls - t.Succeeded - t.Failures.Of(policy.NotRetryable)),
		Attempts: float64(t.Attempts), Retries: float64(t.Retries), Cut: float64(e.cut),
		GaveUp: float64(t.Failures.Of(policy.CallTimeout) + t.Failures.Of(policy.Canceled)),
		Opened: e.opened > 0 || state == policy.StateOpen || state == policy.StateHalfOpen || t.Failures.Of(policy.BreakerOpen) > 0,
	}
}

// breakerLevel says how far a closed breaker is from opening.
func breakerLevel(b *policy.BreakerStats, rule *policy.Breaker) string {
	text := fmt.Sprintf("breaker: %s of %s failed", share(b.Counts.Failures, b.Counts.Calls), plural(b.Counts.Calls, "call", "calls"))
	if b.Counts.Slow > 0 {
		text += fmt.Sprintf(", %s were slow", share(b.Counts.Slow, b.Counts.Calls))
	}
	var opens []string
	if rule.FailureRate > 0 {
		opens = append(opens, percent(float64(rule.FailureRate)))
		if b.Counts.Calls < int64(rule.MinCalls) {
			text += fmt.Sprintf(", %d of the %d calls needed so far", b.Counts.Calls, rule.MinCalls)
		}
	}
	if rule.Failures > 0 {
		opens = append(opens, plural(int64(rule.Failures), "failure", "failures"))
	}
	if rule.Consecutive > 0 {
		opens = append(opens, fmt.Sprintf("%d in a row", cmp.Or(b.RunOpens, rule.Consecutive)))
	}
	if len(opens) > 0 {
		text += ", it opens at " + strings.Join(opens, " or ")
	}
	if more := usualRuns(b, rule); more != "" {
		text += " (" + more + ")"
	}
	return text
}

// usualRuns says why more failures in a row than the policy's open a breaker, or fewer, if that is so.
func usualRuns(b *policy.BreakerStats, rule *policy.Breaker) string {
	switch {
	case b.RunOpens <= 0: // the rule is off, or the sample is of a breaker that does not count
	case b.RunOpens > rule.Consecutive:
		return fmt.Sprintf("not %d, since most calls fail and long rows of failures ended with a success: %d now", rule.Consecutive, b.Run)
	case b.RunOpens < rule.Consecutive:
		return fmt.Sprintf("not %d, since others of the fleet found it broken", rule.Consecutive)
	}
	return ""
}
