package breaker

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gabion-go/gabion/internal/clock"
)

func benchRules() *Rules {
	return &Rules{
		Window: 10 * time.Second, MinCalls: 20, FailureRate: 0.5,
		Open: 30 * time.Second, Probes: 3,
	}
}

func BenchmarkClosed(b *testing.B) {
	slow, consecutive, last := benchRules(), benchRules(), benchRules()
	slow.SlowCall, slow.SlowRate = time.Second, 0.8
	consecutive.Consecutive = 5
	last.WindowCalls = 100
	ageing := *slow
	ageing.InFlight = true
	for _, c := range []struct {
		name  string
		rules *Rules
	}{{"rate", benchRules()}, {"slow", slow}, {"consecutive", consecutive}, {"last calls", last}, {"ageing", &ageing}} {
		b.Run(c.name, func(b *testing.B) {
			br := New(c.rules, 1, 1, nil)
			b.ReportAllocs()
			now := clock.Instant(0)
			for b.Loop() {
				now += 1000
				p, _, _ := br.Acquire(now, 0)
				br.Settle(now+500, 0, p, Good, 0)
			}
		})
	}
}

func BenchmarkFailure(b *testing.B) {
	for _, shards := range []int{1, 4, 32} {
		b.Run(fmt.Sprintf("shards=%d", shards), func(b *testing.B) {
			r := benchRules()
			r.FailureRate = 1
			br := New(r, shards, 1, nil)
			br.win.Grow(shards)
			for range 20 {
				p, _, _ := br.Acquire(0, 0)
				br.Settle(0, 0, p, Good, 0)
			}
			b.ReportAllocs()
			for b.Loop() {
				p, _, _ := br.Acquire(5, 0)
				br.Settle(6, 0, p, Bad, 0)
			}
		})
	}
}

func BenchmarkClosedParallel(b *testing.B) {
	for _, shards := range []int{1, 8} {
		b.Run(map[int]string{1: "one shard", 8: "eight shards"}[shards], func(b *testing.B) {
			br := New(benchRules(), shards, 1, nil)
			var next atomic.Uint32
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				shard, now := next.Add(1), clock.Instant(0)
				for pb.Next() {
					now += 1000
					p, _, _ := br.Acquire(now, shard)
					br.Settle(now+500, shard, p, Good, 0)
				}
			})
		})
	}
}

func BenchmarkOpenRefusal(b *testing.B) {
	br := New(benchRules(), 1, 1, nil)
	br.By("").Trip(0)
	b.ReportAllocs()
	for b.Loop() {
		br.Acquire(5, 0)
	}
}

func BenchmarkOpenRefusalParallel(b *testing.B) {
	for _, shards := range []int{1, 8} {
		b.Run(fmt.Sprintf("shards=%d", shards), func(b *testing.B) {
			br := New(benchRules(), shards, 1, nil)
			br.By("").Trip(0)
			var next atomic.Uint32
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				shard := next.Add(1)
				for pb.Next() {
					br.Acquire(5, shard)
				}
			})
		})
	}
}
