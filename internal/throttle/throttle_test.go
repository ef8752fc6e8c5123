package throttle

import (
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gabion-go/gabion/internal/chance"
	"github.com/gabion-go/gabion/internal/clock"
)

const s = clock.Instant(time.Second)

// count makes a number of requests at one moment, of which accepts are accepted.
func count(t *Throttle, now clock.Instant, requests, accepts int) {
	for range requests {
		t.Request(now)
	}
	for range accepts {
		t.Accept(now, now)
	}
}

func near(got, want float64) bool { return math.Abs(got-want) < 1e-12 }

// C89, with the fractions behind its rounded figures.
func TestProbability(t *testing.T) {
	for _, c := range []struct {
		k                 float64
		requests, accepts int
		want              float64
	}{
		{2, 100, 100, 0},
		{2, 100, 50, 0},
		{2, 100, 40, 20.0 / 101},
		{2, 100, 25, 50.0 / 101},
		{2, 100, 0, 100.0 / 101},
		{1.1, 100, 90, 1.0 / 101},
		{1.1, 100, 80, 12.0 / 101},
		{2, 0, 0, 0},
		{2, 1, 0, 0.5},
		{2, 10, 20, 0},
		{0, 10, 10, 10.0 / 11},
		{-5, 10, 10, 10.0 / 11},
		{math.NaN(), 10, 0, 0},
		{math.Inf(1), 10, 1, 0},
	} {
		throttle := Make(2 * time.Minute)
		count(&throttle, 0, c.requests, c.accepts)
		if got := throttle.Probability(0, c.k); !near(got, c.want) {
			t.Errorf("K = %v, %d/%d: %v, want %v", c.k, c.requests, c.accepts, got, c.want)
		}
	}
}

func TestThrottleSlides(t *testing.T) {
	const k = 2
	t.Run("C90 local rejections count as requests, and never reach 1", func(t *testing.T) {
		throttle := Make(2 * time.Minute)
		last := -1.0
		for range 100_000 {
			throttle.Request(0)
			p := throttle.Probability(0, k)
			if p <= last || p >= 1 {
				t.Fatalf("%v after %v", p, last)
			}
			last = p
		}
	})
	t.Run("C90 all accepted for a window is 0", func(t *testing.T) {
		throttle := Make(2 * time.Minute)
		count(&throttle, 0, 1000, 0)
		for now := clock.Instant(0); now < 120*s; now += s {
			count(&throttle, now, 1, 1)
		}
		if p := throttle.Probability(120*s, k); p != 0 {
			t.Errorf("still %v", p)
		}
	})
	t.Run("T11 idle for a window is 0, though nothing was written", func(t *testing.T) {
		throttle := Make(2 * time.Minute)
		count(&throttle, 0, 1000, 0)
		if p := throttle.Probability(120*s-1, k); !near(p, 1000.0/1001) {
			t.Errorf("%v within the window", p)
		}
		if p := throttle.Probability(120*s, k); p != 0 {
			t.Errorf("%v a window later", p)
		}
	})
	t.Run("an accept whose request is forgotten is not counted", func(t *testing.T) {
		throttle := Make(2 * time.Minute)
		throttle.Request(0)
		throttle.Accept(0, 120*s)
		throttle.Accept(1, 120*s)
		if requests, accepts := throttle.Counts(120 * s); requests != 0 || accepts != 1 {
			t.Errorf("%d/%d", requests, accepts)
		}
	})
	t.Run("time before the origin is time", func(t *testing.T) {
		throttle := Make(2 * time.Minute)
		count(&throttle, -500*s, 100, 25)
		if p := throttle.Probability(-400*s, k); !near(p, 50.0/101) {
			t.Errorf("%v", p)
		}
		if p := throttle.Probability(-8, k); p != 0 {
			t.Errorf("%v long after", p)
		}
	})
}

func TestForget(t *testing.T) {
	throttle := Make(2 * time.Minute)
	count(&throttle, 0, 4, 0)
	count(&throttle, 30*s, 5, 0)
	want := func(now clock.Instant, requests float64) {
		t.Helper()
		if p := throttle.Probability(now, 2); !near(p, requests/(requests+1)) {
			t.Fatalf("%v, want %v/%v", p, requests, requests+1)
		}
	}
	want(30*s, 9)
	if !throttle.Forget(0, 30*s) {
		t.Fatal("a request in an older bucket is not taken back")
	}
	want(30*s, 8)
	if !throttle.Forget(30*s, 30*s) {
		t.Fatal("a request in the newest bucket is not taken back")
	}
	want(30*s, 7)
	if throttle.Forget(0, 125*s) {
		t.Fatal("a forgotten request is taken back")
	}
	want(125*s, 4)
}

func TestNothingIsAllocated(t *testing.T) {
	throttle := Make(2 * time.Minute)
	now := clock.Instant(0)
	if n := testing.AllocsPerRun(1000, func() {
		now += s
		throttle.Request(now)
		throttle.Probability(now, 2)
		throttle.Accept(now, now)
		throttle.Forget(now, now)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestGoroutinesLoseNothing is for the race detector too: whatever happened
// while the window turned, a turn later the sums are exact.
func TestGoroutinesLoseNothing(t *testing.T) {
	throttle := Make(12 * time.Second)
	var tick atomic.Int64
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for i := range 5000 {
				now := clock.Instant(tick.Add(400_000)) // 8 s in all
				throttle.Request(now)
				if p := throttle.Probability(now, 2); p < 0 || p >= 1 {
					t.Errorf("probability %v", p)
				}
				switch i % 4 {
				case 0:
					throttle.Accept(now, now)
				case 1:
					throttle.Forget(now, now)
				}
			}
		})
	}
	all.Wait()
	if p := throttle.Probability(9*s, 2); !near(p, 5000.0/15_001) {
		t.Errorf("%v, want (15000 − 2·5000)/15001", p)
	}
}

func FuzzThrottle(f *testing.F) {
	f.Add([]byte{0, 0, 9, 1, 200, 2, 255, 3})
	f.Fuzz(sameAsHistory)
}

func TestRandomScripts(t *testing.T) {
	for seed := range uint64(200) {
		script := make([]byte, 500)
		for i := range script {
			script[i] = byte(chance.Bits(seed, uint64(i), 0, 0) >> 32)
			if i%2 == 0 {
				script[i] >>= seed % 4
			}
		}
		sameAsHistory(t, script)
	}
}

// sameAsHistory compares a Throttle with the list of all that happened to it.
func sameAsHistory(t *testing.T, script []byte) {
	const width, k = 60, 1.5
	throttle := Make(buckets * width)
	var requests, accepts, forgotten []int64 // when
	bucket := func(at int64) int64 { return int64(math.Floor(float64(at) / width)) }
	alive := func(times []int64, now int64) (n float64) {
		for _, at := range times {
			if bucket(at) > bucket(now)-buckets {
				n++
			}
		}
		return n
	}
	now := int64(-3000)
	for i := 0; i+1 < min(len(script), 500); i += 2 {
		now += int64(script[i]) * int64(script[i]) / 256
		at, verb := clock.Instant(now), script[i+1]
		switch {
		case verb%4 < 2 || len(requests) == 0:
			throttle.Request(at)
			requests = append(requests, now)
		case verb%4 == 2:
			then := requests[len(requests)-1-int(verb>>2)%len(requests)]
			throttle.Accept(clock.Instant(then), at)
			if now-then < buckets*width {
				accepts = append(accepts, now)
			}
		default:
			last := len(requests) - 1
			then := requests[last]
			if throttle.Forget(clock.Instant(then), at) != (alive(requests[last:], now) == 1) {
				t.Fatalf("step %d: forgetting %d at %d went wrong", i/2, then, now)
			}
			requests = requests[:last]
			forgotten = append(forgotten, then)
		}
		if verb&64 == 0 { // not always, so that turns go by unasked
			continue
		}
		n := alive(requests, now)
		want := max(0, (n-k*alive(accepts, now))/(n+1))
		if got := throttle.Probability(at, k); !near(got, want) || got >= 1 {
			t.Fatalf("step %d at %d: %v, want %v (%d forgotten)", i/2, now, got, want, len(forgotten))
		}
	}
}
