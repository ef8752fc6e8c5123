package stat

import (
	"math"
	"slices"
	"testing"

	"github.com/gabion-go/gabion/lab/internal/draw"
)

func TestStudent(t *testing.T) {
	for freedom, want := range map[int]float64{1: 12.706, 7: 2.365, 8: 2.306, 9: 2.262, 19: 2.093, 29: 2.045, 99: 1.984, 1000: 1.962} {
		if got := t95(freedom); math.Abs(got-want) > 0.0006 {
			t.Errorf("t of %d is %.4f, want %.3f", freedom, got, want)
		}
	}
}

func TestShareOfFew(t *testing.T) {
	for _, c := range []struct {
		k, n      int
		low, high float64
	}{
		{0, 10, 0, 0.2775}, {10, 10, 0.7225, 1}, {5, 10, 0.2366, 0.7634}, {78, 100, 0.6893, 0.8500},
	} {
		if i := Share(c.k, c.n); math.Abs(i.Low-c.low) > 1e-3 || math.Abs(i.High-c.high) > 1e-3 {
			t.Errorf("%d of %d: %.4f to %.4f, want %.4f to %.4f", c.k, c.n, i.Low, i.High, c.low, c.high)
		}
	}
}

// An interval at 95 % misses the truth about once in twenty times.
func TestIntervalsCover(t *testing.T) {
	const times = 4000
	s := draw.New(1, 1, 1)
	var mean, share, median int
	for range times {
		xs := make([]float64, 12)
		hits := 0
		for i := range xs {
			xs[i] = s.Normal()
			if s.Yes(0.3) {
				hits++
			}
		}
		if Mean(xs).Contains(0) {
			mean++
		}
		if Share(hits, len(xs)).Contains(0.3) {
			share++
		}
		if Median(xs).Contains(0) {
			median++
		}
	}
	for what, n := range map[string]int{"mean": mean, "share": share, "median": median} {
		if got := float64(n) / times; got < 0.935 || got > 0.985 {
			t.Errorf("the interval of the %s holds the truth in %.1f %% of cases", what, 100*got)
		}
	}
}

func TestPairsSeeWhatMeansDont(t *testing.T) {
	s := draw.New(2, 1, 1)
	a, b, c := make([]float64, 20), make([]float64, 20), make([]float64, 20)
	for i := range a {
		common := 10 * s.Normal()
		a[i] = common + 0.1*s.Normal()
		b[i] = common + 0.5 + 0.1*s.Normal()
		c[i] = common + 0.1*s.Normal()
	}
	if d, v := Paired(a, b, true, 0); v != Better || !d.Contains(0.5) {
		t.Errorf("half a unit more is %v: %+v", v, d)
	}
	if _, v := Paired(a, b, false, 0); v != Worse {
		t.Errorf("where less is better it is %v", v)
	}
	if _, v := Paired(a, b, true, 1); v != Unresolved {
		t.Errorf("below what is worth it, it is %v", v)
	}
	if d, v := Paired(a, c, true, 0); v != Unresolved && math.Abs(d.Value) > 0.1 {
		t.Errorf("the same is %v: %+v", v, d)
	}
	if _, v := Paired([]float64{1}, []float64{2}, true, 0); v != Unresolved {
		t.Errorf("one pair proves %v", v)
	}
}

func TestHeaps(t *testing.T) {
	s := draw.New(3, 1, 1)
	one, two := make([]float64, 60), make([]float64, 60)
	for i := range one {
		one[i] = 50 + 5*s.Normal()
		two[i] = 40 + s.Normal()
		if i%4 != 0 {
			two[i] = s.U()
		}
	}
	if m := Heaps(one, 0); m.Two {
		t.Errorf("a normal heap is two: %+v", m)
	}
	if m := Heaps(two, 0); !m.Two || math.Abs(m.ShareOfHigh-0.25) > 0.01 || math.Abs(m.High-40) > 1 {
		t.Errorf("two heaps are %+v", m)
	}
	if m := Heaps(make([]float64, 60), 0); m.Two {
		t.Errorf("one value is two heaps: %+v", m)
	}
}

// What never came must not be left out: the policy that fails most would look best.
func TestAPairOfWhichOneNeverCameCounts(t *testing.T) {
	never := math.Inf(1)
	a, b := make([]float64, 20), slices.Repeat([]float64{never}, 20)
	for i := range a {
		a[i] = 38 + float64(i%4)
	}
	b[3], b[9], b[14] = 0, 0, 10
	if d, v := PairedMedian(a, b, false, 0); v != Worse || !math.IsInf(d.Value, 1) {
		t.Errorf("what mostly never comes is %v: %+v", v, d)
	}
	if d, v := PairedMedian(b, a, false, 0); v != Better || !math.IsInf(d.Value, -1) {
		t.Errorf("and the other way round %v: %+v", v, d)
	}
	if d, v := PairedMedian([]float64{never, never, never}, []float64{never, never, never}, false, 0); v != Unresolved || d.Value != 0 {
		t.Errorf("two that never come are %v: %+v", v, d)
	}
}

// Of many observations the interval is narrow, and around the value.
func TestIntervalsOfMany(t *testing.T) {
	s := draw.New(4, 1, 1)
	for _, n := range []int{100, 1000, 1100, 5000, 50_000} {
		xs := make([]float64, n)
		for i := range xs {
			xs[i] = s.U()
		}
		for _, p := range []float64{0.01, 0.5, 0.99} {
			i := Quantile(xs, p)
			far := 4 * math.Sqrt(p*(1-p)/float64(n))
			if n*int(100*min(p, 1-p)) < 1000 {
				continue // too few for an end on both sides
			}
			if !(i.Low <= i.Value && i.Value <= i.High && i.Low >= p-far && i.High <= p+far && i.Low < i.High) {
				t.Errorf("quantile %g of %d: %+v", p, n, i)
			}
		}
	}
}

func TestQuantilesOfFewAreOpen(t *testing.T) {
	i := Quantile([]float64{1, 2, 3, 4, 5}, 0.99)
	if !math.IsInf(i.High, 1) {
		t.Errorf("five runs bound their 99th percentile: %+v", i)
	}
}
