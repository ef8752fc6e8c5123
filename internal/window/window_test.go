package window

import (
	"math"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/gabion-go/gabion/internal/clock"
)

const second = clock.Instant(time.Second)

func TestSum(t *testing.T) {
	type add struct {
		at                    clock.Instant
		calls, failures, slow uint32
	}
	for _, c := range []struct {
		name string
		adds []add
		read clock.Instant
		want Counts
	}{
		{"an empty window holds nothing", nil, 0, Counts{}},
		{"all three are counted", []add{{0, 1, 1, 1}, {1, 2, 1, 0}}, 2, Counts{3, 2, 1}},
		{"a bucket lives for the whole span", []add{{0, 1, 0, 0}}, 10*second - 1, Counts{Calls: 1}},
		{"C10: a bucket is forgotten at the age of the span", []add{{0, 1, 0, 0}}, 10 * second, Counts{}},
		{"C8: after an idle year only the new call counts", []add{{0, 9, 9, 9}, {3e7 * second, 1, 0, 0}}, 3e7 * second, Counts{Calls: 1}},
		{"T11: reading after an idle year finds nothing", []add{{0, 9, 9, 9}}, 3e7 * second, Counts{}},
		{"C11: an hour back counts as now", []add{{7200 * second, 1, 1, 0}, {3600 * second, 1, 0, 0}}, 7200 * second, Counts{2, 1, 0}},
		{"C11: reading an hour back finds what is there", []add{{7200 * second, 1, 1, 0}}, 3600 * second, Counts{1, 1, 0}},
		{"C11: an hour forward is an empty window", []add{{0, 1, 1, 0}}, 3600 * second, Counts{}},
		{"-8 is a fine instant", []add{{-8, 1, 0, 0}, {8, 1, 0, 0}}, 8, Counts{Calls: 2}},
		{"the bucket before the origin is its own", []add{{-8, 1, 0, 0}, {8, 1, 0, 0}}, 9 * second, Counts{Calls: 1}},
		{"the ends of time are fine", []add{{math.MinInt64, 1, 0, 0}, {clock.Never, 1, 0, 0}, {clock.Never, 1, 0, 0}}, clock.Never, Counts{Calls: 2}},
	} {
		w, e := Make(10*time.Second, 10), MakeElastic(10*time.Second, 10)
		e.Grow(4)
		for i, a := range c.adds {
			w.Add(a.at, a.calls, a.failures, a.slow)
			for n := range a.calls {
				e.Add(a.at, uint32(i)+n, n < a.failures, n < a.slow)
			}
		}
		if got := w.Sum(c.read); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
		if got := e.Sum(c.read); got != c.want {
			t.Errorf("%s, with shards: %+v, want %+v", c.name, got, c.want)
		}
	}
}

// C10: one call a second for ten seconds.
func TestOneCallASecond(t *testing.T) {
	w := Make(10*time.Second, 10)
	for at := range clock.Instant(10) {
		w.Add(at*second, 1, 0, 0)
	}
	for read, want := range map[clock.Instant]int64{9: 10} {
		if got := w.Sum(read * second).Calls; got != want {
			t.Errorf("at %d s: %d calls, want %d", read, got, want)
		}
	}
	for read := clock.Instant(10); read <= 20; read++ {
		if got, want := w.Sum(read*second).Calls, max(19-int64(read), 0); got != want {
			t.Errorf("at %d s: %d calls, want %d", read, got, want)
		}
	}
}

// C8: a turn that goes through 3·10^16 missed buckets of a nanosecond would never end.
func TestIdleYearCostsOneWindow(t *testing.T) {
	w := Make(10, 10)
	w.Add(0, 1, 1, 1)
	w.Add(math.MaxInt64/2, 1, 0, 0)
	if got := w.Sum(math.MaxInt64 / 2); got != (Counts{Calls: 1}) {
		t.Errorf("%+v, want one call", got)
	}
}

func TestFullBucketKeepsItsRatio(t *testing.T) {
	w := Make(10*time.Second, 10)
	w.Add(0, counterMax-1, 1000, 0)
	w.Add(0, 2, 2, 2)
	w.Add(0, math.MaxUint32, math.MaxUint32, math.MaxUint32)
	w.Add(0, 0, counterMax, 0)
	if got, want := w.Sum(0), (Counts{counterMax - 1, 1000, 0}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	w.Add(0, 1, 1, 1)
	w.Add(second, 2, 2, 2)
	if got, want := w.Sum(second), (Counts{counterMax + 2, 1003, 3}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestTake(t *testing.T) {
	for _, c := range []struct {
		name            string
		at, now         clock.Instant
		calls, failures uint32
		want            bool
		left            Counts
	}{
		{"takes back what is there", 0, 9 * second, 2, 1, true, Counts{1, 0, 0}},
		{"in the same bucket", 5, 6, 3, 1, true, Counts{}},
		{"not more calls than there are", 0, 0, 4, 0, false, Counts{3, 1, 0}},
		{"not more failures than there are", 0, 0, 2, 2, false, Counts{3, 1, 0}},
		{"not from a bucket that is forgotten", 0, 10 * second, 1, 0, false, Counts{}},
		{"not from another bucket", 2 * second, 3 * second, 1, 0, false, Counts{3, 1, 0}},
		{"not from the future", 4 * second, 3 * second, 1, 0, false, Counts{3, 1, 0}},
		{"not from the future's bucket by mistake for the newest", second, 0, 1, 0, false, Counts{3, 1, 0}},
		{"not from long ago", math.MinInt64, 3 * second, 1, 0, false, Counts{3, 1, 0}},
	} {
		w := Make(10*time.Second, 10)
		w.Add(0, 3, 1, 0)
		if got := w.Take(c.at, c.now, c.calls, c.failures); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
		if got := w.Sum(c.now); got != c.left {
			t.Errorf("%s: left %+v, want %+v", c.name, got, c.left)
		}
	}
}

// An adder that was overtaken between two instructions must not write into the
// bucket that took its bucket's slot.
func TestLateAdderFindsItsBucketGone(t *testing.T) {
	for name, overtake := range map[string]func(*Window){
		"by a turn":   func(w *Window) { w.Add(10*second, 1, 0, 0) },
		"by a year":   func(w *Window) { w.Sum(3e7 * second) },
		"by a reset":  func(w *Window) { w.Reset(0) },
		"by a resize": func(w *Window) { w.Resize(0, time.Minute) },
	} {
		w := Make(10*time.Second, 10)
		w.Add(0, 1, 0, 0)
		at := place(w.cur.Load())
		overtake(&w)
		if got := w.addTo(at, at.cell(), 1, 0, 0); got != gone {
			t.Errorf("overtaken %s: %v, want gone", name, got)
		}
		if w.take(at, at.cell(), 0, 0) {
			t.Errorf("overtaken %s: took from another's bucket", name)
		}
		if w.settled() != place(w.cur.Load()) {
			t.Errorf("overtaken %s: settled elsewhere", name)
		}
	}
}

// An Add that finds a turn half done, cells first, waits for the rest of it.
func TestAddWaitsForATurn(t *testing.T) {
	waitsForATurn(t, func(e *Elastic) { e.win.Add(1, 1, 0, 0) })
	waitsForATurn(t, func(e *Elastic) { e.AddGood(1, 0) })
}

func waitsForATurn(t *testing.T, add func(*Elastic)) {
	t.Helper()
	e := MakeElastic(10*time.Second, 10)
	w := &e.win
	w.Add(0, 1, 0, 0)
	before := w.cur.Load()
	w.mu.Lock()
	w.move(10*second, 10)
	turned, end := w.cur.Swap(before), w.end.Swap(int64(second)) // as an adder on another processor still sees them
	added := make(chan bool)
	go func() {
		add(&e)
		close(added)
	}()
	recycled := w.cells[place(before).cell()].Load()
	for range 10_000 {
		yield()
		if w.cells[place(before).cell()].Load() != recycled {
			t.Fatal("a call landed in a bucket that is not its own")
		}
	}
	w.cur.Store(turned)
	w.end.Store(end)
	w.mu.Unlock()
	<-added
	if got := w.Sum(19 * second); got != (Counts{Calls: 1}) {
		t.Errorf("newest bucket: %+v, want the call", got)
	}
}

func TestAddTellsThatOthersKeepAdding(t *testing.T) {
	w := Make(10*time.Second, 10)
	if w.Add(0, 1, 0, 0) || w.Add(0, 1, 0, 1) || w.Add(second, 1, 0, 1) {
		t.Error("contended, with one goroutine")
	}
	if !w.addAny(second, 1, 0, 0, manyLost) || w.addAny(second, 1, 0, 0, manyLost-1) {
		t.Error("an Add that lost manyLost races is contended, one that lost fewer is not")
	}
}

func TestResetTakesTimeAnew(t *testing.T) {
	w := Make(10*time.Second, 10)
	w.Add(100*second, 1, 1, 1)
	w.Reset(50 * second)
	w.Add(51*second, 1, 0, 0)
	if got := w.Sum(60 * second); got != (Counts{Calls: 1}) {
		t.Errorf("after a reset: %+v, want one call", got)
	}
	if got := w.Sum(61 * second); got != (Counts{}) {
		t.Errorf("a span after the reset: %+v, want nothing", got)
	}
}

func TestResize(t *testing.T) {
	w := Make(10*time.Second, 10)
	w.Add(0, 1, 1, 1)
	w.Resize(0, time.Minute)
	w.Add(0, 1, 0, 0)
	if got := w.Sum(59 * second); got != (Counts{Calls: 1}) || w.Span() != time.Minute {
		t.Errorf("%+v over %v, want one call over a minute", got, w.Span())
	}
}

func TestLayout(t *testing.T) {
	if got := unsafe.Sizeof(Window{}); got > 56 {
		t.Errorf("header of %d bytes, want at most 56", got)
	}
	for _, c := range []struct {
		make    func(time.Duration, int) Window
		span    time.Duration
		buckets int
		cells   int
		covers  time.Duration
	}{
		{Make, 10 * time.Second, 10, 20, 10 * time.Second},
		{MakePairs, 10 * time.Second, 10, 10, 10 * time.Second},
		{Make, 10, 3, 6, 12},
		{Make, 0, 0, 2, 1},
		{MakePairs, time.Second, 1000, 255, 255 * ((time.Second-1)/255 + 1)},
	} {
		w := c.make(c.span, c.buckets)
		if got := len(w.cells); got != c.cells || w.Span() != c.covers {
			t.Errorf("%d cells over %v, want %d over %v", got, w.Span(), c.cells, c.covers)
		}
	}
	if huge := Make(math.MaxInt64, 10); huge.Span() <= 0 {
		t.Errorf("the longest span became %v", huge.Span())
	}
}

func TestNothingIsAllocated(t *testing.T) {
	w := Make(10*time.Second, 10)
	now := clock.Instant(0)
	if n := testing.AllocsPerRun(100, func() {
		now += second / 3
		w.Add(now, 1, 1, 1)
		w.Take(now, now, 1, 1)
		w.Sum(now)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// C12: whatever is added within one bucket is there, also with concurrent readers.
func TestConcurrentSumIsExact(t *testing.T) {
	const writers, each = 8, 20000
	w := Make(10*time.Second, 10)
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for k := range uint32(each) {
				w.Add(5, 2, k&1, k>>1&1)
				if k%4 == 3 {
					w.Take(6, 7, 1, 0)
					w.Sum(8)
				}
			}
		})
	}
	wg.Wait()
	want := Counts{writers * (each*2 - each/4), writers * each / 2, writers * each / 2}
	if got := w.Sum(9); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// C12: the newest time never goes back, so every sum lies between nothing and
// what was added; and once all are past, nothing is left.
func TestConcurrentTurns(t *testing.T) {
	const writers, each = 8, 20000
	w := Make(100, 10)
	var wg sync.WaitGroup
	for i := range uint32(writers) {
		wg.Go(func() {
			for k := range clock.Instant(each) {
				w.Add(k, 1, 1, 1)
				if k%100 == 50 && i == 0 {
					w.Reset(k)
				}
				if c := w.Sum(k); c.Calls < 0 || c.Calls > writers*each || c.Failures != c.Calls {
					t.Errorf("impossible sum %+v", c)
					return
				}
			}
		})
	}
	wg.Wait()
	if got := w.Sum(each + 100); got != (Counts{}) {
		t.Errorf("%+v left a span later", got)
	}
}
