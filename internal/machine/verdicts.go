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
var verdicts = [policy.Crashed + 1]breaker.Verdict{
	policy.Success:      breaker.Good,
	policy.Network:      breaker.Bad,
	policy.TimedOut:     breaker.Bad,
	policy.ServerError:  breaker.Bad,
	policy.Throttled:    breaker.Neutral,
	policy.Contention:   breaker.Good,
	policy.ClientError:  breaker.Good,
	policy.Business:     breaker.Good,
	policy.Unclassified: breaker.Bad,
	policy.Ignored:      breaker.Neutral,
	policy.Rejected:     breaker.Neutral,
	policy.Crashed:      breaker.Neutral,
}

func (r *Rules) verdict(c policy.Class) breaker.Verdict {
	if c == policy.Throttled && r.Policy.Breaker.Throttled {
		return breaker.Bad
	}
	return verdicts[c]
}
