package window

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/gabion-go/gabion/internal/clock"
)

// C12: a window that grows goes on as if it had not.
func FuzzElastic(f *testing.F) {
	f.Add([]byte{3, 4, 2, 0, 9, 1, 8, 40, 2, 3, 200, 4, 1, 7, 5, 0, 0})
	f.Fuzz(func(t *testing.T, script []byte) { elasticDuel(t, script) })
}

// elasticDuel runs a script, three bytes a step, on a window that grows, on one that
// does not, and on the naive one.
func elasticDuel(t *testing.T, script []byte) {
	const buckets, width = 5, 10
	grow := 0
	if len(script) > 0 {
		grow = int(script[0])
	}
	w, still := MakeElastic(buckets*width, buckets), MakeElastic(buckets*width, buckets)
	m := &naive{n: buckets, all: map[int64]Counts{}}
	now, last := clock.Instant(-35), Place(0)
	for i := 0; len(script) >= 3; i, script = i+1, script[3:] {
		if i == grow {
			w.Grow(4)
		}
		op, arg, by := script[0], script[1], clock.Instant(int8(script[2]))
		if by == 127 {
			by = clock.Instant(365 * 24 * time.Hour)
		}
		now += by / 4
		idx := w.win.number(now)
		failed, slow := arg>>4&1 == 1, arg>>5&1 == 1
		switch op % 16 {
		case 0:
			w.Reset(now)
			still.Reset(now)
			m.reset(idx)
		case 1:
			w.Resize(now, buckets*width)
			still.Resize(now, buckets*width)
			m.reset(idx)
		case 2:
			got, want := w.Take(last, now, slow), still.Take(last, now, slow)
			if got != want {
				t.Fatalf("take at %d: %v, want %v", now, got, want)
			}
			m.all, m.newest, m.begun = nil, 0, false // it does not know of places
			return
		default:
			before := w.Turn()
			for range 1 + arg&3 {
				if failed || slow || arg>>6&1 == 1 {
					w.Add(now, uint32(arg), failed, slow)
				} else {
					w.AddGood(now, uint32(arg))
				}
				still.Add(now, uint32(arg), failed, slow)
				m.add(idx, 1, one(failed), one(slow))
			}
			if last = w.Place(); last != still.Place() || (before == w.Turn()) != (before == still.Turn()) {
				t.Fatalf("at %d: one turned, the other did not", now)
			}
		}
		if op>>4%4 > 0 {
			for _, e := range []*Elastic{&w, &still} {
				got, want := e.Rated(now), m.sum(idx)
				if got.Slow = want.Slow; got != want {
					t.Fatalf("rated at %d: %+v, want %+v", now, got, want)
				}
			}
			if got, want := w.Sum(now), m.sum(idx); got != want || still.Sum(now) != want {
				t.Fatalf("sum at %d: %+v and %+v, want %+v", now, got, still.Sum(now), want)
			}
		}
	}
}

func TestElasticAgreesWithNaive(t *testing.T) {
	script, x := make([]byte, 300), uint64(1)
	for range 500 {
		for i := range script {
			x ^= x << 13
			x ^= x >> 7
			x ^= x << 17
			script[i] = byte(x)
		}
		script[0] %= 100 // of as many verbs
		elasticDuel(t, script)
	}
}

// A bucket that is full ignores what comes, however it is added, and keeps its failures.
func TestAFullBucketTakesNoMoreGoodCalls(t *testing.T) {
	w := MakeElastic(10*time.Second, 10)
	w.win.Add(0, counterMax-1, 3, 0)
	for range 3 {
		w.AddGood(0, 0)
	}
	if got, want := w.Sum(0), (Counts{counterMax, 3, 0}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// A call can be taken back wherever it was moved meanwhile, and only once.
func TestElasticTake(t *testing.T) {
	for _, shards := range []int{1, 4} {
		for _, c := range []struct {
			fact         string
			failed, slow bool
			then         clock.Instant
			want         bool
		}{
			{"from the newest bucket", false, false, 1, true},
			{"a slow one", false, true, 1, true},
			{"from an older bucket", false, true, 95, true},
			{"not one that failed", true, false, 1, false},
			{"not from a bucket that is forgotten", false, false, 100, false},
		} {
			w := MakeElastic(100, 10)
			w.Grow(shards)
			w.Add(0, 3, c.failed, c.slow)
			at := w.Place()
			w.Add(1, 2, true, false)
			before := w.Sum(c.then)
			if got := w.Take(at, c.then, c.slow); got != c.want {
				t.Errorf("%s, %d shards: %v", c.fact, shards, got)
			}
			if c.want {
				before.Calls--
				before.Slow -= int64(one(c.slow))
			}
			if got := w.Sum(c.then); got != before {
				t.Errorf("%s, %d shards: left %+v, want %+v", c.fact, shards, got, before)
			}
			if w.Take(at, c.then, c.slow) {
				t.Errorf("%s, %d shards: taken twice", c.fact, shards)
			}
		}
	}
}

// A shard that is full goes on, and what stays in it for long does not come back.
func TestShardsThatAreFullOrOld(t *testing.T) {
	w := MakeElastic(100, 10)
	w.Grow(2)
	const calls = 2*tallyMax + 10
	for range calls {
		w.Add(5, 1, true, true)
	}
	if got := w.Sum(5); got != (Counts{calls, calls, calls}) {
		t.Errorf("%+v, want %d of each", got, calls)
	}
	for turn := range clock.Instant(1<<16 + 20) { // tags come back
		if got := w.Sum(15 + 10*turn); turn >= 10 && got != (Counts{}) {
			t.Fatalf("%+v after %d turns, want nothing", got, turn)
		}
	}
}

// meet lets two goroutines start together.
func meet(mine, other *atomic.Int64, round, delay int64) {
	mine.Store(round)
	for other.Load() < round {
		yield()
	}
	for range delay {
		other.Load()
	}
}

// duel lets two callers add to each of the windows, a new bucket at each Add, so
// that many are overtaken by a turn. It returns in how many windows a sum missed
// or invented something. Meanwhile is run in the middle of each.
func duel(windows []*Elastic, meanwhile func(*Elastic)) (wrong int64) {
	const callers, each, width = 2, 25, 10
	type score struct{ tick, begun, ended, wrong atomic.Int64 }
	scores := make([]score, len(windows))
	var arrived atomic.Int64
	var all sync.WaitGroup
	for g := range uint32(callers) {
		all.Go(func() {
			for i, w := range windows {
				arrived.Add(1)
				for arrived.Load() < callers*int64(i+1) {
					yield()
				}
				s := &scores[i]
				for k := range each {
					if g == 0 && k == each/2 {
						meanwhile(w)
					}
					s.begun.Add(1)
					w.Add(clock.Instant(s.tick.Add(1)*width), g, true, true)
					least := s.ended.Add(1)
					c := w.Sum(0)
					if c.Calls < least || c.Calls > s.begun.Load() || c.Failures != c.Calls || c.Slow > c.Calls {
						s.wrong.Store(1)
					}
				}
			}
		})
	}
	all.Wait()
	for i := range scores {
		wrong += scores[i].wrong.Load()
	}
	return wrong
}

// C12: an Add that is overtaken by a turn is in the next sum all the same, also while
// the window grows.
func TestAddOvertakenByATurnIsNotMissed(t *testing.T) {
	for _, c := range []struct {
		fact              string
		before, meanwhile int // shards
	}{
		{"without shards", 1, 1},
		{"with shards", 2, 2},
		{"while it grows", 1, 2},
	} {
		windows := make([]*Elastic, 1000)
		for i := range windows {
			w := MakeElastic(64*10, 64)
			w.Grow(c.before)
			windows[i] = &w
		}
		if wrong := duel(windows, func(w *Elastic) { w.Grow(c.meanwhile) }); wrong > 0 {
			t.Errorf("%s: %d of %d windows had sums that can't be", c.fact, wrong, len(windows))
		}
	}
}

// The same for an Add that is overtaken by the growth.
func TestAddOvertakenByAGrowthIsNotMissed(t *testing.T) {
	const width, rounds = 10, 5_000
	var here, there, done atomic.Int64
	windows := make([]Elastic, rounds)
	for i := range windows {
		windows[i] = MakeElastic(10*width, 10)
	}
	go func() {
		for i := range int64(rounds) {
			meet(&there, &here, i+1, i/29%31)
			windows[i].Add(2, 1, true, true)
			done.Store(i + 1)
		}
	}()
	missed := 0
	for i := range int64(rounds) {
		w := &windows[i]
		w.Add(1, 0, true, true)
		meet(&here, &there, i+1, i%29)
		w.Grow(2)
		w.Add(width, 0, true, true) // turns
		w.Sum(width)
		for done.Load() <= i {
			yield()
		}
		if w.Sum(width) != (Counts{3, 3, 3}) {
			missed++
		}
	}
	if missed > 0 {
		t.Errorf("%d of %d times something was missing", missed, rounds)
	}
}

func TestElasticGrowsOnce(t *testing.T) {
	w := MakeElastic(10*time.Second, 10)
	if w.Add(0, 0, false, false) {
		t.Error("one alone is contended")
	}
	w.Grow(1)
	if w.Grown() {
		t.Error("grown to one shard")
	}
	w.Grow(6)
	w.Grow(100)
	if got := len(w.shards.Load().all); got != 8 {
		t.Errorf("%d shards, want 8", got)
	}
	if w.Grow(1000); w.Sum(0) != (Counts{Calls: 1}) {
		t.Errorf("%+v, want the call", w.Sum(0))
	}
}

func TestElasticIsSmall(t *testing.T) {
	if got := unsafe.Sizeof(Elastic{}); got > 64 {
		t.Errorf("header of %d bytes, want at most 64", got)
	}
	if got := unsafe.Sizeof(shard{}); got != 64 {
		t.Errorf("a shard of %d bytes, want a cache line", got)
	}
}

func yield() { runtime.Gosched() }
