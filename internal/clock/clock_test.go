package clock_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/gabion-go/gabion/internal/clock"
)

func ExampleInstant() {
	start := clock.Instant(-8) // negative instants are ordinary
	later := start.Add(20 * time.Millisecond)
	fmt.Println(later.Sub(start), later < start, clock.Never.Add(-time.Hour) == clock.Never)
	// Output: 20ms false true
}

func TestTimeSaturatesInsteadOfWrapping(t *testing.T) {
	const first = clock.Instant(math.MinInt64)
	for _, c := range []struct {
		fact      string
		got, want any
	}{
		{"far future is never", clock.Instant(math.MaxInt64 - 5).Add(10), clock.Never},
		{"never stays never", clock.Never.Add(-time.Hour), clock.Never},
		{"before the beginning is the beginning", clock.Instant(math.MinInt64 + 5).Add(-10), first},
		{"a sum in range is exact", clock.Instant(-3).Add(5), clock.Instant(2)},
		{"the longest span ahead", clock.Never.Sub(first), time.Duration(math.MaxInt64)},
		{"the longest span behind", first.Sub(clock.Never), time.Duration(math.MinInt64)},
		{"a difference in range is exact", clock.Instant(-3).Sub(4), time.Duration(-7)},
		{"equal instants are no time apart", first.Sub(first), time.Duration(0)},
		{"before is strict", clock.Instant(3) < 3, false},
	} {
		t.Run(c.fact, func(t *testing.T) {
			if c.got != c.want {
				t.Errorf("got %v, want %v", c.got, c.want)
			}
		})
	}
}
