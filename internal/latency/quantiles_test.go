package latency

import (
	"math/rand/v2"
	"testing"
	"time"
)

func TestSeveralQuantilesAreThoseOfOneByOne(t *testing.T) {
	qs := []float64{0, 0.01, 0.5, 0.5, 0.95, 0.99, 1}
	for _, samples := range []int{0, 1, 2, 3, 99, 100, 5000} {
		s := New(time.Minute, 4)
		rnd := rand.New(rand.NewPCG(1, uint64(samples)))
		for i := range samples {
			s.Record(0, uint32(i), time.Duration(rnd.ExpFloat64()*1e7))
		}
		ds := make([]time.Duration, len(qs))
		n := s.Quantiles(0, qs, ds)
		for i, q := range qs {
			want, all := s.Quantile(0, q)
			if ds[i] != want || n != all {
				t.Errorf("%v of %d: %s of %d, want %s of %d", q, samples, ds[i], n, want, all)
			}
		}
	}
}
