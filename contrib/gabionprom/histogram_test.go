package gabionprom

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/proto"
)

// reference is client_golang's own histogram with the same buckets.
func reference() prometheus.Histogram {
	return prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "x", Buckets: bounds[:], NativeHistogramBucketFactor: 1.1, NativeHistogramZeroThreshold: math.Ldexp(1, firstPower),
	})
}

// counts are native buckets by number.
func counts(h *dto.Histogram) map[int32]int64 {
	counts := map[int32]int64{}
	at, n, delta := int32(0), int64(0), 0
	for _, s := range h.PositiveSpan {
		at += s.GetOffset()
		for range s.GetLength() {
			n += h.PositiveDelta[delta]
			if n > 0 {
				counts[at] = n
			}
			delta++
			at++
		}
	}
	return counts
}

// edges are durations on the bounds of buckets, and next to them.
func edges() (all []time.Duration) {
	for _, b := range bounds {
		d := time.Duration(math.Round(b * 1e9))
		all = append(all, d-1, d, d+1)
	}
	for p := firstPower; p < lastPower; p++ {
		d := time.Duration(math.Ldexp(1e9, p))
		all = append(all, d-1, d, d+1)
	}
	return append(all, -1, 0, 1, 999, 1000, time.Hour)
}

func TestHistogramCountsAsClientGolangDoes(t *testing.T) {
	var h histogram
	ref := reference()
	r := rand.New(rand.NewPCG(1, 2))
	observe := func(d time.Duration) {
		h.observe(d)
		ref.Observe(max(d, 0).Seconds())
	}
	for _, d := range edges() {
		observe(d)
	}
	for range 20_000 {
		observe(time.Duration(math.Exp(r.Float64()*25) * 1000))
	}
	var got dto.Histogram
	var want dto.Metric
	write(&got, []*histogram{&h, nil})
	if err := ref.Write(&want); err != nil {
		t.Fatal(err)
	}
	w := want.Histogram
	if got.GetSampleCount() != w.GetSampleCount() || math.Abs(got.GetSampleSum()-w.GetSampleSum()) > 1e-6*w.GetSampleSum() ||
		got.GetZeroCount() != w.GetZeroCount() || got.GetSchema() != w.GetSchema() || got.GetZeroThreshold() != w.GetZeroThreshold() || h.count() != w.GetSampleCount() {
		t.Errorf("got %v %v %v %v, want %v %v %v %v", got.GetSampleCount(), got.GetSampleSum(), got.GetZeroCount(), got.GetSchema(),
			w.GetSampleCount(), w.GetSampleSum(), w.GetZeroCount(), w.GetSchema())
	}
	for i := range w.Bucket {
		if !proto.Equal(got.Bucket[i], w.Bucket[i]) {
			t.Errorf("classic: %v, want %v", got.Bucket[i], w.Bucket[i])
		}
	}
	if got, want := fmt.Sprint(counts(&got)), fmt.Sprint(counts(w)); got != want {
		t.Errorf("native:\n%s, want\n%s", got, want)
	}
}

func TestCellsFit(t *testing.T) {
	if n := len(cells.upper); n > numBlocks*blockSize || n <= (numBlocks-1)*blockSize {
		t.Errorf("%d cells in %d blocks", n, numBlocks)
	}
}

func TestHistogramOfVeryLongDurations(t *testing.T) {
	for _, d := range []time.Duration{100 * time.Hour, longest} {
		var h histogram
		h.observe(d)
		var got dto.Histogram
		write(&got, []*histogram{&h, nil})
		if got.GetSampleCount() != 1 || got.GetSampleSum() != d.Seconds() || got.Bucket[len(bounds)-1].GetCumulativeCount() != 0 || len(counts(&got)) != 1 {
			t.Errorf("%v: %v", d, &got)
		}
	}
}

func TestTheSumDoesNotOverflow(t *testing.T) {
	var h histogram
	const years = 20 * 365 * 24 * time.Hour
	for range 40 {
		h.observe(years)
	}
	if got, want := h.sum(), 40*years.Seconds(); math.Abs(got-want) > 1 {
		t.Errorf("sum %v, want %v", got, want)
	}
	if h.wraps.Load() == 0 {
		t.Error("it did not come to an overflow")
	}
}

func TestBothFormsAgreeWhileOthersObserve(t *testing.T) {
	var h histogram
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for i := range 20_000 {
				h.observe(time.Duration(i) * 50 * time.Microsecond)
			}
		})
	}
	for range 200 {
		var got dto.Histogram
		write(&got, []*histogram{&h, nil})
		native := got.GetZeroCount()
		for _, n := range counts(&got) {
			native += uint64(n)
		}
		if native != got.GetSampleCount() || got.Bucket[len(bounds)-1].GetCumulativeCount() > got.GetSampleCount() {
			t.Fatalf("%d in native buckets, %d in all", native, got.GetSampleCount())
		}
	}
	all.Wait()
	if h.count() != 80_000 {
		t.Errorf("counted %d", h.count())
	}
}
