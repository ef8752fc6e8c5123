package lint

import (
	"fmt"
	"strings"
	"time"

	"github.com/gabion-go/gabion/internal/formulas"
	"github.com/gabion-go/gabion/internal/policyfile"
	"github.com/gabion-go/gabion/policy"
)

// fleetFacts are what is needed to compare a fleet with its dependency.
var fleetFacts = []string{"facts.rate", "facts.processes", "facts.capacity"}

// budgetRules are about what calls and re-sends add up to.
var budgetRules = []Rule{
	{
		ID: "G012", Name: "load-above-capacity", Severity: Warning, Needs: fleetFacts,
		Title: "the calls of all processes are more than the dependency can answer",
		reads: []string{"rate_limit"},
		check: (*subject).loadAboveCapacity,
	},
	{
		ID: "G020", Name: "no-budget", Severity: Warning,
		Title: "nothing bounds what retries add to an outage",
		reads: []string{"retry.budget", "retry.attempts", "breaker"},
		when:  (*subject).retries,
		check: (*subject).noBudget,
	},
	{
		ID: "G021", Name: "budget-without-income", Severity: Warning,
		Title: "the budget allows next to no retry",
		reads: []string{"retry.budget", "retry.attempts", "hedge"},
		when:  func(s *subject) bool { return s.retries() || s.hedges() },
		check: (*subject).budgetWithoutIncome,
	},
	{
		ID: "G022", Name: "large-budget", Severity: Note,
		Title: "the budget lets retries add more than half of the load",
		reads: []string{"retry.budget", "retry.attempts", "hedge"},
		when:  func(s *subject) bool { return s.retries() || s.hedges() },
		check: (*subject).largeBudget,
	},
	{
		ID: "G023", Name: "budget-above-spare-capacity", Severity: Warning, Needs: fleetFacts,
		Title: "calls and re-sends of all processes are more than the dependency can answer",
		reads: []string{"retry", "hedge", "rate_limit"},
		when:  func(s *subject) bool { return s.retries() || s.hedges() },
		check: (*subject).budgetAboveSpareCapacity,
	},
	{
		ID: "G024", Name: "fleet-burst", Severity: Warning, Needs: fleetFacts,
		Title: "what the budgets of all processes allow at once is more than the dependency can take",
		reads: []string{"retry", "hedge", "rate_limit"},
		when:  func(s *subject) bool { return (s.retries() || s.hedges()) && !s.p.Retry.Budget.Off },
		check: (*subject).fleetBurst,
	},
	{
		ID: "G049", Name: "rate-limit", Severity: Warning, Needs: []string{"facts.processes", "facts.capacity"},
		Title: "the rate limits of all processes are more than the dependency can answer, or less than is needed",
		reads: []string{"rate_limit", "timeout.call"},
		when:  func(s *subject) bool { return s.p.RateLimit.Rate > 0 },
		check: (*subject).rateLimit,
	},
}

// fleetText writes rate × processes.
func (s *subject) fleetText() string {
	path := "facts.rate"
	if s.rate() < s.facts.Rate {
		path = "rate_limit.rate"
	}
	return fmt.Sprintf("%s %s × %s", path, s.rateText(), processes(s.facts.Processes))
}

// processes writes how many there are.
func processes(n int) string {
	if n == 1 {
		return "1 process"
	}
	return fmt.Sprintf("%d processes", n)
}

// each is what every process may have of a rate.
func (s *subject) each(of float64) float64 { return max(of, 0) / float64(max(s.facts.Processes, 1)) }

func (s *subject) loadAboveCapacity() {
	if load, capacity := s.fleet(), float64(s.facts.Capacity); load > capacity {
		s.find("facts.rate", fmt.Sprintf("%s = %s > facts.capacity %v: the dependency is overloaded when all is well", s.fleetText(), perSecond(load), s.facts.Capacity),
			fmt.Sprintf("write rate_limit: {rate: %s, burst: %d, max_wait: %v}, and let the dependency shed load (docs/admission.md)", atMost(s.each(capacity)), burstOf(s.each(capacity)), shortWait))
	}
}

// freeFailures is what proposals that bound re-sends cost: whatever sends more wins where a failure takes no
// capacity, as an error that a gateway answers by itself.
const freeFailures = "; where errors cost the dependency nothing, fewer calls are answered than without a bound"

func (s *subject) noBudget() {
	if !s.p.Retry.Budget.Off {
		return
	}
	how, until := Warning, "until its breaker opens"
	if s.p.Breaker.Off || s.p.Breaker.Observe {
		how, until = Error, "and no breaker ends it"
	}
	load := fmt.Sprintf("up to %d times the calls", s.p.Retry.Attempts)
	if s.has("facts.rate") && s.has("facts.processes") {
		load = fmt.Sprintf("%s × %d = %s instead of %s", s.fleetText(), s.p.Retry.Attempts, perSecond(s.fleet()*float64(s.p.Retry.Attempts)), perSecond(s.fleet()))
	}
	s.findAs(how, "retry.budget", fmt.Sprintf("retry.budget: off with %s: an outage gets %s, %s", s.count("retry.attempts", s.p.Retry.Attempts, "attempt"), load, until),
		"leave it out for the default, which adds at most 30%"+freeFailures, s.set("retry.budget.ratio", zero.Retry.Budget.Ratio.String()))
}

func (s *subject) budgetWithoutIncome() {
	b := s.p.Retry.Budget
	if b.Off || b.Ratio != policy.Off {
		return
	}
	burst, which := formulas.Burst(b), "the first "+digits(formulas.Burst(b))+" re-sends"
	if b.Shape == policy.BudgetEarned { // what succeeds is given back
		which = digits(burst) + " re-sends that fail"
	}
	switch {
	case b.Shape == policy.BudgetShare && burst > 0: // a bound on what is in flight needs no income
	case b.Shape == policy.BudgetWindow && b.Floor > 0:
	default:
		s.find("retry.budget.ratio", fmt.Sprintf("ratio: off earns nothing: after %s, a process never makes another, whatever %s says", which, s.count("retry.attempts", s.p.Retry.Attempts, "attempt")),
			"leave it out for the default, or write retry: {attempts: 1} if no retry is wanted")
	}
}

// largeExtra is a share of re-sends that few dependencies have room for.
const largeExtra = 0.5

func (s *subject) largeBudget() {
	b := s.p.Retry.Budget
	if extra := formulas.Extra(s.p); !b.Off && extra > largeExtra {
		s.find("retry.budget.ratio", fmt.Sprintf("ratio %s: re-sends add up to %s of the calls where about half of them fail", s.mark("retry.budget.ratio", b.Ratio.String()), percent(extra)),
			"leave it out for the default, unless failures are no sign of load")
	}
}

func (s *subject) budgetAboveSpareCapacity() {
	load, capacity, extra := s.fleet(), float64(s.facts.Capacity), formulas.Extra(s.p)
	if load > capacity || load*(1+extra) <= capacity {
		return
	}
	how, what := s.rule.Severity, "the budget adds up to "+percent(extra)
	proposal := fmt.Sprintf("write retry.budget.ratio: %s, or give the dependency room", percent(capacity/load-1))
	if s.p.Retry.Budget.Off {
		how, what, proposal = Error, fmt.Sprintf("%d attempts without a budget add up to %s", s.p.Retry.Attempts, percent(extra)), "leave retry.budget: off out"
	}
	s.findAs(how, "retry.budget", fmt.Sprintf("%s × (1 + %s) = %s > facts.capacity %v: %s, and what fails for lack of capacity is kept from recovering",
		s.fleetText(), digits(extra), perSecond(load*(1+extra)), s.facts.Capacity, what), proposal)
}

// How many seconds of the spare capacity a burst of all processes may take.
const (
	burstNote    = 1.0
	burstWarning = 10.0
)

func (s *subject) fleetBurst() {
	spare := float64(s.facts.Capacity) - s.fleet()
	b, n := s.p.Retry.Budget, float64(s.facts.Processes)
	if spare <= 0 {
		return
	}
	if b.Shape == policy.BudgetWindow {
		if floor := float64(b.Floor); floor*n > spare {
			s.find("retry.budget.floor", fmt.Sprintf("floor %s × %s = %s > spare capacity %s (facts.capacity %v - %s): in an outage the whole fleet retries at that rate",
				s.mark("retry.budget.floor", b.Floor.String()), processes(s.facts.Processes), perSecond(floor*n), perSecond(spare), s.facts.Capacity, perSecond(s.fleet())),
				"write retry.budget.shape: earned, or floor: "+atMost(s.each(spare)))
		}
		return
	}
	path := burstPath(b)
	burst := formulas.Burst(b)
	takes := burst * n / spare
	how := Note
	if takes > burstWarning {
		how = Warning
	}
	if takes > burstNote {
		s.findAs(how, path, fmt.Sprintf("%s × %s = %s re-sends at once: the spare capacity %s (facts.capacity %v - %s) needs %ss for them",
			s.mark(path, digits(burst)+" of "+path), processes(s.facts.Processes), digits(burst*n), perSecond(spare), s.facts.Capacity, perSecond(s.fleet()), digits(takes)),
			fmt.Sprintf("write at most %s of them for each process", strings.TrimSuffix(atMost(s.each(spare)), "/s"))+freeFailures)
	}
}

// burstPath is the key that says what a process may add at once.
func burstPath(b policy.Budget) string {
	switch {
	case b.Shape == policy.BudgetShare:
		return "retry.budget.min_in_flight"
	case b.Shape != policy.BudgetEarned:
		return "retry.budget.capacity"
	case b.Start > b.Reserve:
		return "retry.budget.start"
	}
	return "retry.budget.reserve"
}

// shortWait is how long a call waits for its turn. With a share of what a fleet may do a process has bursts
// that others have no part in: without room for them, and with waits up to the deadline, calls are
// late in health.
const shortWait = 100 * time.Millisecond

// burstOf is how many calls may start at once where each process has a share of the fleet's rate: two
// seconds of it, and where that is little ten calls, or ten seconds.
func burstOf(rate float64) int { return max(1, int(min(max(2*rate, 10), 10*rate))) }

func (s *subject) rateLimit() {
	l := s.p.RateLimit
	if s.p.Fleet.Rate {
		return // it is one limit of all
	}
	all := float64(l.Rate) * float64(s.facts.Processes)
	switch {
	case all > float64(s.facts.Capacity):
		each := atMost(s.each(float64(s.facts.Capacity)))
		fix, text := []policyfile.Change{s.set("rate_limit.rate", each)}, "write rate: "+each
		if n := burstOf(s.each(float64(s.facts.Capacity))); l.Burst < n {
			fix, text = append(fix, s.set("rate_limit.burst", fmt.Sprint(n))), fmt.Sprintf("%s, burst: %d", text, n)
		}
		if l.MaxWait == 0 {
			fix, text = append(fix, s.set("rate_limit.max_wait", policy.FormatDuration(shortWait))), fmt.Sprintf("%s, max_wait: %v", text, shortWait)
		}
		s.find("rate_limit.rate", fmt.Sprintf("rate %v × %s = %s > facts.capacity %v: the limits do not keep the fleet within it", l.Rate, processes(s.facts.Processes), perSecond(all), s.facts.Capacity),
			text+"; in a burst a process then can't use what others leave free", fix...)
	case float64(l.Burst)*float64(s.facts.Processes) > 10*float64(s.facts.Capacity):
		s.findAs(Note, "rate_limit.burst", fmt.Sprintf("burst %s × %s is more than 10s of facts.capacity %v", s.mark("rate_limit.burst", fmt.Sprint(l.Burst)), processes(s.facts.Processes), s.facts.Capacity),
			"write a burst of at most a second: "+digits(s.each(float64(s.facts.Capacity))))
	}
	if s.has("facts.rate") && l.Rate < s.facts.Rate {
		s.find("rate_limit.rate", fmt.Sprintf("rate %v < facts.rate %v: calls are refused when all is well", l.Rate, s.facts.Rate),
			"write rate: "+s.facts.Rate.String()+" or more, or make fewer calls")
	}
	if call := s.p.Timeout.Call; call > 0 && l.MaxWait > call {
		s.findAs(Note, "rate_limit.max_wait", fmt.Sprintf("max_wait %s > call timeout %s: no call has so much time", policy.FormatDuration(l.MaxWait), s.time("timeout.call", call)), "leave it out")
	}
}
