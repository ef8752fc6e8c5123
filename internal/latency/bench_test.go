package latency

import (
	"runtime"
	"testing"
	"time"

	"github.com/gabion-go/gabion/internal/clock"
)

func BenchmarkRecord(b *testing.B) {
	b.ReportAllocs()
	sketch := New(time.Minute, 1)
	now := clock.Instant(0)
	for b.Loop() {
		now += 1000
		sketch.Record(now, 0, time.Duration(now&0xffffff))
	}
}

func BenchmarkRecordParallel(b *testing.B) {
	b.ReportAllocs()
	sketch := New(time.Minute, runtime.GOMAXPROCS(0))
	var shards = make(chan uint32, 1)
	shards <- 0
	b.RunParallel(func(pb *testing.PB) {
		shard := <-shards
		shards <- shard + 1
		for now := clock.Instant(0); pb.Next(); now += 1000 {
			sketch.Record(now, shard, 7*ms)
		}
	})
}

func BenchmarkQuantile(b *testing.B) {
	b.ReportAllocs()
	sketch := New(time.Minute, 1)
	for i := range 1000 {
		sketch.Record(0, 0, time.Duration(i)*ms)
	}
	for b.Loop() {
		sketch.Quantile(0, 0.95)
	}
}

func BenchmarkRecent(b *testing.B) {
	b.ReportAllocs()
	sketch := New(time.Minute, 1)
	for b.Loop() {
		sketch.Recent(0, 0.95)
	}
}
