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

// C12: what is kept of closed buckets never differs from what they hold, whatever
// is added, taken back or skipped in between.
func FuzzTally(f *testing.F) {
	f.Add([]byte{1, 4, 2, 0, 9, 1, 8, 40, 2, 3, 200, 4, 1, 7, 5, 0, 0})
	f.Fuzz(func(t *testing.T, script []byte) { tallyDuel(t, script) })
}

func tallyDuel(t *testing.T, script []byte) {
	const buckets, width = 5, 10
	shards := uint32(1)
	if len(script) > 0 && script[0]&1 == 1 {
		shards = 4
	}
	w := MakeTally(buckets*width, buckets, int(shards))
	m := &naive{n: buckets, all: map[[2]int64]Counts{}}
	now := clock.Instant(-35)
	for ; len(script) >= 3; script = script[3:] {
		op, arg, by := script[0], script[1], clock.Instant(int8(script[2]))
		if by == 127 {
			by = clock.Instant(365 * 24 * time.Hour)
		}
		now += by / 4
		idx := w.win.Bucket(now)
		shard, calls, failures := uint32(arg)%shards, uint32(arg>>2&3), uint32(arg>>4&1)
		if op%4 == 0 {
			at := now - clock.Instant(arg)
			got, want := w.Take(at, now, shard, calls, failures), m.take(w.win.Bucket(at), idx, shard, shards, calls, failures)
			if got != want {
				t.Fatalf("take of %d at %d: %v, want %v", at, now, got, want)
			}
		} else {
			w.Add(now, shard, calls, failures, 1)
			m.add(idx, shard, calls, failures, 0)
		}
		if op%8 > 1 { // not after each, or nothing would ever be late
			if got, want := w.Sum(now), m.sum(idx, buckets); got != want {
				t.Fatalf("sum at %d: %+v, want %+v", now, got, want)
			}
		}
	}
}

// C12: a window that grows goes on as if it had not.
func FuzzElastic(f *testing.F) {
	f.Add([]byte{3, 4, 2, 0, 9, 1, 8, 40, 2, 3, 200, 4, 1, 7, 5, 0, 0})
	f.Fuzz(func(t *testing.T, script []byte) { elasticDuel(t, script) })
}

func elasticDuel(t *testing.T, script []byte) {
	const buckets, width = 5, 10
	grow := 0
	if len(script) > 0 {
		grow = int(script[0])
	}
	w, still := MakeElastic(buckets*width, buckets), MakeElastic(buckets*width, buckets)
	m := &naive{n: buckets, all: map[[2]int64]Counts{}}
	now := clock.Instant(-35)
	for i := 0; len(script) >= 3; i, script = i+1, script[3:] {
		if i == grow {
			w.Grow(4)
		}
		op, arg, by := script[0], script[1], clock.Instant(int8(script[2]))
		now += by / 4
		idx := w.home.Bucket(now)
		calls, failures, slow := uint32(arg>>2&3), uint32(arg>>4&1), uint32(arg>>5&1)
		switch op % 16 {
		case 0:
			w.Reset(now)
			still.Reset(now)
			m.reset(idx)
		case 1:
			w.Resize(now, buckets*width)
			still.Resize(now, buckets*width)
			m.reset(idx)
		default:
			before, stillBefore := w.Turn(), still.Turn()
			w.Add(now, uint32(arg), calls, failures, slow)
			still.Add(now, uint32(arg), calls, failures, slow)
			m.add(idx, 0, calls, failures, slow)
			if (before != w.Turn()) != (stillBefore != still.Turn()) {
				t.Fatalf("at %d: one turned, the other did not", now)
			}
		}
		if op>>4%4 > 0 {
			if got, want := w.Sum(now), m.sum(idx, buckets); got != want || still.Sum(now) != want {
				t.Fatalf("sum at %d: %+v and %+v, want %+v", now, got, still.Sum(now), want)
			}
		}
	}
}

func TestTallyAndElasticAgreeWithNaive(t *testing.T) {
	script, x := make([]byte, 300), uint64(1)
	for range 500 {
		for i := range script {
			x ^= x << 13
			x ^= x >> 7
			x ^= x << 17
			script[i] = byte(x)
		}
		tallyDuel(t, script)
		script[0] %= 100 // of as many verbs
		elasticDuel(t, script)
	}
}

// An adder that stops between finding its bucket and writing to it: what it
// writes is in the next sum, since it finds that it was late.
func TestLateAddIsReadAgain(t *testing.T) {
	w := MakeTally(100, 10, 2)
	w.Add(1, 0, 1, 0, 0)
	at := place(w.win.Turn())
	if w.win.lateFor(at) == late {
		t.Error("late for the newest bucket")
	}
	w.Add(11, 0, 1, 0, 0)
	w.Sum(11)
	w.win.add(at, w.win.cell(at, 1), 1, 1, 0)
	w.heed(w.win.lateFor(at))
	if got := w.Sum(11); got != (Counts{Calls: 3, Failures: 1}) {
		t.Errorf("%+v, want three calls and a failure", got)
	}
}

// An adder that had not seen the window grow can still be the first in a bucket.
func TestHomeThatTurnsAheadTakesTheRestAlong(t *testing.T) {
	w := MakeElastic(100, 10)
	w.Add(1, 0, 1, 0, 0)
	w.Grow(2)
	w.Sum(2)
	before := w.Turn()
	w.home.count(15, 0, 1, 0, 0)
	if got := w.Sum(2); got != (Counts{Calls: 2}) || w.Turn() == before {
		t.Errorf("%+v, want two calls in another bucket", got)
	}
	w.Add(2, 0, 1, 0, 0) // back in time: counts as 15
	if got := w.Sum(109); got != (Counts{Calls: 2}) {
		t.Errorf("%+v, want the two calls of the second bucket", got)
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

// What is read without the lock is never half of one sum and half of another.
func TestKeptSumsAreReadWhole(t *testing.T) {
	const sums = 300_000
	var k kept
	k[stamp].Store(unknown)
	go func() {
		for i := range int64(sums) {
			k.write(uint64(i), Counts{i, i, i})
		}
	}()
	read := 0
	for key := uint64(0); key != sums-1; {
		if key = k[stamp].Load(); key == unknown {
			yield()
			continue
		}
		for _, key := range []uint64{key, key + 1} {
			if c, ok := k.read(key); ok {
				read++
				if want := int64(key); c != (Counts{want, want, want}) {
					t.Fatalf("%+v, want the sums of %d", c, want)
				}
			}
		}
	}
	if read == 0 {
		t.Error("nothing was ever read")
	}
}

// summer is what all windows can do.
type summer interface {
	add(now clock.Instant, shard uint32)
	Sum(now clock.Instant) Counts
}

func (t *Tally) add(now clock.Instant, shard uint32)   { t.Add(now, shard, 1, 1, 0) }
func (e *Elastic) add(now clock.Instant, shard uint32) { e.Add(now, shard, 1, 1, 1) }

// duel lets two callers add to each of the windows, a new bucket at each add, so
// that many are overtaken by a turn. It returns in how many windows a sum missed
// or invented something. Meanwhile is run in the middle of each.
func duel[W summer](windows []W, meanwhile func(W)) (wrong int64) {
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
					w.add(clock.Instant(s.tick.Add(1)*width), g)
					least := s.ended.Add(1)
					if c := w.Sum(0); c.Calls < least || c.Calls > s.begun.Load() {
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

// C12: who was overtaken by a turn is in the next sum all the same.
func TestAddOvertakenByATurnIsNotMissed(t *testing.T) {
	windows := make([]*Tally, 1000)
	for i := range windows {
		w := MakeTally(64*10, 64, 2)
		windows[i] = &w
	}
	if wrong := duel(windows, func(*Tally) {}); wrong > 0 {
		t.Errorf("%d of %d windows had sums that can't be", wrong, len(windows))
	}
}

// C12: nor is who was overtaken by turns while the window grew.
func TestAddOvertakenWhileGrowingIsNotMissed(t *testing.T) {
	windows := make([]*Elastic, 1000)
	for i := range windows {
		w := MakeElastic(64*10, 64)
		windows[i] = &w
	}
	if wrong := duel(windows, func(w *Elastic) { w.Grow(2) }); wrong > 0 {
		t.Errorf("%d of %d windows had sums that can't be", wrong, len(windows))
	}
}

// The same for who was overtaken by a growth.
func TestAddOvertakenByAGrowthIsNotMissed(t *testing.T) {
	const width, rounds = 10, 5_000
	var here, there, home atomic.Int64
	windows := make([]Elastic, rounds)
	for i := range windows {
		windows[i] = MakeElastic(10*width, 10)
	}
	go func() {
		for i := range int64(rounds) {
			meet(&there, &here, i+1, i/29%31)
			windows[i].Add(2, 1, 1, 1, 1)
			home.Store(i + 1)
		}
	}()
	missed := 0
	for i := range int64(rounds) {
		w := &windows[i]
		w.Add(1, 0, 1, 1, 1)
		meet(&here, &there, i+1, i%29)
		w.Grow(2)
		w.Add(width, 0, 1, 1, 1) // turns, so that home is closed
		w.Sum(width)
		for home.Load() <= i {
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

func TestElasticGrowsWhereAddersMeet(t *testing.T) {
	w := MakeElastic(10*time.Second, 10)
	if w.Add(0, 0, 1, 0, 0) {
		t.Error("one alone is crowded")
	}
	w.Grow(1)
	if w.Grown() {
		t.Error("grown to one shard")
	}
	w.Grow(6)
	w.Grow(100)
	if got := len(w.wide.Load().win.cells); got != 8*24+8 {
		t.Errorf("%d words, want those of eight shards and of what is kept", got)
	}
}

func TestElasticIsSmall(t *testing.T) {
	if got := unsafe.Sizeof(Elastic{}); got > 64 {
		t.Errorf("header of %d bytes, want at most 64", got)
	}
}

func yield() { runtime.Gosched() }
