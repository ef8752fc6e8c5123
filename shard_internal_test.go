package gabion

import (
	"testing"
	"time"
	"unsafe"

	"github.com/gabion-go/gabion/internal/clock"
)

// Calls on different pages that have one shard part: of 64 milliseconds they share
// about one in eight, where there are eight shards. Within one a call keeps its shard.
func TestCallsOfOneShardPart(t *testing.T) {
	const shards, moments, pages, page = 8, 64, 30, 1 << 13
	const apart = int(page/unsafe.Sizeof(runner{})) + 1 // that many are more than a page
	runners := make([]runner, pages*apart)
	shard := func(r *runner, at time.Duration) uint32 { return shardOf(&r.call.Short, clock.Instant(at)) % shards }
	met := 0
	for i := 0; i < len(runners); i += apart {
		a := &runners[i]
		if shard(a, 0) != shard(a, time.Millisecond) {
			t.Fatal("another shard within a millisecond")
		}
		for j := i + apart; j < len(runners); j += apart {
			b := &runners[j]
			if shard(a, 0) != shard(b, 0) {
				continue
			}
			met++
			together := 0
			for m := range moments {
				if at := time.Duration(m) << 20; shard(a, at) == shard(b, at) {
					together++
				}
			}
			if together > moments/2 {
				t.Errorf("calls %d and %d have one shard in %d of %d milliseconds", i, j, together, moments)
			}
		}
	}
	if met == 0 {
		t.Error("no two of 435 pairs had one shard: nothing was tested")
	}
}
