package backoff

import (
	"testing"
	"time"
)

var sink time.Duration

func BenchmarkDelay(b *testing.B) {
	for _, shape := range shapes(100*ms, 30*s) {
		b.Run(shape.Kind.String(), func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				sink = shape.Delay(i&7, sink, 0.5)
			}
		})
	}
}
