package lint

import (
	"fmt"
	"math"
	"time"

	"github.com/gabion-go/gabion/policy"
)

// fleetRules are about limits that the processes of a fleet have together.
var fleetRules = []Rule{
	{
		ID: "G082", Name: "share-below-a-call", Severity: Warning, Needs: []string{"facts.processes"},
		Title: "an equal share of a limit is less than one call needs",
		reads: []string{"fleet", "rate_limit", "bulkhead", "timeout"},
		when:  func(s *subject) bool { return s.p.Fleet.Rate || s.p.Fleet.Slots || s.p.Fleet.Quotas },
		check: shareBelowACall,
	},
	{
		ID: "G083", Name: "share-of-a-learned-limit", Severity: Note,
		Title: "processes share the most that each may learn, and not what the dependency can take",
		reads: []string{"fleet", "bulkhead"},
		when:  func(s *subject) bool { return s.p.Fleet.Slots },
		check: shareOfALearnedLimit,
	},
	{
		ID: "G084", Name: "lost-above-the-whole", Severity: Warning, Needs: []string{"facts.processes"},
		Title: "without the store all processes together use more than the whole",
		reads: []string{"fleet"},
		when:  func(s *subject) bool { return s.p.Fleet.Lost > 0 },
		check: lostAboveTheWhole,
	},
}

// shareBelowACall: demand decides who has more, but where all want the same each has an equal share.
func shareBelowACall(s *subject) {
	n := float64(s.facts.Processes)
	if rate, wait := float64(s.p.RateLimit.Rate), longestTurn(&s.p); s.p.Fleet.Rate && rate > 0 && wait > 0 {
		if between := time.Duration(n / rate * float64(time.Second)); between > wait {
			s.find("rate_limit.rate", fmt.Sprintf("%v / %s: each has a turn every %s, and a call waits for %s at most: calls are refused though others use nothing", s.p.RateLimit.Rate, processes(s.facts.Processes), span(between), span(wait)),
				"give calls more time to wait, call from fewer processes, or know that they are refused")
		}
	}
	if b := s.p.Bulkhead; s.p.Fleet.Slots && !b.Off && b.Limit > 0 && b.Limit < s.facts.Processes {
		s.find("bulkhead.limit", fmt.Sprintf("%s for %s: some have none, and refuse every call until another needs less", s.count("bulkhead.limit", b.Limit, "slot"), processes(s.facts.Processes)),
			fmt.Sprintf("allow %d at least, or call from fewer processes", s.facts.Processes))
	}
	for _, q := range s.p.RateLimit.Quotas {
		if part := q.Amount / n; s.p.Fleet.Quotas && part < q.Estimate {
			s.find(quotasPath, fmt.Sprintf("%s %s / %s = %s, and one call uses %s: a process that calls alone waits for what others hold", digits(q.Amount), q.Unit, processes(s.facts.Processes), digits(part), digits(q.Estimate)),
				"call from fewer processes, or leave fleet.quotas out where answers say what is left")
		}
	}
}

// longestTurn is how long a call may wait for its turn; 0 means that it does not wait, or without end.
func longestTurn(p *policy.Policy) time.Duration {
	most, call := p.RateLimit.MaxWait, p.Timeout.Call
	switch {
	case most == policy.Off:
		return 0
	case most > 0 && (call <= 0 || most < call):
		return most
	}
	return max(call, 0)
}

func shareOfALearnedLimit(s *subject) {
	if b := s.p.Bulkhead; !b.Off && b.Limit == policy.Learned {
		s.find("fleet.slots", fmt.Sprintf("the limit is learned, so what is shared is max %s: no share is felt until one process has learned that it may have more", s.mark("bulkhead.max", digits(float64(b.Max)))),
			"leave fleet.slots out, as each process learns what it may have, or write bulkhead.max as what the dependency can take")
	}
}

func lostAboveTheWhole(s *subject) {
	n := float64(s.facts.Processes)
	all := float64(s.p.Fleet.Lost) * n
	if all <= 1+1e-9 {
		return
	}
	reason := fmt.Sprintf("lost %v × %s = %s of the whole while the store is away", s.p.Fleet.Lost, processes(s.facts.Processes), percent(all))
	const leave = "leave it out: then the last shares hold, which are no more than the whole"
	if fits := policy.Ratio(math.Floor(1e4/n) / 1e4); fits > 0 {
		s.find("fleet.lost", reason, fmt.Sprintf("write lost: %v, or %s", fits, leave), s.set("fleet.lost", fits.String()))
		return
	}
	s.find("fleet.lost", reason, leave)
}
