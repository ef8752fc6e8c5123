package anchor

import (
	"math"
	"testing"
	"time"

	"github.com/gabion-go/gabion/internal/clock"
)

func TestTruncatedPoisson(t *testing.T) {
	for _, c := range []struct {
		mean float64
		most int
	}{{0.5, 1}, {10, 3}, {20, 10}, {100, 50}, {3, 100}} {
		want, term := 0.0, math.Exp(-c.mean)
		for n := range 1000 {
			want += term * float64(min(n, c.most))
			term *= c.mean / float64(n+1)
		}
		if got := truncated(c.mean, c.most); math.Abs(got-want) > 1e-9 {
			t.Errorf("E[min(Poisson(%v), %d)] is %v, want %v", c.mean, c.most, got, want)
		}
	}
}

func TestFixedPoint(t *testing.T) {
	for _, c := range []struct {
		k      float64
		accept int
		want   float64
	}{{1.5, 10, 14.77}, {2, 10, 19.98}, {2, 1, 1.594}, {2, 50, 100}, {1.1, 10, 9.136}} {
		if got := fixedPoint(c.k, c.accept, 100); math.Abs(got-c.want) > 0.002*c.want {
			t.Errorf("k=%v accept=%d sends %v, want %v", c.k, c.accept, got, c.want)
		}
	}
}

func TestAcceptanceIsPerSecondOfTheClock(t *testing.T) {
	a := acceptance{most: 2}
	for _, c := range []struct {
		at   time.Duration
		want bool
	}{{100, true}, {200, true}, {300, false}, {999, false}, {1000, true}, {1999, true}, {1999, false}, {5000, true}} {
		if got := a.take(clock.Instant(c.at * time.Millisecond)); got != c.want {
			t.Errorf("at %d ms: %v", c.at, got)
		}
	}
}

func TestDistanceSeesAnotherDistribution(t *testing.T) {
	var even, squeezed []float64
	for i := range 1000 {
		even = append(even, float64(i)/10)
		squeezed = append(squeezed, float64(i)/20)
	}
	if d := distance(even, uniform(0, 100)); d > 0.005 {
		t.Errorf("a uniform sample is %v off", d)
	}
	if d := distance(squeezed, uniform(0, 100)); d < 0.49 {
		t.Errorf("one of half the width is %v off", d)
	}
	if d := distance([]float64{5, 5}, uniform(5, 5)); d != 0 {
		t.Errorf("a constant is %v off", d)
	}
	if d := distance([]float64{5, 6}, uniform(5, 5)); d != 0.5 {
		t.Errorf("half a constant is %v off", d)
	}
}
