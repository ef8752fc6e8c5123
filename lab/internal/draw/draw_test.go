package draw

import (
	"math"
	"slices"
	"testing"
	"time"
)

func TestLnAndExpAgreeWithPackageMath(t *testing.T) {
	s := New(1, 1, 1)
	for range 200_000 {
		x := math.Exp(s.U()*1400 - 700)
		if got, want := Ln(x), math.Log(x); math.Abs(got-want) > 2e-15*(1+math.Abs(want)) {
			t.Fatalf("Ln(%g) = %.17g, want %.17g", x, got, want)
		}
		y := s.U()*1400 - 700
		if got, want := Exp(y), math.Exp(y); math.Abs(got-want) > 1e-13*want {
			t.Fatalf("Exp(%g) = %.17g, want %.17g", y, got, want)
		}
	}
	if Ln(1) != 0 || Exp(0) != 1 || Exp(-1000) != 0 {
		t.Error("the simple cases are not exact")
	}
}

// The first draws of a stream are part of what makes old reports reproducible.
func TestDrawsAreTheSameForEver(t *testing.T) {
	s := New(42, 3, 7)
	want := []uint64{0x316bdd04ff73aaf, 0xe135ba0b17c3e8c5, 0x584706d26fe47d37}
	for i := range want {
		if got := s.Bits(); got != want[i] {
			t.Errorf("draw %d is %#x", i, got)
		}
	}
	d := LogNormal(20*time.Millisecond, 300*time.Millisecond)
	sum := time.Duration(0)
	for range 1000 {
		sum += d.Draw(&s)
	}
	if sum != 35293150913 {
		t.Errorf("a thousand draws come to %d", sum)
	}
}

func TestDistributions(t *testing.T) {
	const ms = float64(time.Millisecond)
	for _, c := range []struct {
		fact      string
		d         Dist
		mean      float64
		p50, p99  float64
		tolerance float64
	}{
		{"a constant", Constant(5 * time.Millisecond), 5, 5, 5, 0},
		{"uniform", Uniform(10*time.Millisecond, 30*time.Millisecond), 20, 20, 29.8, 0.02},
		{"exponential", Exponential(10 * time.Millisecond), 10, 6.931, 46.05, 0.03},
		{"the size of a normal", AbsNormal(10*time.Millisecond, 2*time.Millisecond), 10, 10, 14.65, 0.02},
		{"log-normal by its quantiles", LogNormal(20*time.Millisecond, 300*time.Millisecond), 39.37, 20, 300, 0.06},
		{"Pareto", Pareto(10*time.Millisecond, 3), 15, 12.6, 46.4, 0.04},
		{"half and half", Mixture(Part{1, Constant(0)}, Part{1, Constant(10 * time.Millisecond)}), 5, math.NaN(), 10, 0.02},
		{"three parts", Mixture(Part{50, Constant(2 * time.Millisecond)}, Part{30, Constant(10 * time.Millisecond)}, Part{20, Constant(20 * time.Millisecond)}), 8, math.NaN(), 20, 0.01},
		{"shifted", Exponential(10 * time.Millisecond).Plus(5 * time.Millisecond), 15, 11.931, 51.05, 0.03},
		{"quantiles", Quantiles(Point{0, time.Millisecond}, Point{0.98, 10 * time.Millisecond}, Point{0.9968, 70 * time.Millisecond}, Point{0.99999, 1800 * time.Millisecond}), 6.57, 5.59, 20.87, 0.06},
	} {
		t.Run(c.fact, func(t *testing.T) {
			s := New(9, 9, 9)
			all := make([]float64, 400_000)
			sum := 0.0
			for i := range all {
				all[i] = float64(c.d.Draw(&s)) / ms
				sum += all[i]
			}
			slices.Sort(all)
			near := func(what string, got, want float64) {
				if math.Abs(got-want) > c.tolerance*want+1e-9 {
					t.Errorf("%s %.3f ms, want %.3f", what, got, want)
				}
			}
			near("mean", sum/float64(len(all)), c.mean)
			near("said mean", float64(c.d.Mean())/ms, c.mean)
			near("p50", all[len(all)/2], c.p50)
			near("p99", all[len(all)*99/100], c.p99)
		})
	}
}

func TestStreamsOfDifferentNamesHaveNothingInCommon(t *testing.T) {
	seen := map[uint64]bool{}
	for seed := range uint64(20) {
		for what := range Purpose(20) {
			for part := range uint64(20) {
				s := New(seed, what, part)
				if x := s.Bits(); seen[x] {
					t.Fatalf("seed %d, purpose %d, part %d begins like another", seed, what, part)
				} else {
					seen[x] = true
				}
			}
		}
	}
}

func TestUnitsAreUniform(t *testing.T) {
	s := New(5, 1, 2)
	var bins [100]int
	for range 1_000_000 {
		bins[s.N(100)]++
		if u := s.Open(); u <= 0 || u >= 1 {
			t.Fatalf("%g is not inside", u)
		}
	}
	chi := 0.0
	for _, n := range bins {
		chi += float64((n-10_000)*(n-10_000)) / 10_000
	}
	if chi > 160 { // 99 degrees of freedom: one in ten thousand
		t.Errorf("chi squared %.1f", chi)
	}
}
