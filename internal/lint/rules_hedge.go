package lint

import (
	"fmt"
	"time"

	"github.com/gabion-go/gabion/policy"
)

// hedgeRules are about second attempts while the first is still out.
var hedgeRules = []Rule{
	{
		ID: "G039", Name: "hedge-without-budget", Severity: Warning,
		Title: "nothing bounds how many calls are sent twice",
		reads: []string{"hedge", "retry.budget"},
		when:  (*subject).hedges,
		check: (*subject).hedgeWithoutBudget,
	},
	{
		ID: "G040", Name: "hedge-too-early", Severity: Warning,
		Title: "more than a tenth of the calls is hedged, or none ever",
		reads: []string{"hedge", "timeout"},
		when:  (*subject).hedges,
		check: (*subject).hedgeTooEarly,
	},
	{
		ID: "G041", Name: "hedged-write", Severity: Warning, Needs: []string{"facts.writes"},
		Title: "calls that change something are sent twice at the same time",
		reads: []string{"hedge"},
		when:  (*subject).hedges,
		check: (*subject).hedgedWrite,
	},
	{
		ID: "G042", Name: "hedge-below-median", Severity: Warning, Needs: []string{"facts.p50"},
		Title: "the delay of a hedge is shorter than what attempts usually take",
		reads: []string{"hedge"},
		when:  func(s *subject) bool { return s.hedges() && s.p.Hedge.Delay > 0 },
		check: (*subject).hedgeBelowMedian,
	},
}

func (s *subject) hedgeWithoutBudget() {
	if s.p.Retry.Budget.Off {
		s.find("retry.budget", fmt.Sprintf("hedge.max %d and retry.budget: off: a dependency that becomes slow gets up to %d times the calls, and becomes slower", s.p.Hedge.Max, 1+s.p.Hedge.Max),
			"leave retry.budget: off out"+freeFailures, s.set("retry.budget.ratio", zero.Retry.Budget.Ratio.String()))
	}
}

// leastPercentile hedges a tenth of the calls.
const leastPercentile = 0.9

// hasty is a delay within which a network of one region hardly answers.
const hasty = 5 * time.Millisecond

func (s *subject) hedgeTooEarly() {
	h := s.p.Hedge
	switch attempt := s.p.Timeout.Attempt; {
	case h.Percentile > 0 && h.Percentile < leastPercentile:
		s.find("hedge.percentile", fmt.Sprintf("percentile %v: %s of the calls are sent more than once when all is well, and of each 0.3 are earned: the budget is gone when it is needed", h.Percentile, percent(1-float64(h.Percentile))),
			"write 95%", s.set("hedge.percentile", "95%"))
	case h.Delay <= 0 && h.Percentile <= 0 && h.Delay != policy.Off:
		s.find("hedge.percentile", fmt.Sprintf("percentile: off without a delay: each call is sent %s at once", times(1+h.Max)), "write percentile: 95%", s.set("hedge.percentile", "95%"))
	case h.Delay > 0 && h.Delay < hasty && h.Delay < attempt/100 && h.Percentile <= 0 && !s.said("facts.p50"): // else G042 knows
		s.find("hedge.delay", fmt.Sprintf("delay %s, where an attempt may take %s: unless nearly all answers come within it, each call is sent %s", policy.FormatDuration(h.Delay), s.time("timeout.attempt", attempt), times(1+h.Max)),
			"leave it out for the measured 95th percentile, which saves fewer slow calls, or say facts.p50")
	case h.Delay > 0 && attempt > 0 && h.Delay >= attempt && h.Percentile <= 0:
		s.findAs(Note, "hedge.delay", fmt.Sprintf("delay %s ≥ timeout.attempt %s: an attempt is cut off before its hedge goes", policy.FormatDuration(h.Delay), s.time("timeout.attempt", attempt)),
			"write the 95th percentile, or leave the delay out so that it is measured")
	}
}

func (s *subject) hedgedWrite() {
	if s.facts.Writes {
		s.find("hedge.max", fmt.Sprintf("hedge.max %d and facts.writes: the same write is out %s at once, and a key must then keep two from being carried out at the same time", s.p.Hedge.Max, times(1+s.p.Hedge.Max)),
			"write hedge: off, and hedge reads only: some slow calls come later", s.set("hedge.max", "off"))
	}
}

func (s *subject) hedgeBelowMedian() {
	if h := s.p.Hedge; h.Delay < s.facts.P50 {
		s.find("hedge.delay", fmt.Sprintf("delay %s < facts.p50 %s: more than half of the calls are sent more than once when all is well", policy.FormatDuration(h.Delay), policy.FormatDuration(s.facts.P50)),
			"leave it out for the measured 95th percentile, which saves fewer slow calls")
	}
}
