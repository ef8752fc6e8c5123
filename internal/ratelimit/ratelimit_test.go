package ratelimit

import (
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gabion-go/gabion/internal/clock"
)

const (
	ms = clock.Instant(time.Millisecond)
	s  = clock.Instant(time.Second)
)

func TestReserve(t *testing.T) {
	type ask struct {
		now     clock.Instant
		maxWait time.Duration
		at      clock.Instant
		ok      bool
	}
	ten := Rules{100 * time.Millisecond, 1}
	for fact, c := range map[string]struct {
		r    Rules
		asks []ask
	}{
		"a new limiter gives one turn at once": {ten, []ask{
			{0, 0, 0, true}, {0, 0, 100 * ms, false},
		}},
		"a refusal tells when, and takes nothing": {ten, []ask{
			{0, 0, 0, true}, {20 * ms, 0, 100 * ms, false}, {99 * ms, 0, 100 * ms, false}, {100 * ms, 0, 100 * ms, true},
		}},
		"those who may wait line up": {ten, []ask{
			{0, time.Second, 0, true}, {0, time.Second, 100 * ms, true}, {0, time.Second, 200 * ms, true}, {50 * ms, time.Second, 300 * ms, true},
		}},
		"a turn exactly maxWait away is taken": {ten, []ask{
			{0, 0, 0, true}, {0, 100 * time.Millisecond, 100 * ms, true}, {0, 199 * time.Millisecond, 200 * ms, false},
		}},
		"a burst goes at once, then one per interval": {Rules{100 * time.Millisecond, 3}, []ask{
			{s, 0, s, true}, {s, 0, s, true}, {s, 0, s, true}, {s, 0, s + 100*ms, false}, {s + 100*ms, 0, s + 100*ms, true}, {s + 100*ms, 0, s + 200*ms, false},
		}},
		"a pause brings back no more than the burst": {Rules{100 * time.Millisecond, 2}, []ask{
			{0, 0, 0, true}, {0, 0, 0, true}, {1000 * s, 0, 1000 * s, true}, {1000 * s, 0, 1000 * s, true}, {1000 * s, 0, 1000*s + 100*ms, false},
		}},
		"time before the origin is time": {ten, []ask{
			{-8, 0, -8, true}, {-8, 0, 100*ms - 8, false}, {100*ms - 8, 0, 100*ms - 8, true},
		}},
		"time may begin at its very start": {ten, []ask{
			{math.MinInt64, 0, math.MinInt64, true}, {math.MinInt64, 0, math.MinInt64 + 100*ms, false},
		}},
		"a burst below one is one": {Rules{time.Second, -3}, []ask{
			{0, 0, 0, true}, {0, 0, s, false},
		}},
		"a negative wait means no wait": {ten, []ask{
			{0, -time.Second, 0, true}, {0, -time.Second, 100 * ms, false},
		}},
		"no interval is no limit": {Rules{0, 1}, []ask{
			{0, 0, 0, true}, {0, 0, 0, true}, {5, 0, 5, true},
		}},
		"the longest interval gives one turn": {Rules{math.MaxInt64, 1}, []ask{
			{0, 0, 0, true}, {0, 0, clock.Instant(longest), false},
		}},
		"a stale clock gets the turn after the last": {ten, []ask{
			{s, 0, s, true}, {s - 50*ms, 0, s + 100*ms, false},
		}},
	} {
		var l Limiter
		for i, a := range c.asks {
			if at, ok := l.Reserve(a.now, c.r, a.maxWait); at != a.at || ok != a.ok {
				t.Errorf("%s: ask %d: got %d %v, want %d %v", fact, i, at, ok, a.at, a.ok)
			}
		}
	}
}

func TestCancel(t *testing.T) {
	r := Rules{100 * time.Millisecond, 2}
	take := func(l *Limiter, now, want clock.Instant) {
		t.Helper()
		if at, ok := l.Reserve(now, r, time.Hour); !ok || at != want {
			t.Fatalf("got %d %v, want %d", at, ok, want)
		}
	}
	t.Run("the last turn ahead comes back", func(t *testing.T) {
		var l Limiter
		take(&l, 0, 0)
		take(&l, 0, 0)
		take(&l, 0, 100*ms)
		if !l.Cancel(50*ms, 100*ms, r) {
			t.Fatal("not given back")
		}
		take(&l, 50*ms, 100*ms)
	})
	t.Run("turns ahead come back in any order, the first to be taken first", func(t *testing.T) {
		var l Limiter
		for _, at := range []clock.Instant{0, 0, 100 * ms, 200 * ms, 300 * ms} {
			take(&l, 0, at)
		}
		if !l.Cancel(0, 200*ms, r) || !l.Cancel(0, 100*ms, r) || !l.Cancel(0, 300*ms, r) {
			t.Fatal("not given back")
		}
		if _, ok := l.Reserve(0, r, 50*time.Millisecond); ok {
			t.Fatal("granted a turn that is further away")
		}
		take(&l, 0, 100*ms)
		take(&l, 150*ms, 200*ms)
		take(&l, 150*ms, 300*ms)
	})
	t.Run("a turn that is not taken in time is lost", func(t *testing.T) {
		var l Limiter
		for _, at := range []clock.Instant{0, 0, 100 * ms, 200 * ms} {
			take(&l, 0, at)
		}
		if !l.Cancel(0, 100*ms, r) {
			t.Fatal("not given back")
		}
		take(&l, 150*ms, 300*ms)
	})
	// Here the word after the later turn is what it was to be after the earlier
	// one had that had to wait. Giving it back would let three go at 100 ms.
	t.Run("a turn whose time has come is used", func(t *testing.T) {
		var l Limiter
		take(&l, 0, 0)
		take(&l, 100*ms, 100*ms)
		if l.Cancel(100*ms, 0, r) {
			t.Fatal("given back")
		}
		take(&l, 100*ms, 100*ms)
		take(&l, 100*ms, 200*ms)
	})
	t.Run("without a limit there is nothing to give back", func(t *testing.T) {
		var l Limiter
		if l.Cancel(0, s, Rules{}) {
			t.Fatal("given back")
		}
	})
}

func TestResetBringsTheBurstBack(t *testing.T) {
	var l Limiter
	l.Reserve(0, Rules{time.Hour, 1}, 0)
	if _, ok := l.Reserve(1, Rules{time.Millisecond, 1}, 0); ok {
		t.Fatal("the turn of the slow rules did not count")
	}
	l.Reset()
	if at, ok := l.Reserve(2, Rules{time.Millisecond, 1}, 0); !ok || at != 2 {
		t.Fatal("still refused")
	}
}

func TestEvery(t *testing.T) {
	for _, c := range []struct {
		rate float64
		want time.Duration
	}{
		{10, 100 * time.Millisecond}, {3, 333333333}, {0.5, 2 * time.Second}, {1e9, 1}, {4e9, 0},
		{0, 0}, {-1, 0}, {math.NaN(), 0}, {math.Inf(1), 0}, {1e-300, longest},
	} {
		if got := Every(c.rate, 5).Interval; got != c.want {
			t.Errorf("%v/s: every %v, want %v", c.rate, got, c.want)
		}
	}
}

// TestGoroutinesNeverExceedTheRate lets several goroutines, each with its own,
// slightly stale view of one clock, take all they can get.
func TestGoroutinesNeverExceedTheRate(t *testing.T) {
	r := Rules{time.Microsecond, 10}
	var l Limiter
	var tick atomic.Int64
	var mu sync.Mutex
	var turns []clock.Instant
	var all sync.WaitGroup
	for g := range 2 * runtime.GOMAXPROCS(0) {
		all.Go(func() {
			var mine []clock.Instant
			for i := range 3000 {
				now := clock.Instant(tick.Add(137))
				if at, ok := l.Reserve(now, r, time.Duration(g%3)*5*time.Microsecond); ok {
					mine = append(mine, at)
				}
				if i%64 == 0 {
					runtime.Gosched()
				}
			}
			mu.Lock()
			defer mu.Unlock()
			turns = append(turns, mine...)
		})
	}
	all.Wait()
	if len(turns) < 100 {
		t.Fatalf("only %d turns", len(turns))
	}
	checkRate(t, turns, r)
}

// TestGoroutinesShareOneBurst freezes the clock, so that every update that gets
// lost is one turn too many.
func TestGoroutinesShareOneBurst(t *testing.T) {
	r := Rules{time.Hour, 50_000}
	var l Limiter
	var granted atomic.Int64
	var all sync.WaitGroup
	for range 2 * runtime.GOMAXPROCS(0) {
		all.Go(func() {
			for {
				if _, ok := l.Reserve(s, r, 0); !ok {
					return
				}
				granted.Add(1)
			}
		})
	}
	all.Wait()
	if got := granted.Load(); got != int64(r.Burst) {
		t.Errorf("%d turns out of a burst of %d", got, r.Burst)
	}
}

func TestHugeBurstsCountAs36Years(t *testing.T) {
	for _, r := range []Rules{{time.Second, math.MaxInt32}, {time.Hour, math.MaxInt}, {longest, 3}, {1 << 40, 1<<30 + 1}} {
		if interval, slack := r.spacing(); interval != r.Interval || slack != longest {
			t.Errorf("%+v: every %v, slack %v", r, interval, slack)
		}
	}
	r := Rules{math.MaxInt64, math.MaxInt}
	if interval, slack := r.spacing(); interval != longest || slack != longest {
		t.Errorf("%+v: every %v, slack %v", r, interval, slack)
	}
}

func TestReserveAllocatesNothing(t *testing.T) {
	var l Limiter
	now := clock.Instant(0)
	if n := testing.AllocsPerRun(100, func() {
		now += ms
		at, _ := l.Reserve(now, Rules{10 * time.Millisecond, 2}, time.Second)
		l.Cancel(now, at, Rules{10 * time.Millisecond, 2})
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
