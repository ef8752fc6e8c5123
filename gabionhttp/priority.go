package gabionhttp

import (
	"context"
	"net/http"

	"github.com/gabion-go/gabion/internal/serving"
	"github.com/gabion-go/gabion/policy"
)

// HeaderPriority says how much a request matters, from hop to hop: low, normal or high.
// Anything else means normal, as if it were absent. A [Transport] sends it to internal
// dependencies only.
const HeaderPriority = "X-Request-Priority"

// WithPriority returns a context for requests of another priority. An [Admission] makes
// one for what it lets in. A [Transport] puts such requests in the bulkhead's queue by
// their priority, and sends it on to internal dependencies. Anything above
// policy.PriorityNormal means high, anything below it low.
func WithPriority(ctx context.Context, p policy.Priority) context.Context {
	return serving.WithPriority(ctx, p)
}

// Priority returns the priority of the request that ctx belongs to;
// policy.PriorityNormal if none is known.
func Priority(ctx context.Context) policy.Priority { return serving.Priority(ctx) }

// priorityTexts are the values of the header, made once.
var priorityTexts = map[policy.Priority][]string{
	policy.PriorityLow: {"low"}, policy.PriorityNormal: {"normal"}, policy.PriorityHigh: {"high"},
}

// priority is the class of a request.
func (a *Admission) priority(r *http.Request) policy.Priority {
	if a.Priority != nil {
		return serving.Bounded(a.Priority(r))
	}
	return serving.ReadPriority(r.Header[HeaderPriority], a.TrustPriority)
}
