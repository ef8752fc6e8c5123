package lint

import (
	"fmt"
	"strings"
	"time"

	"github.com/gabion-go/gabion/config"
	"github.com/gabion-go/gabion/internal/facts"
	"github.com/gabion-go/gabion/internal/formulas"
	"github.com/gabion-go/gabion/internal/policyfile"
	"github.com/gabion-go/gabion/policy"
)

// breakerRules are about breakers that are missing, never trip, or trip for nothing.
var breakerRules = []Rule{
	{
		ID: "G013", Name: "no-breaker", Severity: Warning,
		Title: "nothing stops the calls to a dependency that is dead",
		reads: []string{"breaker", "retry.attempts", "retry.hold"},
		when:  func(s *subject) bool { return !s.facts.Local && !s.facts.Mesh.Breaker },
		check: (*subject).noBreaker,
	},
	{
		ID: "G014", Name: "slow-calls-unseen", Severity: Warning, Needs: []string{"facts.rate"},
		Title: "slow answers can pile up without bound",
		reads: []string{"breaker", "bulkhead", "timeout"},
		when:  func(s *subject) bool { return s.p.Bulkhead.Off && (s.p.Breaker.Off || s.p.Breaker.SlowRate <= 0) },
		check: (*subject).slowCallsUnseen,
	},
	{
		ID: "G015", Name: "healthy-calls-are-slow", Severity: Warning, Needs: []string{"facts.p50"},
		Title: "what takes as long as ever counts as slow, and opens the breaker",
		reads: []string{"breaker"},
		when:  func(s *subject) bool { b := s.p.Breaker; return !b.Off && b.SlowRate > 0 && b.SlowCall > 0 },
		check: (*subject).healthyCallsAreSlow,
	},
	{
		ID: "G016", Name: "breaker-never-trips", Severity: Warning, Needs: []string{"facts.rate"},
		Title: "the breaker's rules need more calls than there are",
		reads: []string{"breaker", "retry", "rate_limit"},
		when:  func(s *subject) bool { return !s.p.Breaker.Off },
		check: (*subject).breakerNeverTrips,
	},
	{
		ID: "G017", Name: "breaker-trips-by-chance", Severity: Warning, Needs: []string{"facts.rate"},
		Title: "so few failures open the breaker that chance alone brings them",
		reads: []string{"breaker", "rate_limit"},
		when:  func(s *subject) bool { b := s.p.Breaker; return !b.Off && (b.Failures > 0 || b.Consecutive > 0) },
		check: (*subject).breakerTripsByChance,
	},
	{
		ID: "G018", Name: "breaker-refuses-what-works", Severity: Note,
		Title: "the breaker opens while much still succeeds",
		reads: []string{"breaker"},
		when:  func(s *subject) bool { return !s.p.Breaker.Off },
		check: (*subject).breakerRefusesWhatWorks,
	},
	{
		ID: "G019", Name: "open-time", Severity: Warning,
		Title: "the breaker stays open for too long, or hardly at all",
		reads: []string{"breaker"},
		when:  func(s *subject) bool { return !s.p.Breaker.Off },
		check: (*subject).openTime,
	},
	{
		ID: "G025", Name: "local-breaker", Severity: Warning, Needs: []string{"facts.local"},
		Title: "a breaker guards what is on the same machine",
		reads: []string{"breaker"},
		when:  func(s *subject) bool { return !s.p.Breaker.Off && !s.p.Breaker.Observe },
		check: (*subject).localBreaker,
	},
	{
		ID: "G048", Name: "unobserved", Severity: Warning, Needs: []string{"facts.metrics"},
		Title:  "a breaker can open unseen",
		across: unobserved,
	},
}

// lastCalls is what a breaker costs where requests in an outage cost the dependency nothing.
const lastCalls = "; calls shortly before the end of an outage are then refused, where a retry would have come after it"

func (s *subject) noBreaker() {
	b := s.p.Breaker
	attempts := func() string { return s.count("retry.attempts", max(s.p.Retry.Attempts, 1), "attempt") }
	switch {
	case b.Off:
		more := ""
		if s.retries() && s.p.Retry.Hold > 0 {
			more = ", and retries are not held back (retry.hold), since no breaker counts the failures"
		}
		s.find("breaker", fmt.Sprintf("breaker: off: a dependency that is dead gets up to %s of every call for as long as it is dead%s", attempts(), more),
			"leave it out for the default, which refuses nothing while anything succeeds"+lastCalls, s.set("breaker.observe", "false"))
	case b.Observe:
		s.findAs(Note, "breaker.observe", "breaker.observe: true: the breaker counts and reports, and refuses nothing",
			"leave it out once its reports are what you expect"+lastCalls)
	case b.Per == policy.PerCall && s.retries():
		s.findAs(Note, "breaker.per", fmt.Sprintf("breaker.per: call: it counts one failure for up to %s, and knows that much later", attempts()), "write per: attempt")
	}
}

// muchAtOnce is more attempts at once than a process wants to hold.
const muchAtOnce = 1000

func (s *subject) slowCallsUnseen() {
	t := s.p.Timeout
	longest, path := max(t.Attempt, t.Last), "timeout.attempt"
	if t.Last == policy.Off || longest <= 0 {
		longest, path = max(t.Call, t.Attempt), "timeout.call"
	}
	if longest <= 0 {
		s.find("bulkhead", fmt.Sprintf("facts.rate %s, no timeout and bulkhead: off: when answers are slow, attempts pile up without end, and no rule of the breaker sees it", s.rateText()),
			"write bulkhead: {limit: 100}, or breaker: {slow_call: ...}")
		return
	}
	if n := formulas.Slots(s.rate(), longest); n > muchAtOnce {
		s.find("bulkhead", fmt.Sprintf("facts.rate %s × %s %s = %s attempts at once when answers are slow: bulkhead: off does not bound them, and no rule of the breaker sees them",
			s.rateText(), path, s.time(path, longest), digits(n)), "write bulkhead: {limit: 100}, or breaker: {slow_call: ...}")
	}
}

func (s *subject) healthyCallsAreSlow() {
	b := s.p.Breaker
	share, path, d := 0.0, "", time.Duration(0)
	switch {
	case b.SlowCall < s.facts.P50:
		share, path, d = 0.5, "facts.p50", s.facts.P50
	case s.has("facts.p99") && b.SlowCall < s.facts.P99:
		share, path, d = 0.01, "facts.p99", s.facts.P99
	case s.has("facts.p999") && b.SlowCall < s.facts.P999:
		share, path, d = 0.001, "facts.p999", s.facts.P999
	}
	if share == 0 {
		return
	}
	text := fmt.Sprintf("slow_call %s < %s %s: at least %s of the attempts are slow when all is well", s.time("breaker.slow_call", b.SlowCall), path, span(d), percent(share))
	proposal := "write slow_call: " + span(3*max(d, s.facts.P99)) + " or more"
	switch {
	case share >= float64(b.SlowRate):
		s.findAs(Error, "breaker.slow_call", fmt.Sprintf("%s ≥ slow_rate %s: the breaker opens in health", text, s.mark("breaker.slow_rate", b.SlowRate.String())), proposal+shedding(s))
	case share == 0.5:
		s.findAs(Warning, "breaker.slow_call", fmt.Sprintf("%s; from there to slow_rate %s is not far", text, s.mark("breaker.slow_rate", b.SlowRate.String())), proposal)
	}
}

// late is when a breaker that opens has been of no use.
const late = 10 * time.Minute

// breakerNeverTrips looks at a process that meets nothing but failures, and makes all
// retries that its budget allows.
func (s *subject) breakerNeverTrips() {
	b := s.p.Breaker
	rate, window := float64(s.rate()), b.Window
	if b.Per == policy.PerAttempt {
		rate *= 1 + formulas.Extra(s.p)
	}
	counts := int(min(rate*window.Seconds(), 1<<30))
	held := func() string {
		return fmt.Sprintf("the %d outcomes that facts.rate %s brings into window %s, in each process and partition", counts, s.rateText(), s.time("breaker.window", window))
	}
	byRate := b.FailureRate > 0 || b.SlowRate > 0
	reach := formulas.Reach(b.Consecutive, rate)
	if b.Consecutive <= 0 {
		reach = formulas.Reach(1, 0)
	}
	if b.WindowCalls > 0 {
		reach = min(reach, formulas.Reach(b.WindowCalls, rate))
	} else {
		if b.Failures > counts {
			s.find("breaker.failures", fmt.Sprintf("failures %d > %s: this rule never opens the breaker", b.Failures, held()),
				fmt.Sprintf("write failures: %d, or a longer window, or leave it out", max(counts/2, 1)))
		}
		var own []string
		for _, key := range []string{"min_calls", "failure_rate", "slow_rate", "slow_call"} {
			if s.written("breaker." + key) {
				own = append(own, key)
			}
		}
		if byRate && b.MinCalls > counts && len(own) > 0 {
			s.find("breaker.min_calls", fmt.Sprintf("min_calls %s > %s: no rate ever opens the breaker", s.mark("breaker.min_calls", fmt.Sprint(b.MinCalls)), held()),
				enoughCalls(&b, rate, counts, own))
		}
		if byRate && b.MinCalls <= counts || b.Failures > 0 && b.Failures <= counts {
			reach = min(reach, window)
		}
	}
	switch {
	case !formulas.Bounded(reach):
		s.find("breaker", fmt.Sprintf("at facts.rate %s no rule is left that can open the breaker", s.rateText()), "leave breaker.consecutive out, or write breaker: off")
	case reach > late:
		s.find("breaker", fmt.Sprintf("at facts.rate %s the breaker opens %s after an outage began, at the earliest: it is of no use", s.rateText(), span(reach)),
			"write breaker: off if calls are so few, or consecutive: 3")
	}
}

// enoughCalls proposes a window that holds the calls of which a share is known; or what needs no share, where calls are too few for that.
func enoughCalls(b *policy.Breaker, rate float64, counts int, own []string) string {
	longer := max(3*b.Window, formulas.Reach(2*fewCalls+1, rate))
	switch {
	case longer <= late:
		return fmt.Sprintf("write window: %s, min_calls: %d", span(longer), min(b.MinCalls, max(int(rate*longer.Seconds()/2), 1)))
	case counts >= 2*fewCalls:
		return fmt.Sprintf("write min_calls: %d", counts/2)
	case b.Consecutive > 0:
		return fmt.Sprintf("leave %s out: consecutive needs no share", strings.Join(own, ", "))
	}
	return "write consecutive: 3, which needs no share"
}

// What opens a breaker by chance: breaker.failures of at most chanceShare of the window's calls, or
// a row of failures that comes more often than chanceEvery while the share background fails.
const (
	chanceShare = 0.05
	chanceEvery = time.Hour
	background  = 0.1
)

// counted is how many calls the breaker's window holds.
func counted(s *subject) float64 {
	if n := s.p.Breaker.WindowCalls; n > 0 {
		return float64(n)
	}
	return formulas.Slots(s.rate(), s.p.Breaker.Window)
}

func (s *subject) breakerTripsByChance() {
	b, rate, calls := s.p.Breaker, s.rate(), counted(s)
	if share := float64(b.Failures) / max(calls, 1); b.Failures > 0 && share <= chanceShare {
		of := "window_calls"
		if b.WindowCalls <= 0 {
			of = fmt.Sprintf("facts.rate %s × window %s", s.rateText(), s.time("breaker.window", b.Window))
		}
		s.find("breaker.failures", fmt.Sprintf("failures %d of %s = %s calls are %s: the breaker opens while %s succeed", b.Failures, of, digits(calls), percent(share), percent(1-share)),
			"leave it out: failure_rate and consecutive do not depend on the rate of calls"+shedding(s))
	}
	every := formulas.RowEvery(rate, background, b.Consecutive)
	if b.Consecutive <= 0 || every > chanceEvery || b.ConsecutiveFor > formulas.Reach(2*b.Consecutive, float64(rate)) {
		return
	}
	s.findAs(Note, "breaker.consecutive", fmt.Sprintf("at facts.rate %s, of which 10%% fail, %s in a row come by chance every %s", s.rateText(), plural(b.Consecutive, "failure"), span(every)),
		"leave it out for the default, 20 over 10s")
}

// fewCalls is a number of calls of which no share is known.
const fewCalls = 10

// rash is how many times longer a breaker refuses than the row of failures that opened it.
const rash = 4

// shortestRow is how long the row of failures lasts at least that opens the breaker: for as long as
// the policy says, and where the rate is known, until there were so many.
func (s *subject) shortestRow() time.Duration {
	b := s.p.Breaker
	if rate := float64(s.rate()); rate > 0 {
		return max(b.ConsecutiveFor, time.Duration(float64(b.Consecutive-1)/rate*float64(time.Second)))
	}
	return b.ConsecutiveFor
}

// shedding is what else to write where a breaker is left that opens early. In an overload such a breaker
// sheds load, although it is not meant to, and answers more than one that stays closed. A limit that is learned
// does better in the mean of the lab's scenarios; with few clients a burst may lose calls (ADR 120). Where the bulkhead is not the default, its author chose another.
func shedding(s *subject) string {
	if s.p.Bulkhead != zero.Bulkhead {
		return ""
	}
	return ", and write bulkhead: {limit: learned}, which sheds what an overload leaves no room for"
}

func (s *subject) breakerRefusesWhatWorks() {
	b := s.p.Breaker
	switch {
	case b.FailureRate > 0 && b.FailureRate < 0.1:
		s.findAs(Warning, "breaker.failure_rate", fmt.Sprintf("failure_rate %v: the breaker refuses all calls while %s of them succeed", b.FailureRate, percent(1-float64(b.FailureRate))),
			"leave it out for the default, 95%"+shedding(s))
	case b.FailureRate > 0 && b.FailureRate <= 0.5:
		s.find("breaker.failure_rate", fmt.Sprintf("failure_rate %v: the breaker refuses all calls while %s of them succeed; in the lab that lost more than it saved", b.FailureRate, percent(1-float64(b.FailureRate))),
			"leave it out for the default, 95%"+shedding(s))
	}
	if b.Failures == 1 && (s.rate() <= 0 || chanceShare*counted(s) < 1) { // else G017 finds it
		knows := "leave it out: failure_rate and consecutive know what succeeds"
		if b.FailureRate <= 0 && b.Consecutive <= 0 {
			knows = "write failure_rate: 95% in its place, which knows what succeeds"
		}
		s.findAs(Warning, "breaker.failures", fmt.Sprintf("failures 1: each failure opens the breaker, which then refuses all calls for %s, and the retry of the call that failed", s.time("breaker.open", b.Open)),
			knows+shedding(s))
	}
	if row := s.shortestRow(); b.Consecutive > 0 && row < b.Open/rash {
		over, outage := "over "+span(row), span(row)
		if row <= 0 {
			over, outage = "in a row, however quickly they come,", "a moment"
		}
		s.findAs(Warning, "breaker.consecutive_for", fmt.Sprintf("%s %s open the breaker, which then refuses all calls for %s: an outage of %s becomes one of %s",
			plural(b.Consecutive, "failure"), over, s.time("breaker.open", b.Open), outage, span(b.Open)), "leave it out for the default, 20 over 10s"+shedding(s))
	}
	if b.MinCalls < fewCalls && b.MinCalls > 0 && (b.FailureRate > 0 && b.FailureRate < 1 || b.SlowRate > 0) && s.written("breaker.min_calls") {
		s.find("breaker.min_calls", fmt.Sprintf("min_calls %d: a share of so few calls is chance", b.MinCalls), "leave it out for the default, 30")
	}
	if b.Throttled {
		s.find("breaker.throttled", "breaker.throttled: true: answers with 429 open the breaker, although the dependency works and says how fast to call",
			"leave it out: pace slows the calls down instead")
	}
}

// The open times that are absurd. The range of the field, 15 to 60 s, is not: the lab found
// that 2 s, with probes by the number of refused calls, is better.
const (
	shortOpen = 100 * time.Millisecond
	longOpen  = 5 * time.Minute

	// With this a dead dependency gets two probes a second of each process. 2 s answered 2 of 100 calls less than
	// 5 ms did, where a service goes and comes.
	pauseOpen = 500 * time.Millisecond
)

func (s *subject) openTime() {
	b := s.p.Breaker
	path, most := "breaker.open_max", max(b.OpenMax, b.Open)
	text := "open_max " + policy.FormatDuration(most)
	if !s.written(path) {
		path, text = "breaker.open", fmt.Sprintf("open %s, which grows to %s,", policy.FormatDuration(b.Open), policy.FormatDuration(most))
	}
	switch {
	case most > longOpen && b.OpenCalls <= 0:
		s.find(path, fmt.Sprintf("%s > 5m: so long are calls refused after the dependency is back", text), "write open_max: 30s, or leave both out for the default, 2s")
	case b.Open < shortOpen && b.Open > 0:
		s.find("breaker.open", fmt.Sprintf("breaker.open %s < 100ms: a dead dependency gets up to %s probes a second of each process", s.time("breaker.open", b.Open), digits(1/b.Open.Seconds())),
			"write open: "+policy.FormatDuration(pauseOpen), s.set("breaker.open", policy.FormatDuration(pauseOpen)))
	}
}

func (s *subject) localBreaker() {
	if s.facts.Local {
		s.find("breaker", s.mark("breaker", "breaker: on")+" and facts.local: what is on the same machine fails for reasons that fewer calls do not cure, and an open breaker refuses work that would have succeeded",
			"write breaker: off; a bulkhead may still bound what runs at once")
	}
}

// unobserved asks once for each file whether anybody sees its breakers.
func unobserved(r *run, files []*config.File) {
	rule := r.rule
	for _, f := range files {
		n := 0
		for _, p := range f.Policies {
			if !p.Breaker.Off {
				n++
			}
		}
		switch {
		case n == 0:
		case policyfile.Of(f).Unread("", "facts.metrics"):
			r.report.Unknown = append(r.report.Unknown, Unknown{rule, f.Name, "", "facts.metrics", unreadText})
		case !policyfile.Of(f).Written("", "facts.metrics"):
			r.report.Unknown = append(r.report.Unknown, Unknown{rule, f.Name, "", "facts.metrics", unsaidText})
		case !facts.Of(f).Program.Metrics:
			g := Finding{Rule: rule, Severity: rule.Severity, Path: "facts.metrics"}
			g.Finding = config.Finding(policyfile.Of(f).Finding("", "facts.metrics", fmt.Sprintf("facts.metrics: false: when one of %s opens, calls are refused and no metric shows why", plural(n, "breaker")),
				"collect the metrics, and alert on every opening (docs/alerts.md)"))
			r.report.Findings = append(r.report.Findings, g)
		}
	}
}
