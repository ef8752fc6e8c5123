package report

import (
	"io"
	"testing"
)

func BenchmarkHTML(b *testing.B) {
	s := pair()
	for b.Loop() {
		if err := HTML(io.Discard, s); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkTerminal(b *testing.B) {
	s := pair()
	for b.Loop() {
		if err := Terminal(io.Discard, s, Options{}); err != nil {
			b.Fatal(err)
		}
	}
}
