package gabionsql

import (
	"context"
	"sync/atomic"
)

// reach is the context of a call that waits for a connection of a pool. The connector
// notes in it that the call has one.
type reach struct {
	context.Context
	has      atomic.Bool
	mistaken atomic.Pointer[mistake] // of the program, by its last statement
}

type reachKey struct{}

// Value implements context.Context.
func (r *reach) Value(key any) any {
	if _, ok := key.(reachKey); ok {
		return r
	}
	return r.Context.Value(key)
}

// reached notes that the call of ctx got a connection, or that one is made for it.
func reached(ctx context.Context) {
	if r, ok := ctx.Value(reachKey{}).(*reach); ok && !r.has.Load() {
		r.has.Store(true)
	}
}
