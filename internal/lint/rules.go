package lint

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gabion-go/gabion/internal/formulas"
	"github.com/gabion-go/gabion/policy"
)

// policyRules are about one dependency's policy.
var policyRules = slices.Concat(keyRules, retryRules, timeRules, breakerRules, budgetRules, bulkheadRules, hedgeRules, layerRules, quotaRules, fleetRules, proxyRules)

// zero is the policy that a file without keys has.
var zero = policy.Policy{}.Resolved()

// span writes a duration that was computed. No reader needs more than four digits.
func span(d time.Duration) string {
	if !formulas.Bounded(d) {
		return "without end"
	}
	unit := time.Duration(1)
	for d/unit >= 10_000 {
		unit *= 10
	}
	if d >= time.Minute {
		unit = max(unit, time.Second)
	}
	return policy.FormatDuration(d.Round(unit))
}

// plural writes a number with what is counted.
func plural(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return strconv.Itoa(n) + " " + what
}

// digits writes a number that was computed, with three digits.
func digits(x float64) string {
	if x >= 1000 && x < 1e15 {
		return strconv.FormatFloat(x, 'f', 0, 64)
	}
	return strings.TrimSuffix(strconv.FormatFloat(x, 'g', 3, 64), ".0")
}

// percent writes a share that was computed.
func percent(x float64) string { return digits(100*x) + "%" }

// perSecond writes a rate that was computed.
func perSecond(x float64) string { return digits(x) + "/s" }

// atMost writes a rate that was computed and is a bound: rounded down.
func atMost(x float64) string {
	for _, less := range []float64{1, 0.999, 0.99, 0.9} {
		if v, err := strconv.ParseFloat(digits(x*less), 64); err == nil && v <= x {
			return perSecond(v)
		}
	}
	return perSecond(x)
}

// numbersOf writes the first to the last of what is counted: 3 and 4, or 3 to 9.
func numbersOf(first, last int) string {
	switch last - first {
	case 0:
		return strconv.Itoa(first)
	case 1:
		return strconv.Itoa(first) + " and " + strconv.Itoa(last)
	}
	return strconv.Itoa(first) + " to " + strconv.Itoa(last)
}

// retries reports whether the policy makes more than one attempt.
func (s *subject) retries() bool { return s.p.Retry.Attempts > 1 }

// hedges reports whether the policy sends hedges.
func (s *subject) hedges() bool { return s.p.Hedge.Max > 0 }

// queued reports whether no user waits for the calls: the facts say so or, where they say nothing of
// it, a call may take longer than users wait.
func (s *subject) queued() bool {
	return s.facts.Queue || !s.said("facts.queue") && s.p.Timeout.Call >= 2*time.Minute
}

// rateText writes the rate of one process.
func (s *subject) rateText() string {
	if text := s.rate().String(); len(text) <= 8 {
		return text
	}
	return perSecond(float64(s.rate()))
}

// rate is how many calls one process makes at most in a second.
func (s *subject) rate() policy.PerSecond {
	limit := s.p.RateLimit.Rate
	if s.p.Fleet.Rate {
		limit /= policy.PerSecond(max(s.facts.Processes, 1))
	}
	if limit > 0 && limit < s.facts.Rate {
		return limit
	}
	return s.facts.Rate
}

// fleet is how many calls all processes make in a second.
func (s *subject) fleet() float64 { return float64(s.rate()) * float64(s.facts.Processes) }
