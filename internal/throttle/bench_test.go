package throttle

import (
	"testing"
	"time"

	"github.com/gabion-go/gabion/internal/clock"
)

func BenchmarkCall(b *testing.B) {
	b.ReportAllocs()
	throttle := Make(2 * time.Minute)
	for now := clock.Instant(0); b.Loop(); now += 100 {
		throttle.Admit(now, 2)
		throttle.Accept(now, now)
	}
}

func BenchmarkCallParallel(b *testing.B) {
	b.ReportAllocs()
	throttle := Make(2 * time.Minute)
	b.RunParallel(func(pb *testing.PB) {
		for now := clock.Instant(0); pb.Next(); now += 100 {
			throttle.Admit(now, 2)
			throttle.Accept(now, now)
		}
	})
}

// A probability after each turn of the window, which reads all buckets.
func BenchmarkProbabilityAnew(b *testing.B) {
	b.ReportAllocs()
	throttle := Make(2 * time.Minute)
	for now := clock.Instant(0); b.Loop(); now += clock.Instant(10 * time.Second) {
		throttle.Probability(now, 2)
	}
}
