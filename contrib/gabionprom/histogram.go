package gabionprom

import (
	"math"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	dto "github.com/prometheus/client_model/go"
)

// bounds are the upper bounds of the classic buckets, in seconds.
var bounds = [...]float64{
	.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30,
}

// The native buckets: each is 2^(1/8) times as wide as the one before, which is schema 3.
const (
	schema     = 3
	perOctave  = 1 << schema
	firstPower = -20 // what is shorter than 2^-20 s, a microsecond, is zero
	octaves    = 37  // what is longer than 2^17 s, 36 hours, counts as that
	perBlock   = 10  // cells of an octave: the native buckets, some of them cut by a classic bound
)

// An octave is the durations between a power of two and the next. Its cells are so narrow
// that each lies in one native bucket and in one classic one. So an observation adds to
// one counter, and the two forms agree with each other at every moment.
type octave struct {
	upper   [perBlock]float64 // bounds of its cells, then infinity
	native  [perBlock]int32   // the bucket of each cell
	classic [perBlock]uint8
}

var scale = makeScale()

func makeScale() (scale [octaves]octave) {
	for i := range scale {
		o := &scale[i]
		low := math.Ldexp(1, firstPower+i)
		uppers := make([]float64, 0, perBlock)
		for s := 1; s <= perOctave; s++ {
			uppers = append(uppers, math.Ldexp(fractions[s-1], firstPower+i+1))
		}
		for _, b := range bounds {
			if low < b && b <= 2*low {
				uppers = append(uppers, b)
			}
		}
		slices.Sort(uppers)
		uppers = slices.Compact(uppers)
		for c := range o.upper {
			if c >= len(uppers) {
				o.upper[c] = math.Inf(1)
				continue
			}
			o.upper[c] = uppers[c]
			within, _ := slices.BinarySearch(fractions[:], math.Ldexp(uppers[c], -(firstPower+i+1)))
			o.native[c] = int32((firstPower+i)*perOctave + within + 1)
			classic, _ := slices.BinarySearch(bounds[:], uppers[c])
			o.classic[c] = uint8(classic)
		}
	}
	return scale
}

// fractions are the bounds of native buckets between 1/2 and 1, to the last bit those of
// client_golang.
var fractions = [perOctave]float64{
	0.5452538663326288, 0.5946035575013605, 0.6484197773255048, 0.7071067811865475,
	0.7711054127039704, 0.8408964152537144, 0.9170040432046711, 1,
}

// A histogram counts durations, in classic buckets and in native ones. The zero value is
// ready. It is safe for concurrent use.
type histogram struct {
	blocks    [octaves]atomic.Pointer[block] // made when needed: durations of one kind fill few octaves
	zero      atomic.Uint64
	nanos     atomic.Int64 // the sum, less than wrap but for a moment
	wraps     atomic.Uint64
	exemplars atomic.Pointer[exemplars]
}

// longest is what a longer duration adds to the sum. It is 36 years, so nobody will miss the rest.
const longest = 1 << 60

// wrap is when the sum starts anew: deadlines of 15 s, ten thousand times a second, would
// overflow it within a day.
const wrap = 1 << 62

type block [perBlock]atomic.Uint64

// cell finds where a duration counts. Both are zero for one that is too short to tell.
func cell(d time.Duration) (octave, cell int, ok bool) {
	v := d.Seconds()
	// One less, so that a power of two belongs to the octave that it ends.
	octave = int((math.Float64bits(v)-1)>>52) - 1023 - firstPower
	if d <= 0 || octave < 0 {
		return 0, 0, false
	}
	if octave >= octaves {
		octave, v = octaves-1, math.Ldexp(1, firstPower+octaves)
	}
	for _, u := range &scale[octave].upper {
		if u >= v {
			break
		}
		cell++
	}
	return octave, cell, true
}

func (h *histogram) observe(d time.Duration) {
	if add := min(int64(d), longest); add > 0 {
		if sum := h.nanos.Add(add); sum >= wrap && sum-add < wrap { // this one, and no other, passed it
			h.wraps.Add(1)
			h.nanos.Add(-wrap)
		}
	}
	o, c, ok := cell(d)
	if !ok {
		h.zero.Add(1)
		return
	}
	b := h.blocks[o].Load()
	if b == nil {
		h.blocks[o].CompareAndSwap(nil, new(block))
		b = h.blocks[o].Load()
	}
	b[c].Add(1)
}

// write fills in both forms.
func (h *histogram) write(out *dto.Histogram) {
	var w nativeWriter
	var classic [len(bounds) + 1]uint64
	sum := h.sum()
	zero := h.zero.Load()
	count := zero
	classic[0] = zero
	for o := range h.blocks {
		b := h.blocks[o].Load()
		if b == nil {
			continue
		}
		for c := range b {
			if n := b[c].Load(); n > 0 {
				count += n
				classic[scale[o].classic[c]] += n
				w.add(scale[o].native[c], n)
			}
		}
	}
	w.flush()
	threshold, sch := math.Ldexp(1, firstPower), int32(schema)
	out.SampleCount, out.SampleSum = &count, &sum
	out.Schema, out.ZeroThreshold, out.ZeroCount = &sch, &threshold, &zero
	out.PositiveSpan, out.PositiveDelta = w.spans, w.deltas
	out.Bucket = classicBuckets(bounds[:], classic[:])
	h.exemplars.Load().write(out)
}

// sum returns how long all durations were together, in seconds.
func (h *histogram) sum() float64 {
	for {
		before, nanos := h.wraps.Load(), h.nanos.Load()
		if nanos < wrap && h.wraps.Load() == before {
			return float64(before)*wrap/1e9 + float64(nanos)/1e9
		}
		runtime.Gosched() // between the two steps of an observation
	}
}

// count returns how many durations were observed.
func (h *histogram) count() (n uint64) {
	n = h.zero.Load()
	for o := range h.blocks {
		if b := h.blocks[o].Load(); b != nil {
			for c := range b {
				n += b[c].Load()
			}
		}
	}
	return n
}

// classicBuckets adds up what is in each bucket alone. The last, without a bound, is left
// out: Prometheus takes it from the count.
func classicBuckets(bounds []float64, alone []uint64) []*dto.Bucket {
	buckets := make([]*dto.Bucket, len(bounds))
	memory := make([]struct {
		dto.Bucket
		n uint64
	}, len(bounds))
	sum := uint64(0)
	for i := range bounds {
		m := &memory[i]
		sum += alone[i]
		m.n = sum
		m.UpperBound, m.CumulativeCount = &bounds[i], &m.n
		buckets[i] = &m.Bucket
	}
	return buckets
}

// nativeWriter writes native buckets in ascending order: runs of neighbours, and how
// much each bucket has more than the one before.
type nativeWriter struct {
	spans      []*dto.BucketSpan
	deltas     []int64
	at         int32 // the bucket whose count is being added up
	n          uint64
	last       int64 // count of the bucket before
	next       int32 // the bucket after the last one written
	begun, any bool
}

func (w *nativeWriter) add(bucket int32, n uint64) {
	if w.begun && bucket != w.at {
		w.flush()
	}
	w.at, w.begun = bucket, true
	w.n += n
}

func (w *nativeWriter) flush() {
	if !w.begun {
		return
	}
	offset := w.at - w.next
	if !w.any {
		offset = w.at
	}
	if !w.any || offset > 0 {
		w.spans = append(w.spans, &dto.BucketSpan{Offset: &offset, Length: new(uint32)})
	}
	*w.spans[len(w.spans)-1].Length++
	w.deltas = append(w.deltas, int64(w.n)-w.last)
	w.last, w.next, w.any = int64(w.n), w.at+1, true
	w.n, w.begun = 0, false
}
