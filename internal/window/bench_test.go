package window

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gabion-go/gabion/internal/clock"
)

func BenchmarkAdd(b *testing.B) {
	w := Make(10*time.Second, 10)
	b.ReportAllocs()
	for b.Loop() {
		w.Add(5, 1, 0, 0)
	}
}

func BenchmarkAddSlow(b *testing.B) {
	w := Make(10*time.Second, 10)
	b.ReportAllocs()
	for b.Loop() {
		w.Add(5, 1, 1, 1)
	}
}

// A turn every 100 adds.
func BenchmarkAddTurning(b *testing.B) {
	w := Make(10*time.Second, 10)
	b.ReportAllocs()
	now := clock.Instant(0)
	for b.Loop() {
		now += clock.Instant(10 * time.Millisecond)
		w.Add(now, 1, 0, 0)
	}
}

func BenchmarkAddParallel(b *testing.B) {
	for _, shards := range []int{1, 8} {
		b.Run(map[int]string{1: "one shard", 8: "eight shards"}[shards], func(b *testing.B) {
			w := MakeElastic(10*time.Second, 10)
			w.Grow(shards)
			var callers atomic.Uint32
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				shard := callers.Add(1)
				for pb.Next() {
					w.Add(5, shard, false, false)
				}
			})
		})
	}
}

func BenchmarkSum(b *testing.B) {
	w := Make(10*time.Second, 10)
	w.Add(5, 1, 1, 1)
	b.ReportAllocs()
	for b.Loop() {
		w.Sum(5)
	}
}

// A sum of a window that has grown to a number of shards.
func BenchmarkElasticSum(b *testing.B) {
	for _, shards := range []int{1, 8, 128} {
		b.Run(fmt.Sprintf("shards=%d", shards), func(b *testing.B) {
			w := MakeElastic(10*time.Second, 10)
			w.Add(5, 0, true, true)
			w.Grow(shards)
			for i := range uint32(shards) {
				w.Add(5, i, true, true)
			}
			b.ReportAllocs()
			for b.Loop() {
				w.Sum(5)
			}
		})
	}
}

// Adds beside a sum now and then, as where a few of many calls fail.
func BenchmarkElasticParallel(b *testing.B) {
	for _, every := range []int{1, 10, 1 << 30} {
		b.Run(fmt.Sprintf("sum=%d", every), func(b *testing.B) {
			w := MakeElastic(10*time.Second, 10)
			w.Grow(4 * runtime.GOMAXPROCS(0))
			var callers atomic.Uint32
			b.RunParallel(func(pb *testing.PB) {
				shard := callers.Add(1)
				for n := 1; pb.Next(); n++ {
					w.Add(5, shard, false, false)
					if n%every == 0 {
						w.Sum(5)
					}
				}
			})
		})
	}
}
