package anchor

import (
	"context"
	"fmt"
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

func TestVegasSteps(t *testing.T) {
	for _, c := range []struct {
		fact        string
		limit, wait float64 // round trip to the shortest one
		want        float64
	}{
		{"no queue grows by beta", 20, 1, 26},
		{"a queue of the threshold too", 50, 50.0 / 49.0001, 56},
		{"below alpha grows by a step", 50, 50.0 / 48.0001, 51},
		{"between alpha and beta stays", 50, 50.0 / 45.5, 50},
		{"above beta shrinks by a step", 50, 50.0 / 40, 49},
		{"from 100 on a step is two", 100, 100.0 / 80, 98},
		{"and beta is twelve", 200, 1, 212},
		{"nor above the most", 999, 1, 1000},
	} {
		l := vegas{limit: c.limit, most: 1000, shortest: 10}
		if got := l.learn(10 * c.wait); got != c.want {
			t.Errorf("%s: %v, want %v", c.fact, got, c.want)
		}
	}
}

func TestVegasMeasuresTheShortestRoundTripAnew(t *testing.T) {
	l := vegas{limit: 20, most: 1000, probe: 30}
	l.learn(10)
	n := 1
	for ; l.shortest == 10; n++ {
		l.limit = 20
		l.learn(13)
	}
	if n < 300 || n > 601 || l.shortest != 13 {
		t.Errorf("after %d samples, a shortest round trip of %v", n, l.shortest)
	}
}

func TestGradientSteps(t *testing.T) {
	l := gradient{limit: 100, least: 20, most: 200, tolerance: 1.5}
	if got := l.learn(10); got != 100.8 {
		t.Errorf("without a queue: %v, want a fifth of 4 more", got)
	}
	for range 9 {
		l.learn(10)
	}
	l.limit = 100
	if got, want := l.learn(1000), 100*0.8+(100*0.5+4)*0.2; math.Abs(got-want) > 1e-9 {
		t.Errorf("after a very long one: %v, want %v", got, want)
	}
	if want := 10 + 990*2.0/601; math.Abs(l.long-want) > 1e-9 {
		t.Errorf("average %v, want %v", l.long, want)
	}
	l.long = 100
	if l.learn(10); l.long > 95 {
		t.Errorf("an average of ten times the round trip is still %v", l.long)
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

func ExampleRun() {
	figures, err := Run(context.Background(), "layers", map[string]string{"tries": "4", "layers": "3", "seconds": "1"})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, f := range figures {
		fmt.Println(f.Name, f.Measured)
	}
	// Output: amplification 64
}

func ExampleAnchors() {
	for _, a := range Anchors()[:2] {
		fmt.Println(a.Name, a.Settings[0].Key)
	}
	// Output:
	// aws-occ clients
	// brooker-retry runs
}

// The whole table of the original: 19 numbers of clients, five strategies, 100 runs.
func BenchmarkAWSTable(b *testing.B) {
	for b.Loop() {
		for clients := 10; clients <= 190; clients += 10 {
			for _, strategy := range []string{"none", "exponential", "equal", "full", "decorrelated"} {
				if _, err := Run(b.Context(), "aws-occ", map[string]string{"clients": fmt.Sprint(clients), "strategy": strategy}); err != nil {
					b.Fatal(err)
				}
			}
		}
	}
}
