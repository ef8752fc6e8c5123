package budget

import (
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/gabion-go/gabion/internal/clock"
)

const (
	ms = clock.Instant(time.Millisecond)
	s  = clock.Instant(time.Second)
)

// deposit counts a number of calls at one moment.
func deposit(w *Window, now clock.Instant, calls int) {
	for i := range calls {
		w.Deposit(now, uint32(i))
	}
}

// withdraw asks until it is refused, and returns how often it was not.
func withdraw(w *Window, now clock.Instant, r Rules) (granted int) {
	for granted < 50_000 { // more than any test wants
		if _, ok := w.TryWithdraw(now, r); !ok {
			break
		}
		granted++
	}
	return granted
}

func TestWindow(t *testing.T) {
	type step struct {
		at       clock.Instant
		deposits int
		grants   int // how many re-sends are granted before the first refusal
	}
	for fact, c := range map[string]struct {
		span         time.Duration
		ratio, floor float64
		steps        []step
	}{
		"C76 10/s over 10 s starts at 100":        {10 * time.Second, 0.2, 10, []step{{0, 0, 100}}},
		"C76 20 % come on top":                    {10 * time.Second, 0.2, 10, []step{{0, 500, 200}}},
		"C77 without a floor nothing is there":    {10 * time.Second, 0.1, 0, []step{{0, 0, 0}, {0, 9, 0}, {0, 1, 1}}},
		"C77 a ratio of 2 doubles":                {10 * time.Second, 2, 0, []step{{0, 10_000, 20_000}}},
		"0.29 of 100 calls is 29":                 {10 * time.Second, 0.29, 0, []step{{0, 100, 29}}},
		"a part of each makes a whole":            {10 * time.Second, 0.5, 0.05, []step{{0, 1, 1}}},
		"calls of every span pay once":            {time.Second, 1, 0, []step{{0, 100, 100}, {s, 100, 100}, {2 * s, 100, 100}, {3 * s, 100, 100}}},
		"what calls paid for outlives the floor":  {time.Second, 0.5, 3, []step{{0, 10, 8}, {s + 20, 10, 8}, {2*s + 40, 10, 8}}},
		"parts of a re-send pay once too":         {time.Second, 0.5, 0.5, []step{{0, 1, 1}, {s, 0, 0}, {2 * s, 0, 0}}},
		"also a thousandth of one":                {time.Second, 0.001, 0.999, []step{{0, 1, 1}, {s, 0, 0}, {2 * s, 0, 0}}},
		"C78 a deposit, 3 s later refused":        {time.Second, 1, 0, []step{{7 * ms, 1, 1}, {3*s + 7*ms, 0, 0}}},
		"C79 5/s without traffic is five":         {time.Second, 0.2, 5, []step{{0, 0, 5}, {999 * ms, 0, 0}}},
		"the floor is back after one span":        {time.Second, 0.2, 5, []step{{0, 0, 5}, {s - 1, 0, 0}, {s + 15, 0, 5}, {2*s + 14, 0, 0}, {2*s + 30, 0, 5}}},
		"and wherever its slices begin":           {time.Second, 0, 5, []step{{123_456_789, 0, 5}, {s + 123_456_788, 0, 0}, {s + 123_456_789, 0, 5}}},
		"C80 no ratio and no floor is never":      {time.Second, 0, 0, []step{{0, 1000, 0}}},
		"C81 ten calls at 10 % make 100 into 101": {10 * time.Second, 0.1, 10, []step{{0, 10, 101}}},
		"negative rules are none":                 {time.Second, -1, -1, []step{{0, 1000, 0}}},
		"time before the origin is time":          {time.Second, 0, 5, []step{{-9 * s, 0, 5}, {-8*s - 1, 0, 0}, {-8 * s, 0, 5}}},
		"C11 an hour back brings nothing back":    {time.Second, 0.5, 5, []step{{3600 * s, 2, 6}, {0, 0, 0}, {0, 2, 1}, {3600 * s, 0, 0}, {3601 * s, 0, 5}}},
		"what was not spent is not saved":         {time.Second, 0, 5, []step{{0, 0, 5}, {100 * s, 0, 5}}},
		"a year without calls costs one window":   {time.Second, 1, 1, []step{{0, 3, 4}, {31_536_000 * s, 0, 1}}},
	} {
		w := MakeWindow(c.span, 4)
		r := NewRules(c.ratio, c.floor, c.span)
		for i, step := range c.steps {
			deposit(&w, step.at, step.deposits)
			if got, want := w.Level(step.at, r), int64(step.grants); got != want {
				t.Errorf("%s: step %d: level %d, want %d", fact, i, got, want)
			}
			if got := withdraw(&w, step.at, r); got != step.grants {
				t.Errorf("%s: step %d: %d granted, want %d", fact, i, got, step.grants)
			}
		}
	}
}

// A caller that was stopped after it read the clock asks at a time that is over. What
// it is granted is of now, and remembered as such.
func TestAnOlderTimeIsWhenTheNewestSliceBegan(t *testing.T) {
	r := Rules{0, 5_000}
	for _, shards := range []int{1, 4} {
		w := MakeWindow((slices-1)*time.Second, shards) // slices of a second
		w.Deposit(1999*ms, 0)
		first, ok := w.TryWithdraw(-s, r)
		if got := withdraw(&w, -s, r); !ok || got != 4 {
			t.Fatalf("%d shards: %d granted, want 5", shards, got+1)
		}
		for _, at := range []clock.Instant{-s, (slices - 2) * s, slices*s - 1} {
			if got := withdraw(&w, at, r); got != 0 {
				t.Errorf("%d shards: %d granted at %d, within a span", shards, got, at)
			}
		}
		if !w.Refund((slices-1)*s, first) || w.Level((slices-1)*s, r) != 1 {
			t.Errorf("%d shards: not refunded", shards)
		}
		if got := withdraw(&w, slices*s, r); got != 5 {
			t.Errorf("%d shards: %d granted a span later, want 5", shards, got)
		}
	}
}

func TestNoMoreIsGrantedThanASliceCanCount(t *testing.T) {
	w := MakeWindow(time.Second, 1)
	w.Counts(0)
	w.resends[w.newest], w.sent, w.last = most-1, most-1, 0
	if got := withdraw(&w, 0, Rules{0, math.MaxInt64}); got != 1 {
		t.Errorf("%d granted", got)
	}
}

// Two thousand calls, silence for a span and a little more, then ten calls: the old
// ones pay for nothing any more, wherever the slices begin.
func TestCallsPayForNoLongerThanASpan(t *testing.T) {
	r := NewRules(0.1, 1, 10*time.Second)
	for _, shards := range []int{1, 8} {
		for start := clock.Instant(0); start < 10*s; start += 97 * ms {
			for silence := 10*s + 15; silence < 13*s; silence += 250 * ms {
				w := MakeWindow(10*time.Second, shards)
				deposit(&w, start, 2000)
				deposit(&w, start+silence, 10)
				if got := withdraw(&w, start+silence, r); got > 11 {
					t.Fatalf("%d shards: %d granted %v after 2000 calls at %v, and 10 more calls; 11 are promised", shards, got, time.Duration(silence), time.Duration(start))
				}
			}
		}
	}
}

// C78: wherever the slices begin, two calls at 50 % pay for a re-send 0.9 s later.
func TestCallsPayForAWholeSpan(t *testing.T) {
	r := NewRules(0.5, 0, time.Second)
	for start := clock.Instant(0); start < s; start += 7 * ms {
		w := MakeWindow(time.Second, 1)
		deposit(&w, start, 2)
		if _, ok := w.TryWithdraw(start+900*ms, r); !ok {
			t.Fatalf("calls at %d pay for nothing 0.9 s later", start)
		}
	}
}

func TestRefund(t *testing.T) {
	r := NewRules(0, 1, time.Second)
	t.Run("brings the re-send back", func(t *testing.T) {
		w := MakeWindow(time.Second, 1)
		res, _ := w.TryWithdraw(0, r)
		if !w.Refund(500*ms, res) || w.Level(500*ms, r) != 1 {
			t.Error("not back")
		}
	})
	t.Run("does nothing when the slice is forgotten", func(t *testing.T) {
		w := MakeWindow(time.Second, 1)
		res, _ := w.TryWithdraw(0, r)
		w.TryWithdraw(1200*ms, r)
		if w.Refund(1200*ms, res) || w.Level(1200*ms, r) != 0 {
			t.Error("paid by another's re-send")
		}
	})
	t.Run("does nothing when all was forgotten at once", func(t *testing.T) {
		w := MakeWindow(time.Second, 1)
		res, _ := w.TryWithdraw(0, r)
		w.TryWithdraw(s, r)
		if w.Refund(s, res) || w.Level(s, r) != 0 {
			t.Error("paid by another's re-send")
		}
	})
	t.Run("of no reservation does nothing", func(t *testing.T) {
		w := MakeWindow(time.Second, 1)
		w.TryWithdraw(0, r)
		if w.Refund(0, Reservation{}) || w.Level(0, r) != 0 {
			t.Error("refunded")
		}
	})
}

// What older slices hold is added up once a slice; it must follow what changes
// in them all the same.
func TestOlderSlicesAreNotTakenForSettled(t *testing.T) {
	r := NewRules(0.5, 0, (slices-1)*time.Second)
	for _, shards := range []int{1, 2, 8} {
		w := MakeWindow((slices-1)*time.Second, shards) // slices of a second
		deposit(&w, 0, 4)
		res, _ := w.TryWithdraw(0, r)
		if got := w.Level(s, r); got != 1 {
			t.Errorf("%d shards: level %d a slice later, want 1", shards, got)
		}
		if !w.Refund(s, res) || w.Level(s, r) != 2 {
			t.Errorf("%d shards: level %d after a refund to an older slice, want 2", shards, w.Level(s, r))
		}
		deposit(&w, s, 2)
		if got := withdraw(&w, s, r); got != 3 {
			t.Errorf("%d shards: %d granted, want 3", shards, got)
		}
		if got := w.Level(slices*s-1, r); got != 0 {
			t.Errorf("%d shards: level %d with all spent, want 0", shards, got)
		}
		w.Resize(s, 14*time.Second)
		deposit(&w, s, 2)
		if got := w.Level(s, r); got != 1 {
			t.Errorf("%d shards: level %d after a resize and two calls, want 1", shards, got)
		}
	}
}

// The next question sees every deposit that has ended, also one that was overtaken by the turn of a
// slice.
func TestNoDepositIsMissedWhileSlicesTurn(t *testing.T) {
	const callers, each = 4, 1500
	for range 20 {
		w := MakeWindow((slices-1)*time.Second, callers)
		var tick, begun, ended atomic.Int64
		var all sync.WaitGroup
		for g := range uint32(callers) {
			all.Go(func() {
				for range each { // six slices in all, so that none is forgotten
					begun.Add(1)
					w.Deposit(clock.Instant(tick.Add(1))*6*s/(callers*each+1), g)
					least := ended.Add(1)
					calls, _ := w.Counts(0)
					if most := begun.Load(); calls < least || calls > most {
						t.Errorf("%d calls, want at least %d and at most %d", calls, least, most)
						return
					}
				}
			})
		}
		all.Wait()
	}
}

func TestNewRules(t *testing.T) {
	for _, c := range []struct {
		ratio, floor float64
		window       time.Duration
		want         Rules
	}{
		{0.1, 1, 10 * time.Second, Rules{100_000, 10_000}},
		{0.29, 0.3, 10 * time.Second, Rules{290_000, 3_000}},
		{1e-9, 1e-9, time.Second, Rules{}},
		{math.NaN(), math.NaN(), time.Second, Rules{}},
		{-1, 5, -time.Second, Rules{}},
		{math.Inf(1), math.Inf(1), time.Second, Rules{million * million, math.MaxInt64 / million}},
	} {
		if got := NewRules(c.ratio, c.floor, c.window); got != c.want {
			t.Errorf("%+v: got %+v", c, got)
		}
	}
	if got := (Rules{-1, -1}).Allows(1 << 40); got != 0 {
		t.Errorf("negative rules allow %d", got)
	}
	for _, r := range []Rules{{math.MaxInt64, math.MaxInt64}, {3 << 43, 0}, {million * million, 0}, {0, math.MaxInt64}} {
		if got := r.Allows(1 << 40); got != most {
			t.Errorf("%+v allows %d", r, got)
		}
	}
}

func TestSpanIsWhatWasAskedFor(t *testing.T) {
	for span, want := range map[time.Duration]time.Duration{
		-5: grain, 0: grain, 1: grain, 1001: 2 * grain, time.Millisecond: time.Millisecond, time.Second: time.Second,
		10 * time.Second: 10 * time.Second, time.Minute: time.Minute, 12345678 * grain: 12345678 * grain,
	} {
		w := MakeWindow(span, 1)
		if got := w.Span(); got != want {
			t.Errorf("%v became %v", span, got)
		}
	}
	w := MakeWindow(math.MaxInt64, 1)
	if got := w.Span(); got < longest || got > longest+grain {
		t.Errorf("the longest span became %v", got)
	}
}

// C83: those who all failed together ask before they sleep, so they don't all
// find the budget full.
func TestSimultaneousFailuresShareOneBudget(t *testing.T) {
	w := MakeWindow(10*time.Second, runtime.GOMAXPROCS(0))
	r := NewRules(0.2, 1, 10*time.Second)
	var granted atomic.Int64
	var deposited, all sync.WaitGroup
	deposited.Add(1000)
	for i := range uint32(1000) {
		all.Go(func() {
			w.Deposit(s, i)
			deposited.Done()
			deposited.Wait()
			if _, ok := w.TryWithdraw(s, r); ok {
				granted.Add(1)
			}
		})
	}
	all.Wait()
	if got := granted.Load(); got != 210 {
		t.Errorf("%d of 1000 failures are sent again, want 200 and the floor of 10", got)
	}
}

// TestGoroutinesConserveTheBudget is for the race detector: deposits, grants and
// refunds across turning slices never leave more than the rules allow.
func TestGoroutinesConserveTheBudget(t *testing.T) {
	w := MakeWindow(time.Millisecond, 2)
	r := NewRules(0.1, 0, time.Millisecond)
	var tick, granted, refunded atomic.Int64
	var all sync.WaitGroup
	const calls = 4 * 5000
	for g := range uint32(4) {
		all.Go(func() {
			for i := range calls / 4 {
				now := clock.Instant(tick.Add(100))
				w.Deposit(now, g)
				res, ok := w.TryWithdraw(now, r)
				if !ok {
					continue
				}
				if i%3 == 0 && w.Refund(now, res) {
					refunded.Add(1)
					continue
				}
				granted.Add(1)
			}
		})
	}
	all.Wait()
	if got := granted.Load(); got == 0 || got > calls/10 {
		t.Errorf("%d re-sends (%d refunded) for %d calls", got, refunded.Load(), calls)
	}
}

func TestSize(t *testing.T) {
	if got := unsafe.Sizeof(Window{}); got > 900 {
		t.Errorf("a window takes %d bytes", got)
	}
}

func TestNothingIsAllocated(t *testing.T) {
	w := MakeWindow(time.Second, 2)
	var b Bucket
	r := NewRules(0.1, 1, time.Second)
	now := clock.Instant(0)
	if n := testing.AllocsPerRun(1000, func() {
		now += 50 * ms
		w.Deposit(now, 1)
		res, _ := w.TryWithdraw(now, r)
		w.Refund(now, res)
		b.TryWithdraw(NewBucketRules(100, 1, 0.1))
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// A steady stream whose every call asks for a re-send gets its ratio, to within 1.5 %.
func TestASteadyStreamGetsItsRatio(t *testing.T) {
	for _, ratio := range []float64{0.05, 0.1, 0.2} {
		r := NewRules(ratio, 0, 10*time.Second)
		w := MakeWindow(10*time.Second, 1)
		calls, granted := 0, 0
		for now := clock.Instant(0); now < 120*s; now += 5 * ms {
			w.Deposit(now, 0)
			if now < 20*s { // until the window is full
				w.TryWithdraw(now, r)
				continue
			}
			calls++
			granted += withdraw(&w, now, r)
		}
		if got := float64(granted) / float64(calls); got > ratio || got < 0.985*ratio {
			t.Errorf("%.2f %% of the calls were sent again, of %.0f %%", 100*got, 100*ratio)
		}
	}
}
