package lint

import (
	"fmt"
	"time"

	"github.com/gabion-go/gabion/policy"
)

// quotaRules are about quotas with costs, and about endpoints.
var quotaRules = []Rule{
	{
		ID: "G065", Name: "quota-among-others", Severity: Warning, Needs: []string{"facts.processes"},
		Title: "a quota is shared among another number of processes than there are",
		reads: []string{"rate_limit"},
		when:  func(s *subject) bool { return sharedQuotas(s) != nil },
		check: quotaAmongOthers,
	},
	{
		ID: "G066", Name: "quota-not-waited-for", Severity: Note,
		Title: "a quota comes back so slowly that calls are refused and do not wait",
		reads: []string{"rate_limit", "timeout"},
		check: quotaNotWaitedFor,
	},
	{
		ID: "G067", Name: "one-attempt-at-endpoints", Severity: Warning,
		Title: "what fails at one endpoint is not sent to another",
		reads: []string{"endpoints", "retry", "hedge"},
		when:  func(s *subject) bool { return len(s.p.Endpoints.List) > 1 },
		check: oneAttemptAtEndpoints,
	},
	{
		ID: "G068", Name: "one-endpoint", Severity: Note,
		Title: "there is one endpoint, and so no second way",
		reads: []string{"endpoints"},
		check: oneEndpoint,
	},
	{
		ID: "G069", Name: "hedge-at-the-slow-endpoint", Severity: Note,
		Title: "hedges of calls with a key can't go to another endpoint",
		reads: []string{"endpoints", "hedge", "key"},
		when:  func(s *subject) bool { return len(s.p.Endpoints.List) > 1 && s.hedges() },
		check: hedgeAtTheSlowEndpoint,
	},
}

const quotasPath = "rate_limit.quotas"

// sharedQuotas are those that processes share by agreement.
func sharedQuotas(s *subject) (all []policy.Quota) {
	for _, q := range s.p.RateLimit.Quotas {
		if q.Among > 1 {
			all = append(all, q)
		}
	}
	return all
}

func quotaAmongOthers(s *subject) {
	for _, q := range sharedQuotas(s) {
		share := float64(s.facts.Processes) / float64(q.Among)
		switch {
		case s.facts.Processes > q.Among:
			s.find(quotasPath, fmt.Sprintf("among %d, and facts.processes %d: together they use %s of the %s, and the dependency refuses the rest", q.Among, s.facts.Processes, percent(share), q.Unit),
				fmt.Sprintf("write among %d", s.facts.Processes))
		case s.facts.Processes < q.Among:
			s.findAs(Note, quotasPath, fmt.Sprintf("among %d, and facts.processes %d: %s of the %s are never used", q.Among, s.facts.Processes, percent(1-share), q.Unit),
				fmt.Sprintf("write among %d, or leave it for the most there will be", s.facts.Processes))
		}
	}
}

// longestQuota is the longest span of which a caller may think of waiting. Longer ones are budgets, which refuse.
const longestQuota = time.Hour

func quotaNotWaitedFor(s *subject) {
	longest, path := s.p.Timeout.Call, "timeout.call"
	switch most := s.p.RateLimit.MaxWait; {
	case most == policy.Off:
		return
	case most > 0 && (longest <= 0 || most < longest):
		longest, path = most, "rate_limit.max_wait"
	}
	for _, q := range s.p.RateLimit.Quotas {
		back, what := time.Duration(float64(q.Span)*q.Estimate/q.Amount), "what one attempt uses of "+q.Unit+" comes back in "
		if q.Window {
			back, what = q.Span, q.Unit+" come back at the end of "
		}
		if longest > 0 && q.Span <= longestQuota && back > longest {
			s.find(quotasPath, fmt.Sprintf("%s%s > %s %s: most calls that find nothing left are refused at once and do not wait", what, span(back), path, s.time(path, longest)),
				"give calls that may wait more time, or know that they are refused")
		}
	}
}

func oneAttemptAtEndpoints(s *subject) {
	if !s.retries() && !s.hedges() {
		s.find("retry.attempts", fmt.Sprintf("%s, and one attempt: a call that fails at one of them fails, until five in a row have and it is left out", plural(len(s.p.Endpoints.List), "endpoint")),
			"let it make a second attempt, which goes to another endpoint and needs no wait")
	}
}

func oneEndpoint(s *subject) {
	if list := s.p.Endpoints.List; len(list) == 1 {
		s.find("endpoints.list", fmt.Sprintf("%s is the only endpoint: attempts have nowhere else to go, and it is never left out", list[0].Name), "add a second one, or call it without endpoints")
	}
}

func hedgeAtTheSlowEndpoint(s *subject) {
	if k := s.p.Key; (k == policy.KeyMade || k == policy.KeyRequired) && !s.p.Endpoints.SharedKeys {
		s.find("hedge.max", "calls have keys that the endpoints do not share: a hedge goes to the endpoint that is slow, since the first attempt may have been carried out there",
			"write endpoints: {shared_keys: true} if they know the same keys, or hedge: off", s.set("hedge.max", "off"))
	}
}
