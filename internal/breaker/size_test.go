package breaker

import (
	"math"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/gabion-go/gabion/internal/clock"
)

// A service keeps a breaker for each of thousands of partitions.
func TestClosedBreakerIsSmall(t *testing.T) {
	const storage = buckets * 2 * 8 // one shard: two words a bucket
	if got := unsafe.Sizeof(Breaker{}) + storage; got > 320 {
		t.Errorf("a closed breaker takes %d bytes, want at most 320", got)
	}
	if got := unsafe.Sizeof(Permit{}); got > 24 {
		t.Errorf("a permit takes %d bytes, want at most 24", got)
	}
	if b := New(&Rules{Window: time.Second}, 1, 0, nil); b.extra != nil {
		t.Error("a closed breaker has a side table")
	}
}

// Whoever asked for shards pays for them when callers meet, and not before.
func TestQuietBreakerStaysSmall(t *testing.T) {
	b := New(&Rules{Window: time.Second, FailureRate: 1, Open: time.Hour}, 64, 0, nil)
	for i := range clock.Instant(1000) {
		p, _, _ := b.Acquire(i*1e6, uint32(i))
		b.Settle(i*1e6, uint32(i), p, Result(i&1), 0)
	}
	b.By("").Trip(1e9)
	for i := range uint32(1000) {
		b.Acquire(1e9, i)
	}
	if b.win.Grown() || b.extra.refused.more.Load() != nil {
		t.Error("one caller after the other made it grow")
	}
	if got := b.Snapshot(1e9).Refused; got != 1000 {
		t.Errorf("%d refused, want 1000", got)
	}
}

func TestRefusalsAreCountedWhileTheCounterIsDivided(t *testing.T) {
	const callers, each = 8, 5000
	b := New(&Rules{Open: time.Hour}, callers, 0, nil)
	b.By("").Trip(0)
	var wg sync.WaitGroup
	for i := range uint32(callers) {
		wg.Go(func() {
			for k := range each {
				if b.Acquire(1, i); i == 0 && k == each/2 {
					b.extra.refused.divide(callers)
				}
			}
		})
	}
	wg.Wait()
	if got := b.Snapshot(1).Refused; got != callers*each {
		t.Errorf("%d refused, want %d", got, callers*each)
	}
	if b.By("").Reset(2); b.Snapshot(2).Refused != 0 {
		t.Error("a closed breaker shows refusals")
	}
}

// Shards are picked by hashes, which use all 32 bits.
func TestRefusalsAreCountedForEveryShard(t *testing.T) {
	b := New(&Rules{Open: time.Hour}, 8, 0, nil)
	b.By("").Trip(0)
	b.extra.refused.divide(8)
	shards := []uint32{0, 7, 8, math.MaxInt32, math.MaxInt32 + 1, math.MaxInt32 + 2, math.MaxUint32}
	for _, shard := range shards {
		b.Acquire(1, shard)
	}
	if got := b.Snapshot(1).Refused; got != int64(len(shards)) {
		t.Errorf("%d refused, want %d", got, len(shards))
	}
}

// A verdict counts wherever the window was in growing.
func TestNoVerdictIsLostWhileTheWindowGrows(t *testing.T) {
	const callers, each = 8, 500
	for range 50 {
		b := New(&Rules{Window: time.Hour, MinCalls: callers * each, FailureRate: 1, Open: 1}, callers, 0, nil)
		var wg sync.WaitGroup
		for i := range uint32(callers) {
			wg.Go(func() {
				for k := range each {
					p, _, _ := b.Acquire(0, i)
					if b.Settle(1, i, p, Bad, 0); i == 0 && k == each/2 {
						b.win.Grow(callers)
					}
				}
			})
		}
		wg.Wait()
		if b.State() != Open {
			t.Fatalf("%+v, want open by the last failure", b.Snapshot(1))
		}
	}
}
