package window

import (
	"testing"
	"time"

	"github.com/gabion-go/gabion/internal/clock"
)

func BenchmarkAdd(b *testing.B) {
	w := Make(10*time.Second, 10, 1)
	b.ReportAllocs()
	for b.Loop() {
		w.Add(5, 0, 1, 0, 0)
	}
}

func BenchmarkAddSlow(b *testing.B) {
	w := Make(10*time.Second, 10, 1)
	b.ReportAllocs()
	for b.Loop() {
		w.Add(5, 0, 1, 1, 1)
	}
}

// A turn every 100 adds.
func BenchmarkAddTurning(b *testing.B) {
	w := Make(10*time.Second, 10, 1)
	b.ReportAllocs()
	now := clock.Instant(0)
	for b.Loop() {
		now += clock.Instant(10 * time.Millisecond)
		w.Add(now, 0, 1, 0, 0)
	}
}

func BenchmarkAddParallel(b *testing.B) {
	for _, shards := range []int{1, 8} {
		b.Run(map[int]string{1: "one shard", 8: "eight shards"}[shards], func(b *testing.B) {
			w := Make(10*time.Second, 10, shards)
			next := make(chan uint32, 1024)
			for i := range uint32(1024) {
				next <- i
			}
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				shard := <-next
				for pb.Next() {
					w.Add(5, shard, 1, 0, 0)
				}
			})
		})
	}
}

func BenchmarkSum(b *testing.B) {
	w := Make(10*time.Second, 10, 1)
	w.Add(5, 0, 1, 1, 1)
	b.ReportAllocs()
	for b.Loop() {
		w.Sum(5)
	}
}
