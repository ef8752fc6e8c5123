package ratelimit

import (
	"testing"
	"time"

	"github.com/gabion-go/gabion/internal/clock"
)

func BenchmarkReserve(b *testing.B) {
	b.ReportAllocs()
	var l Limiter
	r := Rules{time.Microsecond, 100}
	now := clock.Instant(0)
	for b.Loop() {
		now += 1000
		l.Reserve(now, r, 0)
	}
}

func BenchmarkReserveRefused(b *testing.B) {
	b.ReportAllocs()
	var l Limiter
	r := Rules{time.Hour, 1}
	l.Reserve(0, r, 0)
	for b.Loop() {
		l.Reserve(1, r, 0)
	}
}

func BenchmarkReserveParallel(b *testing.B) {
	b.ReportAllocs()
	var l Limiter
	r := Rules{time.Nanosecond, 100}
	b.RunParallel(func(pb *testing.PB) {
		for now := clock.Instant(0); pb.Next(); now += 1000 {
			l.Reserve(now, r, time.Hour)
		}
	})
}
