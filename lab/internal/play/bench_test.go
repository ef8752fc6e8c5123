package play

import "testing"

func BenchmarkAnswer(b *testing.B) {
	for _, side := range []string{"gabion", "resilience4j"} {
		b.Run(side, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Answer(b.Context(), []byte(`{"side": "`+side+`"}`))
			}
		})
	}
}
