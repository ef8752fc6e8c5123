package gabionhttp

import (
	"context"
	"sync/atomic"

	"github.com/gabion-go/gabion/internal/learned"
	"github.com/gabion-go/gabion/internal/serving"
)

// holding is the slot of a request that may give it back early.
type holding struct {
	room *serving.Room
	pass serving.Pass
	over atomic.Bool
}

type holdingKey struct{}

func (h *holding) release(v learned.Verdict) bool {
	if h.over.Swap(true) {
		return false
	}
	h.room.Leave(h.pass, v)
	return true
}

// ReleaseSlot gives the slot of an [Admission] back before its handler returns. It is for
// requests that last: a stream, a long poll or an upgraded connection would hold a slot for
// as long, and a hundred of them fill a server that is idle. Call it when what costs the
// server is done, such as after the first flush. It reports whether there was a slot to
// give back: there is none a second time, and none to requests that Admission.Lasts does
// not name. ctx is that of the request.
func ReleaseSlot(ctx context.Context) bool {
	h, ok := ctx.Value(holdingKey{}).(*holding)
	return ok && h.release(learned.Nothing)
}
