package gabionhttp_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gabion-go/gabion/gabionhttp"
)

// C118: 2 % of one fault, and 10 % of another where the first did not come, are 2 % and 9.8 %;
// the same seed brings the same faults, and without faults there are none.
func TestSharesOfFaults(t *testing.T) {
	const requests = 10_000
	run := func(faults string, seed uint64) (all []string, count map[string]int) {
		b, count := new(below), map[string]int{}
		f := &gabionhttp.Faults{Base: b, Header: true, Logger: quiet(), Draw: rand.New(rand.NewPCG(seed, 1)).Float64}
		for range requests {
			got := came(f.RoundTrip(asking(t, faults)))
			all = append(all, got)
			count[got]++
		}
		return all, count
	}
	first, count := run("reset; share=2%, errors; share=10%", 7)
	for what, want := range map[string]float64{"reset": 0.02, "503": 0.098} {
		got, noise := float64(count[what])/requests, 4*math.Sqrt(want*(1-want)/requests)
		if math.Abs(got-want) > noise {
			t.Errorf("%s: %.2f %% of the requests, want %.2f %%", what, 100*got, 100*want)
		}
	}
	again, _ := run("reset; share=2%, errors; share=10%", 7)
	other, _ := run("reset; share=2%, errors; share=10%", 8)
	same, differ := 0, 0
	for i := range first {
		if first[i] == again[i] {
			same++
		}
		if first[i] != other[i] {
			differ++
		}
	}
	if same != requests || differ == 0 {
		t.Errorf("%d of %d are as before with the same seed, and %d differ with another", same, requests, differ)
	}
	if _, none := run("", 7); none["200"]+none["200 unmarked"] != requests {
		t.Errorf("without faults: %v", none)
	}
}
