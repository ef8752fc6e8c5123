package serving

import (
	"context"
	"sync/atomic"

	"github.com/gabion-go/gabion/internal/learned"
)

// Hold is the pass of a request that may give it back early. It is safe for concurrent use.
type Hold struct {
	room *Room
	pass Pass
	over atomic.Bool
}

type holdKey struct{}

// Hold returns what gives the pass back once.
func (d *Room) Hold(p Pass) *Hold { return &Hold{room: d, pass: p} }

// In returns a context in which [Release] finds h.
func (h *Hold) In(ctx context.Context) context.Context { return context.WithValue(ctx, holdKey{}, h) }

// Release gives the pass back, and reports false if it was given back before.
func (h *Hold) Release(v learned.Verdict) bool {
	if h.over.Swap(true) {
		return false
	}
	h.room.Leave(h.pass, v)
	return true
}

// End is [Room.End] of a pass that may have been given back early.
func (h *Hold) End(ctx context.Context, done *bool) {
	if h.over.Swap(true) {
		return
	}
	h.room.End(ctx, h.pass, done)
}

// Release gives the pass back that ctx holds, and reports whether there was one.
func Release(ctx context.Context) bool {
	h, ok := ctx.Value(holdKey{}).(*Hold)
	return ok && h.Release(learned.Nothing)
}
