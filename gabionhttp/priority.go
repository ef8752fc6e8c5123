package gabionhttp

import (
	"context"
	"net/http"
	"strings"

	"github.com/gabion-go/gabion/policy"
)

// HeaderPriority says how much a request matters, from hop to hop: low, normal or high.
// Anything else means normal, as if it were absent. A [Transport] sends it to internal
// dependencies only.
const HeaderPriority = "X-Request-Priority"

type priorityKey struct{}

// WithPriority returns a context for requests of another priority. An [Admission] makes
// one for what it lets in. A [Transport] puts such requests in the bulkhead's queue by
// their priority, and sends it on to internal dependencies. Anything above
// policy.PriorityNormal means high, anything below it low.
func WithPriority(ctx context.Context, p policy.Priority) context.Context {
	if p == priorityOf(ctx) {
		return ctx
	}
	return context.WithValue(ctx, priorityKey{}, bounded(p))
}

// Priority returns the priority of the request that ctx belongs to;
// policy.PriorityNormal if none is known.
func Priority(ctx context.Context) policy.Priority { return priorityOf(ctx) }

func priorityOf(ctx context.Context) policy.Priority {
	p, _ := ctx.Value(priorityKey{}).(policy.Priority)
	return p
}

func bounded(p policy.Priority) policy.Priority {
	return max(policy.PriorityLow, min(p, policy.PriorityHigh))
}

// priorityTexts are the values of the header, made once.
var priorityTexts = map[policy.Priority][]string{
	policy.PriorityLow: {"low"}, policy.PriorityNormal: {"normal"}, policy.PriorityHigh: {"high"},
}

// readPriority reads the header. Of several lines, as when somebody added one, the lowest
// counts.
func readPriority(h http.Header) policy.Priority {
	values := h[HeaderPriority]
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
	return p
}

// priority is the class of a request.
func (a *Admission) priority(r *http.Request) policy.Priority {
	if a.Priority != nil {
		return bounded(a.Priority(r))
	}
	p := readPriority(r.Header)
	if !a.TrustPriority {
		p = min(p, policy.PriorityNormal)
	}
	return p
}
