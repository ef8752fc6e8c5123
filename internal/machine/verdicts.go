package machine

import (
	"github.com/gabion-go/gabion/internal/breaker"
	"github.com/gabion-go/gabion/policy"
)

// verdicts is the one place where a class of outcome becomes what the breaker
// hears. Permanent outcomes are answers, so the dependency works (SPEC F5); a
// throttled attempt paces and does not trip; a conflict with another call is an
// answer of a dependency that works; who gave up or crashed says nothing
// about the dependency (CONFORMANCE C31, C32).
var verdicts = [policy.ClassCrashed + 1]breaker.Verdict{
	policy.ClassSuccess:      breaker.Good,
	policy.ClassNetwork:      breaker.Bad,
	policy.ClassTimeout:      breaker.Bad,
	policy.ClassServer:       breaker.Bad,
	policy.ClassThrottled:    breaker.Neutral,
	policy.ClassContention:   breaker.Good,
	policy.ClassClient:       breaker.Good,
	policy.ClassBusiness:     breaker.Good,
	policy.ClassUnclassified: breaker.Bad,
	policy.ClassIgnored:      breaker.Neutral,
	policy.ClassRejected:     breaker.Neutral,
	policy.ClassCrashed:      breaker.Neutral,
}

func (r *Rules) verdict(c policy.Class) breaker.Verdict {
	if c == policy.ClassThrottled && r.Policy.Breaker.Throttled {
		return breaker.Bad
	}
	return verdicts[c]
}
