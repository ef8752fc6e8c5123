package serving

import (
	"context"
	"strings"

	"github.com/gabion-go/gabion/policy"
)

type priorityKey struct{}

// WithPriority returns a context for requests of another priority. Anything above
// policy.PriorityNormal means high, anything below it low.
func WithPriority(ctx context.Context, p policy.Priority) context.Context {
	if p == Priority(ctx) {
		return ctx
	}
	return context.WithValue(ctx, priorityKey{}, Bounded(p))
}

// Priority returns the priority of the request that ctx belongs to; policy.PriorityNormal if
// none is known.
func Priority(ctx context.Context) policy.Priority {
	p, _ := ctx.Value(priorityKey{}).(policy.Priority)
	return p
}

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
