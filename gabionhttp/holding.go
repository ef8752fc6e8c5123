package gabionhttp

import (
	"context"

	"github.com/gabion-go/gabion/internal/serving"
)

// ReleaseSlot gives the slot of an [Admission] back before its handler returns. It is for
// requests that last: a stream, a long poll or an upgraded connection would hold a slot for
// as long, and a hundred of them fill a server that is idle. Call it when what costs the
// server is done, such as after the first flush. It reports whether it gave a slot back: not a
// second time, and not for requests that Admission.Lasts does not name. ctx is that of the
// request.
func ReleaseSlot(ctx context.Context) bool { return serving.Release(ctx) }
