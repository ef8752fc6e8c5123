package gabion

import (
	"context"

	"github.com/gabion-go/gabion/policy"
)

type priorityKey struct{}

// ContextWithPriority returns a context for requests of another priority. The admission of
// packages gabionhttp and gabiongrpc makes one for what it lets in. Their clients put a request
// with that context in the bulkhead's queue by its priority, and send it on to internal
// dependencies. [Do] does not look for it: [WithPriority] says the same of one call. Anything
// above policy.PriorityNormal means high, anything below it low.
func ContextWithPriority(ctx context.Context, p policy.Priority) context.Context {
	if p == PriorityOf(ctx) {
		return ctx
	}
	return context.WithValue(ctx, priorityKey{}, max(policy.PriorityLow, min(p, policy.PriorityHigh)))
}

// PriorityOf returns the priority of the request that ctx belongs to;
// policy.PriorityNormal if none is known.
func PriorityOf(ctx context.Context) policy.Priority {
	p, _ := ctx.Value(priorityKey{}).(policy.Priority)
	return p
}
