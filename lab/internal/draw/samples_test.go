package draw

import (
	"testing"
	"time"
)

func TestSamplesAreDrawnAsTheyWere(t *testing.T) {
	ms := func(xs ...float64) (made []time.Duration) {
		for _, x := range xs {
			made = append(made, time.Duration(x*1e6))
		}
		return made
	}
	d := Samples(ms(10, 20, 30, 40, 110))
	for u, want := range map[float64]float64{0: 10, 0.25: 20, 0.375: 25, 0.5: 30, 0.75: 40, 0.875: 75} {
		if got := d.between(u); got != time.Duration(want*1e6) {
			t.Errorf("the quantile %g is %v, want %g ms", u, got, want)
		}
	}
	if got := d.Mean(); got != 37500*time.Microsecond { // a straight line between quartiles
		t.Errorf("the mean is %v", got)
	}
	one, none := Samples(ms(7)), Samples(nil)
	var s Stream
	if one.Draw(&s) != 7*time.Millisecond || none.Draw(&s) != 0 {
		t.Error("one sample is always drawn, and none is no time")
	}
}

// Of a million, ten thousand are kept, and nothing that a percentile would show is lost.
func TestManySamplesAreKeptSmall(t *testing.T) {
	const n = 1_000_000
	sorted := make([]time.Duration, n)
	for i := range sorted {
		sorted[i] = time.Duration(i) * time.Microsecond
	}
	sorted[n-1] = time.Hour
	d := Samples(sorted)
	if len(d.points) > mostPoints+mostTail+1 || d.points[0].At != 0 || d.points[len(d.points)-1].At != time.Hour {
		t.Fatalf("%d points from %v to %v", len(d.points), d.points[0].At, d.points[len(d.points)-1].At)
	}
	for _, u := range []float64{0, 0.1, 0.5, 0.9, 0.99, 0.999, 0.9999} {
		want := time.Duration(u * n * 1e3)
		if got := d.between(u); got < want-200*time.Microsecond || got > want+200*time.Microsecond {
			t.Errorf("the quantile %g is %v, want %v", u, got, want)
		}
	}
	a, b := New(1, 1, 1), New(1, 1, 1)
	for range 1000 {
		x := d.Draw(&a)
		if x != d.Draw(&b) || x < 0 || x > time.Hour {
			t.Fatalf("drew %v", x)
		}
	}
}
