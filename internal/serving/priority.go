package serving

import (
	"strings"

	"github.com/gabion-go/gabion/policy"
)

// Bounded is the nearest of low, normal and high.
func Bounded(p policy.Priority) policy.Priority {
	return max(policy.PriorityLow, min(p, policy.PriorityHigh))
}

// ReadPriority reads the values of a header: low, normal or high. Anything else means
// normal. Of several, as when a proxy added one, the lowest counts. High counts only if the caller
// is trusted.
func ReadPriority(values []string, trusted bool) policy.Priority {
	if len(values) == 0 {
		return policy.PriorityNormal
	}
	p := policy.PriorityHigh
	for _, v := range values {
		switch v = strings.Trim(v, " \t"); {
		case strings.EqualFold(v, "low"):
			p = policy.PriorityLow
		case !strings.EqualFold(v, "high"):
			p = min(p, policy.PriorityNormal)
		}
	}
	if !trusted {
		p = min(p, policy.PriorityNormal)
	}
	return p
}
