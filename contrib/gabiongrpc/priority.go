package gabiongrpc

import (
	"context"

	"github.com/gabion-go/gabion/internal/serving"
	"github.com/gabion-go/gabion/policy"
)

// MetadataPriority says how much a call matters, from hop to hop: low, normal or high.
// Anything else means normal, as if it were absent. Clients send it to internal
// dependencies only.
const MetadataPriority = "x-request-priority"

// WithPriority returns a context for calls of another priority. An [Admission] makes one for
// what it lets in. Such calls stand in the bulkhead's queue by their priority, and tell it to
// internal dependencies. Anything above policy.PriorityNormal means high, anything below it
// low. It is the priority of package gabionhttp as well.
func WithPriority(ctx context.Context, p policy.Priority) context.Context {
	return serving.WithPriority(ctx, p)
}

// Priority returns the priority of the call that ctx belongs to; policy.PriorityNormal if
// none is known.
func Priority(ctx context.Context) policy.Priority { return serving.Priority(ctx) }
