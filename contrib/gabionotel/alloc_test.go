//go:build !race

package gabionotel_test

import (
	"context"
	"testing"

	"github.com/gabion-go/gabion"
)

// A call that is not sampled costs what the SDK needs for its span's context, and no more.
func TestAllocationsOfACallThatIsNotSampled(t *testing.T) {
	work := func(context.Context) (int, error) { return 1, nil }
	op := gabion.WithOperation("charge")
	var bare float64
	for _, c := range attached() {
		d := gabion.New("payments", full, c.opts...)
		got := testing.AllocsPerRun(1000, func() { gabion.Do(context.Background(), d, work, op) })
		t.Logf("%s: %.0f", c.name, got)
		switch c.name {
		case "unobserved":
			bare = got
		case "traces/none", "traces/1%":
			if got > bare+2 {
				t.Errorf("%s: %.0f allocations, %.0f unobserved", c.name, got, bare)
			}
		}
	}
}
