package throttle

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gabion-go/gabion/internal/clock"
)

func BenchmarkCall(b *testing.B) {
	for _, shards := range []int{1, 2, 8} {
		b.Run(fmt.Sprintf("shards=%d", shards), func(b *testing.B) {
			b.ReportAllocs()
			throttle := Make(2*time.Minute, shards)
			for now := clock.Instant(0); b.Loop(); now += 100 {
				throttle.Admit(now, 0, 2)
				throttle.Accept(now, now, 0)
			}
		})
	}
}

func BenchmarkCallParallel(b *testing.B) {
	b.ReportAllocs()
	throttle := Make(2*time.Minute, runtime.GOMAXPROCS(0))
	var shards atomic.Uint32
	b.RunParallel(func(pb *testing.PB) {
		shard := shards.Add(1)
		for now := clock.Instant(0); pb.Next(); now += 100 {
			throttle.Admit(now, shard, 2)
			throttle.Accept(now, now, shard)
		}
	})
}

// A probability after each turn of the window, which reads all buckets.
func BenchmarkProbabilityAnew(b *testing.B) {
	b.ReportAllocs()
	throttle := Make(2*time.Minute, 8)
	for now := clock.Instant(0); b.Loop(); now += clock.Instant(10 * time.Second) {
		throttle.Probability(now, 2)
	}
}
