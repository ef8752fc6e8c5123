package window

import (
	"math"
	"testing"

	"github.com/gabion-go/gabion/internal/clock"
)

func TestAddInCountsOnlyInTheBucketMeant(t *testing.T) {
	for _, c := range []struct {
		fact  string
		now   clock.Instant // the newest bucket is 10 to 20
		older bool          // the bucket before is meant
		calls uint32        // on top of one that is there
		ok    bool
	}{
		{"the newest bucket's first instant", 10, false, 1, true},
		{"its last", 19, false, 1, true},
		{"the one before", 9, false, 1, false},
		{"the one after", 20, false, 1, false},
		{"an older turn", 15, true, 1, false},
		{"more than fits", 15, false, counterMax, false},
	} {
		w := MakeTallyBeside(40, 4, 2)
		w.Add(0, 1, 1, 0, 0)
		turn := w.Turn()
		w.Add(15, 1, 1, 0, 0)
		if !c.older {
			turn = w.Turn()
		}
		begin, end, ok := w.AddIn(turn, c.now, 1, c.calls, c.calls)
		if ok != c.ok || ok && (begin != 10 || end != 20) {
			t.Errorf("%s: %v, from %d to %d", c.fact, ok, begin, end)
		}
		want := Counts{Calls: 2}
		if c.ok {
			want = Counts{Calls: 3, Failures: 1}
		}
		if got := w.Sum(15); got != want {
			t.Errorf("%s: %+v, want %+v", c.fact, got, want)
		}
	}
}

func TestBegin(t *testing.T) {
	for _, c := range []struct {
		fact string
		adds []clock.Instant
		want clock.Instant
	}{
		{"is when the newest bucket begins", []clock.Instant{15}, 10},
		{"also at its first instant", []clock.Instant{10}, 10},
		{"also before the origin", []clock.Instant{-1}, -10},
		{"is where time is that goes backward", []clock.Instant{35, 5}, 30},
		{"is the earliest instant before anything was added", nil, math.MinInt64},
		{"is no earlier than that", []clock.Instant{math.MinInt64 + 1}, math.MinInt64},
		{"is an instant also at the end of time", []clock.Instant{clock.Never - 1}, clock.Never - 10},
	} {
		w := MakeTallyBeside(40, 4, 2)
		for _, now := range c.adds {
			w.Add(now, 0, 1, 0, 0)
		}
		if got := w.Begin(); got != c.want {
			t.Errorf("%s: %d, want %d", c.fact, got, c.want)
		}
	}
}

// Lines of callers are theirs: a Tally that they are full of counts as one that
// has none, and leaves them alone.
func TestLinesBesideAreNotTheTallys(t *testing.T) {
	for _, shards := range []int{2, 3, 8, 256} {
		with, without := MakeTallyBeside(80, 8, shards), MakeTally(80, 8, shards)
		lines := []*Line{with.Common()}
		for i := range uint32(with.Shards()) {
			lines = append(lines, with.Beside(i))
		}
		for i, l := range lines {
			for j := range l {
				l[j].Store(uint64(i)<<32 | uint64(j) | 1<<63)
			}
		}
		for i := range uint32(1000) {
			now := clock.Instant(i)
			with.Add(now, i, 1, i%2, 0)
			without.Add(now, i, 1, i%2, 0)
			if got, want := with.Sum(now), without.Sum(now); got != want {
				t.Fatalf("%d shards at %d: %+v, want %+v", shards, now, got, want)
			}
		}
		for i, l := range lines {
			for j := range l {
				if got := l[j].Load(); got != uint64(i)<<32|uint64(j)|1<<63 {
					t.Fatalf("%d shards: word %d of line %d is %x", shards, j, i, got)
				}
			}
		}
	}
}
