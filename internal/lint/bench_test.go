package lint

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gabion-go/gabion/config"
)

// thousand is a file of a thousand dependencies with facts, of which each third has
// something to find.
func thousand() []byte {
	var b strings.Builder
	b.WriteString("version: 1\nfacts: {processes: 10, metrics: true}\ndependencies:\n")
	for i := range 1000 {
		fmt.Fprintf(&b, "  d%d:\n    timeout: {call: 15s, attempt: %dms}\n    retry: {attempts: 3}\n", i, 500+i)
		fmt.Fprintf(&b, "    facts: {rate: 10/s, capacity: 1000/s, p50: 20ms, p99: 100ms, writes: false, inner: %d}\n", 1+i%3)
	}
	return []byte(b.String())
}

// BenchmarkRun1000 is all rules on a file of a thousand dependencies: at most 200 ms.
func BenchmarkRun1000(b *testing.B) {
	f, broken := config.Read("gabion.yaml", thousand())
	if len(broken) > 0 {
		b.Fatal(broken)
	}
	b.ReportAllocs()
	for b.Loop() {
		if r := Run([]*config.File{f}, Options{}); len(r.Findings) < 300 {
			b.Fatal(len(r.Findings))
		}
	}
}

// BenchmarkReadAndRun1000 reads the file as well.
func BenchmarkReadAndRun1000(b *testing.B) {
	text := thousand()
	b.ReportAllocs()
	for b.Loop() {
		f, _ := config.Read("gabion.yaml", text)
		Run([]*config.File{f}, Options{})
	}
}
