package latency

import (
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gabion-go/gabion/internal/chance"
	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/internal/testrace"
)

const (
	ms = time.Millisecond
	s  = clock.Instant(time.Second)
)

// near reports whether got is within the promised error of want.
func near(got, want time.Duration) bool {
	return math.Abs(float64(got-want)) <= float64(want)*0.016
}

func TestQuantilesAreWithinTheirError(t *testing.T) {
	for _, shape := range []struct {
		name string
		draw func(u float64) time.Duration
	}{
		{"one value", func(float64) time.Duration { return 3 * ms }},
		{"even", func(u float64) time.Duration { return 1000 + time.Duration(u*float64(time.Second)) }},
		{"long tail", func(u float64) time.Duration { return time.Duration(float64(ms) / (1.0001 - u)) }},
		{"the whole range", func(u float64) time.Duration { return time.Duration(math.Exp2(10.1 + 29.8*u)) }},
	} {
		sketch := New(time.Minute, 4)
		exact := make([]time.Duration, 5001)
		for i := range exact {
			exact[i] = max(shape.draw(chance.U(1, uint64(i), 0, 0)), 1024)
			sketch.Record(0, uint32(i), exact[i])
		}
		slices.Sort(exact)
		for _, q := range []float64{0, 0.001, 0.5, 0.9, 0.95, 0.99, 0.999, 1} {
			got, n := sketch.Quantile(0, q)
			want := exact[max(int(math.Ceil(q*float64(len(exact)))), 1)-1]
			if !near(got, want) || n != int64(len(exact)) {
				t.Errorf("%s: %v of %d is %v, want %v ± 1.6 %%", shape.name, q, n, got, want)
			}
		}
	}
}

func TestSketchSlides(t *testing.T) {
	for fact, c := range map[string]struct {
		records, at []clock.Instant
		want        []int64
	}{
		"a new sketch knows nothing":                    {nil, []clock.Instant{0}, []int64{0}},
		"a record lives between half a span and a span": {[]clock.Instant{9 * s}, []clock.Instant{9 * s, 14 * s, 15*s - 1, 15 * s}, []int64{1, 1, 1, 0}},
		"one at the start of a half lives for a span":   {[]clock.Instant{5 * s}, []clock.Instant{15*s - 1, 15 * s}, []int64{1, 0}},
		"halves are forgotten one by one":               {[]clock.Instant{0, 5 * s}, []clock.Instant{5 * s, 10 * s, 15 * s}, []int64{2, 1, 0}},
		"a half is emptied for reuse":                   {[]clock.Instant{0, 1, 2, 10 * s}, []clock.Instant{10 * s}, []int64{1}},
		"an idle year is forgotten":                     {[]clock.Instant{0, 31_536_000 * s}, []clock.Instant{31_536_000 * s}, []int64{1}},
		"time before the origin is time":                {[]clock.Instant{-1, -5 * s, -6 * s}, []clock.Instant{-1, 0, 5 * s}, []int64{3, 2, 0}},
		"C11 an hour back counts as now, once":          {[]clock.Instant{3600 * s, 0, 5 * s}, []clock.Instant{0, 3600 * s}, []int64{2, 2}},
	} {
		sketch := New(10*time.Second, 1)
		for _, at := range c.records {
			sketch.Record(at, 0, ms)
		}
		for i, at := range c.at {
			if _, n := sketch.Quantile(at, 0.5); n != c.want[i] {
				t.Errorf("%s: at %d it knows %d, want %d", fact, at, n, c.want[i])
			}
		}
	}
}

func TestRankIsTheNearest(t *testing.T) {
	for _, c := range []struct {
		q    float64
		n    int64
		want int64
	}{
		{0.5, 3, 2}, {0.5, 4, 2}, {0.95, 100, 95}, {0.07, 100, 7}, {0.29, 100, 29}, {0.999, 1000, 999},
		{0, 10, 1}, {1, 10, 10}, {-1, 10, 1}, {7, 10, 10}, {math.NaN(), 10, 1}, {math.Inf(1), 10, 10}, {0.5, 0, 1},
		{1, math.MaxInt64, math.MaxInt64}, {0.5, math.MaxInt64, 1 << 62},
	} {
		if got := rank(c.q, c.n); got != c.want {
			t.Errorf("%v of %d is number %d, want %d", c.q, c.n, got, c.want)
		}
	}
}

func TestBucketsMeetWithoutGapsAndOverlaps(t *testing.T) {
	for _, c := range []struct {
		d    time.Duration
		want int
	}{
		{math.MinInt64, 0}, {-1, 0}, {0, 0}, {1024, 0}, {1055, 0}, {1056, 1}, {2047, 31}, {2048, 32},
		{1<<40 - 1, cells - 1}, {1 << 40, cells - 1}, {math.MaxInt64, cells - 1},
	} {
		if got := bucketOf(c.d); got != c.want {
			t.Errorf("%v is in %d, want %d", int64(c.d), got, c.want)
		}
	}
	for i := range cells {
		if got := bucketOf(durationOf(i)); got != i {
			t.Errorf("the middle of %d is in %d", i, got)
		}
	}
}

func TestRecentIsAtMostAThirtySecondOfTheSpanOld(t *testing.T) {
	sketch := New(32*time.Second, 1)
	read := func(at clock.Instant, q float64, want int64) {
		t.Helper()
		if _, n := sketch.Recent(at, q); n != want {
			t.Fatalf("at %d it knows %d, want %d", at, n, want)
		}
	}
	read(0, 0.5, 0)
	sketch.Record(0, 0, ms)
	read(s-1, 0.5, 0) // remembered
	read(s, 0.5, 1)   // looked up
	sketch.Record(s, 0, ms)
	read(s, 0.5, 1)
	read(s, 0.9, 2) // another question
}

func TestAFullBucketStaysFull(t *testing.T) {
	sketch := New(time.Minute, 1)
	sketch.Record(0, 0, ms)
	bucket := bucketOf(ms)
	sketch.of(0, 0)[bucket>>subBits].Load()[bucket&(1<<subBits-1)].Store(math.MaxUint32)
	sketch.Record(0, 0, ms)
	if _, n := sketch.Quantile(0, 0.5); n != math.MaxUint32 {
		t.Errorf("%d", n)
	}
}

func TestGoroutinesLoseNothingWithinAHalf(t *testing.T) {
	sketch := New(time.Minute, runtime.GOMAXPROCS(0))
	sketch.Record(0, 0, ms)
	var all sync.WaitGroup
	for g := range uint32(4) {
		all.Go(func() {
			for i := range 10_000 {
				sketch.Record(clock.Instant(i), g, time.Duration(i)*ms)
				if i%1000 == 0 {
					sketch.Recent(clock.Instant(i), 0.95)
				}
			}
		})
	}
	all.Wait()
	if _, n := sketch.Quantile(0, 0.5); n != 40_001 {
		t.Errorf("%d of 40001 counted", n)
	}
}

// TestGoroutinesTurnTogether is for the race detector, and for counts that would
// outlive their half.
func TestGoroutinesTurnTogether(t *testing.T) {
	sketch := New(200, 2)
	var tick atomic.Int64
	var all sync.WaitGroup
	for g := range uint32(4) {
		all.Go(func() {
			for range 1500 {
				now := clock.Instant(tick.Add(1))
				sketch.Record(now, g, ms)
				sketch.Recent(now, 0.95)
			}
		})
	}
	all.Wait()
	// Each goroutine may have slept between its tick and its record once.
	if d, n := sketch.Quantile(clock.Instant(tick.Load()), 0.5); n > 200+4 || n > 0 && !near(d, ms) {
		t.Errorf("%v of %d in the last 200 ns", d, n)
	}
}

func TestNothingIsAllocated(t *testing.T) {
	sketch := New(time.Second, 2)
	now := clock.Instant(0)
	if n := testing.AllocsPerRun(1000, func() {
		now += clock.Instant(ms)
		sketch.Record(now, 1, ms)
		sketch.Recent(now, 0.95)
		sketch.Quantile(now, 0.95)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// FuzzSketch compares a sketch with the full list of what was recorded.
func FuzzSketch(f *testing.F) {
	f.Add([]byte{1, 2, 3, 200, 90, 7, 0, 0, 0})
	f.Fuzz(sameAsList)
}

func TestRandomScriptsAgreeWithAList(t *testing.T) {
	testrace.Serial(t)
	for seed := range uint64(100) {
		script := make([]byte, 300)
		for i := range script {
			script[i] = byte(chance.Bits(seed, uint64(i), 0, 0) >> 32)
		}
		sameAsList(t, script)
	}
}

func sameAsList(t *testing.T, script []byte) {
	type record struct {
		turn int64
		d    time.Duration
	}
	const half = 500
	sketch := New(2*half, 2)
	var list []record
	now := clock.Instant(-5000)
	for i := 0; i+2 < min(len(script), 300); i += 3 {
		now += clock.Instant(script[i])
		turn := int64(math.Floor(float64(now) / half))
		d := time.Duration(script[i+1]) << (script[i+2] % 34)
		sketch.Record(now, uint32(i), d)
		list = append(list, record{turn, min(max(d, 1024), 1<<40-1)})

		var alive []time.Duration
		for _, r := range list {
			if r.turn >= turn-1 {
				alive = append(alive, r.d)
			}
		}
		slices.Sort(alive)
		q := float64(script[i+2]) / 255
		got, n := sketch.Quantile(now, q)
		want := alive[rank(q, int64(len(alive)))-1]
		if n != int64(len(alive)) || !near(got, want) {
			t.Fatalf("step %d: %v of %d is %v, want %v of %d", i/3, q, n, got, want, len(alive))
		}
	}
}
