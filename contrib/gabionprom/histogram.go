package gabionprom

import (
	"math"
	"math/bits"
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
	lastPower  = 17  // what is longer than 2^17 s, 36 hours, counts as that
)

// Durations count in cells. A cell is so narrow that it lies in one native bucket and in
// one classic one. So an observation adds to one counter, and the two forms agree with
// each other at every moment.
type scale struct {
	upper   []time.Duration // bounds of the cells, ascending; the last has none
	native  []int32         // the bucket of each cell; the first cell is the zero bucket
	classic []uint8
	start   [65 * 8]uint16 // where to look first, by the highest bits of a duration
}

var cells = makeScale()

// fractions are the bounds of native buckets between 1/2 and 1, to the last bit those of
// client_golang.
var fractions = [perOctave]float64{
	0.5452538663326288, 0.5946035575013605, 0.6484197773255048, 0.7071067811865475,
	0.7711054127039704, 0.8408964152537144, 0.9170040432046711, 1,
}

func makeScale() *scale {
	uppers := slices.Clone(bounds[:])
	uppers = append(uppers, math.Ldexp(1, firstPower))
	for power := firstPower; power < lastPower; power++ {
		for _, f := range fractions {
			uppers = append(uppers, math.Ldexp(f, power+1))
		}
	}
	slices.Sort(uppers)
	uppers = slices.Compact(uppers)
	s := new(scale)
	for _, u := range uppers {
		classic, _ := slices.BinarySearch(bounds[:], u)
		s.upper = append(s.upper, atMost(u))
		s.native = append(s.native, nativeBucket(u))
		s.classic = append(s.classic, uint8(classic))
	}
	s.upper[len(uppers)-1] = math.MaxInt64
	for i := range s.start {
		least := time.Duration(0) // of the durations that look here first
		if n := i / 8; n >= 4 && n < 64 {
			least = time.Duration(8+i%8) << (n - 4)
		}
		at, _ := slices.BinarySearch(s.upper, least)
		s.start[i] = uint16(at)
	}
	return s
}

// nativeBucket is the bucket that counts a duration.
func nativeBucket(seconds float64) int32 {
	fraction, power := math.Frexp(seconds) // at least 1/2, and less than 1
	if fraction == .5 {                    // it ends the octave before
		fraction, power = 1, power-1
	}
	within, _ := slices.BinarySearch(fractions[:], fraction)
	return int32((power-1)*perOctave + within + 1)
}

// atMost is the longest duration of no more than the given seconds.
func atMost(seconds float64) time.Duration {
	d := time.Duration(seconds * 1e9)
	for d.Seconds() > seconds {
		d--
	}
	for (d + 1).Seconds() <= seconds {
		d++
	}
	return d
}

// find returns the cell of a duration that is not negative.
func (s *scale) find(d time.Duration) int {
	n := bits.Len64(uint64(d))
	i := n * 8
	if n >= 4 {
		i += int(d>>(n-4)) & 7
	}
	cell := int(s.start[i])
	for s.upper[cell] < d {
		cell++
	}
	return cell
}

// There are as many blocks as the cells need; a test compares.
const (
	numBlocks = 39
	blockSize = 8
)

// A histogram counts durations, in classic buckets and in native ones. The zero value is
// ready. It is safe for concurrent use.
type histogram struct {
	blocks    [numBlocks]atomic.Pointer[block] // made when needed: durations of one kind lie near each other
	nanos     atomic.Int64                     // the sum, less than wrap but for a moment
	wraps     atomic.Uint64
	exemplars atomic.Pointer[exemplars]
}

type block [blockSize]atomic.Uint64

// longest is what a longer duration adds to the sum. It is 36 years: the rest does not matter.
const longest = 1 << 60

// wrap is when the sum starts anew: deadlines of 15 s, ten thousand times a second, would
// overflow it within a day.
const wrap = 1 << 62

func (h *histogram) observe(d time.Duration) {
	if add := min(int64(d), longest); add > 0 {
		if sum := h.nanos.Add(add); sum >= wrap && sum-add < wrap { // this one, and no other, passed it
			h.wraps.Add(1)
			h.nanos.Add(-wrap)
		}
	}
	cell := cells.find(max(d, 0))
	b := h.blocks[cell/blockSize].Load()
	if b == nil {
		h.blocks[cell/blockSize].CompareAndSwap(nil, new(block))
		b = h.blocks[cell/blockSize].Load()
	}
	b[cell%blockSize].Add(1)
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

// count returns how many durations were observed. That of no histogram is zero.
func (h *histogram) count() (n uint64) {
	if h == nil {
		return 0
	}
	for i := range h.blocks {
		if b := h.blocks[i].Load(); b != nil {
			for c := range b {
				n += b[c].Load()
			}
		}
	}
	return n
}

// addBlock adds up a block of histograms. Nil ones have counted nothing. It reports
// whether there is anything.
func addBlock(all []*histogram, i int) (sum [blockSize]uint64, any bool) {
	for _, h := range all {
		if h == nil {
			continue
		}
		if b := h.blocks[i].Load(); b != nil {
			any = true
			for c := range b {
				sum[c] += b[c].Load()
			}
		}
	}
	return sum, any
}

// write fills in both forms of histograms, as if they were one.
func write(out *dto.Histogram, all []*histogram) {
	var w nativeWriter
	var classic [len(bounds) + 1]uint64
	zero, count, sum := uint64(0), uint64(0), 0.0
	for i := range numBlocks {
		block, any := addBlock(all, i)
		if !any {
			continue
		}
		for c, n := range block {
			at := i*blockSize + c
			switch {
			case n == 0:
				continue
			case at == 0:
				zero = n
			default:
				w.add(cells.native[at], n)
			}
			count += n
			classic[cells.classic[at]] += n
		}
	}
	w.flush()
	out.Bucket = classicBuckets(bounds[:], classic[:])
	out.SampleCount, out.SampleSum, out.ZeroCount = &count, &sum, &zero
	out.Schema, out.ZeroThreshold = &schemaNumber, &zeroThreshold
	out.PositiveSpan, out.PositiveDelta = w.spans, w.deltas
	for _, h := range all {
		if h != nil {
			sum += h.sum()
			h.exemplars.Load().write(out)
		}
	}
}

// What every histogram says of itself.
var (
	schemaNumber  = int32(schema)
	zeroThreshold = math.Ldexp(1, firstPower)
)

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
