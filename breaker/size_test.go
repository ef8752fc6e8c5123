package breaker

import (
	"testing"
	"time"
	"unsafe"
)

// A service keeps a breaker for each of thousands of partitions.
func TestClosedBreakerIsSmall(t *testing.T) {
	const storage = buckets * 2 * 8 // one shard: two words a bucket
	if got := unsafe.Sizeof(Breaker{}) + storage; got > 310 {
		t.Errorf("a closed breaker takes %d bytes, want at most 310", got)
	}
	if got := unsafe.Sizeof(Permit{}); got > 24 {
		t.Errorf("a permit takes %d bytes, want at most 24", got)
	}
	if b := New(&Rules{Window: time.Second}, 1, 0, nil); b.side != nil {
		t.Error("a closed breaker has a side table")
	}
}
