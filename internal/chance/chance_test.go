package chance_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/gabion-go/gabion/internal/chance"
)

func ExampleU() {
	again := chance.U(1, 7, 2, chance.Backoff)
	fmt.Println(chance.U(1, 7, 2, chance.Backoff) == again, chance.U(1, 7, 2, chance.After) == again)
	// Output: true false
}

// Neighbouring names must draw as if they had nothing to do with each other: fleets
// differ in the seed by one, calls and attempts too.
func TestDrawsOfNeighboursAreUniformAndIndependent(t *testing.T) {
	draws := map[string]func(i uint64) float64{
		"seeds":    func(i uint64) float64 { return chance.U(i, 1, 1, chance.Backoff) },
		"calls":    func(i uint64) float64 { return chance.U(1, i, 1, chance.Backoff) },
		"attempts": func(i uint64) float64 { return chance.U(1, 1, i, chance.Backoff) },
		"purposes": func(i uint64) float64 { return chance.U(1, 1, 1, chance.Purpose(i)) },
	}
	for name, draw := range draws {
		t.Run(name, func(t *testing.T) {
			const n, cells = 200_000, 100
			var count [cells]float64
			var sum, before, product float64
			for i := range uint64(n) {
				u := draw(i)
				if u < 0 || u >= 1 {
					t.Fatalf("draw %d is %v", i, u)
				}
				count[int(u*cells)]++
				sum += u
				product += (u - 0.5) * (before - 0.5)
				before = u
			}
			// χ² with 99 degrees of freedom is below 160 but for one case in 10⁴, and
			// mean and lag-one covariance within five of their standard deviations.
			chi := 0.0
			for _, c := range count {
				chi += (c - n/cells) * (c - n/cells) / (n / cells)
			}
			if chi > 160 {
				t.Errorf("χ² = %.1f over %d cells", chi, cells)
			}
			if dev := math.Abs(sum/n - 0.5); dev > 5*math.Sqrt(1.0/12/n) {
				t.Errorf("the mean is off by %v", dev)
			}
			if cov := math.Abs(product / n); cov > 5/12.0/math.Sqrt(n) {
				t.Errorf("neighbours correlate: %v", cov)
			}
		})
	}
}

func TestDrawsAreThoseOfEveryPlatform(t *testing.T) {
	// A recording of one machine is replayed on another, so these may never change.
	for _, c := range []struct {
		seed, call, try uint64
		p               chance.Purpose
		want            uint64
	}{
		{0, 0, 0, 1, 0x927a7c57dc016e42},
		{1, 2, 3, 2, 0x4a7b15df63a4ffa7},
		{18446744073709551615, 1099511627776, 63, 5, 0xc810feaae1027510},
		{42, 0, 1, 6, 0x183528bec2893d5a},
	} {
		if got := chance.Bits(c.seed, c.call, c.try, c.p); got != c.want {
			t.Errorf("Bits(%d, %d, %d, %d) = %#x, want %#x", c.seed, c.call, c.try, c.p, got, c.want)
		}
	}
}
