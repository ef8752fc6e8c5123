package gabionhttp

import (
	"net/http"
	"testing"
	"time"

	"github.com/gabion-go/gabion/policy"
)

func BenchmarkOutcome(b *testing.B) {
	ok := &http.Response{StatusCode: 200, Header: header("Content-Type", "text/plain")}
	busy := &http.Response{StatusCode: 503, Header: header("Retry-After", "2")}
	b.Run("200", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			outcomeOf(ok, 0, new(policy.HTTP), atNoon)
		}
	})
	b.Run("503", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			outcomeOf(busy, 0, new(policy.HTTP), atNoon)
		}
	})
}

func BenchmarkTimeLeft(b *testing.B) {
	h := header(HeaderDeadline, "1500")
	b.ReportAllocs()
	for b.Loop() {
		TimeLeft(h)
	}
}

func BenchmarkSetTimeLeft(b *testing.B) {
	h := http.Header{}
	b.ReportAllocs()
	for b.Loop() {
		SetTimeLeft(h, 1500*time.Millisecond)
	}
}
