package budget

import (
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/gabion-go/gabion/internal/chance"
	"github.com/gabion-go/gabion/internal/interleave"
)

// C82, and what Envoy's defaults come to.
func TestAShareOfTheCallsInFlight(t *testing.T) {
	for _, c := range []struct {
		fact  string
		calls int
		ratio float64
		least int
		want  int
	}{
		{"a quarter of a hundred", 100, 0.25, 3, 25},
		{"a fifth of 25", 25, 0.2, 3, 5},
		{"the least, where there are two calls", 2, 0.2, 3, 3},
		{"the least, where there is no call", 0, 0.2, 3, 3},
		{"the whole part of a share", 24, 0.2, 3, 4},
		{"no least", 4, 0.2, 0, 0},
		{"no share", 1000, 0, 3, 3},
		{"neither", 1000, 0, 0, 0},
		{"all calls", 7, 1, 0, 7},
	} {
		s, r := MakeShare(4), NewShareRules(c.ratio, c.least)
		for i := range c.calls {
			s.Begin(uint32(i))
		}
		if got := s.Level(r); got != int64(c.want) {
			t.Errorf("%s: level %d", c.fact, got)
		}
		for i := range c.want {
			if !s.TryWithdraw(r) {
				t.Errorf("%s: re-send %d of %d is refused", c.fact, i+1, c.want)
			}
		}
		if s.TryWithdraw(r) || s.Level(r) != 0 {
			t.Errorf("%s: one more is granted", c.fact)
		}
	}
}

func TestExtremeShareRules(t *testing.T) {
	for _, c := range []struct {
		r           ShareRules
		calls, want int64
	}{
		{ShareRules{}, 1000, 0},
		{ShareRules{-1, -1}, 1000, 0},
		{ShareRules{million, 0}, -5, 0},
		{ShareRules{math.MaxInt64, 0}, math.MaxInt64, math.MaxInt64 / 4 / million},
		{NewShareRules(math.NaN(), math.MinInt), 10, 0},
		{NewShareRules(math.Inf(1), 0), 2, 2 * million},
	} {
		if got := c.r.Allows(c.calls); got != c.want {
			t.Errorf("%+v beside %d calls allow %d, want %d", c.r, c.calls, got, c.want)
		}
	}
}

// C83: calls that failed together ask before they wait. Those that are refused end.
func TestCallsThatFailTogetherShareWhatTheyWere(t *testing.T) {
	s, r := MakeShare(1), NewShareRules(0.2, 3)
	for range 1000 {
		s.Begin(0)
	}
	granted := 0
	for range 1000 {
		if s.TryWithdraw(r) {
			granted++
			continue
		}
		s.End(0)
	}
	if granted != 200 {
		t.Errorf("%d of 1000 are sent again, want 200", granted)
	}
}

func FuzzShare(f *testing.F) {
	f.Add([]byte{0, 0, 0, 2, 2, 1, 3, 2, 7, 11, 250})
	f.Fuzz(sameAsCounts)
}

func TestRandomShareScripts(t *testing.T) {
	for seed := range uint64(200) {
		script := make([]byte, 500)
		for i := range script {
			script[i] = byte(chance.Bits(seed, uint64(i), 0, 0) >> 32)
		}
		sameAsCounts(t, script)
	}
}

// sameAsCounts compares a Share with lists of who is in flight.
func sameAsCounts(t *testing.T, script []byte) {
	s := MakeShare(2)
	var calls, resends []uint32
	for i, step := range script {
		tenths, least := int(step>>5), int(step>>2&3)
		r := NewShareRules(float64(tenths)/10, least)
		most := func() int { return max(len(calls)*tenths/10, least) }
		shard := uint32(step >> 2)
		switch step & 3 {
		case 0:
			s.Begin(shard)
			calls = append(calls, shard)
		case 1:
			if len(calls) > 0 {
				s.End(calls[0])
				calls = calls[1:]
			}
		case 2:
			ok := s.TryWithdraw(r)
			if ok != (len(resends) < most()) {
				t.Fatalf("step %d: %v with %d re-sends, %d calls and %+v", i, ok, len(resends), len(calls), r)
			}
			if ok {
				resends = append(resends, shard)
			}
		default:
			if len(resends) > 0 {
				s.Release()
				resends = resends[1:]
			}
		}
		if c, n := s.Counts(); c != int64(len(calls)) || n != int64(len(resends)) || s.Level(r) != int64(max(most()-len(resends), 0)) {
			t.Fatalf("step %d: %d calls and %d re-sends, want %d and %d", i, c, n, len(calls), len(resends))
		}
	}
}

// Whatever runs at the same time, no more are out than the calls that are in flight allow.
func TestGoroutinesShareOneConcurrency(t *testing.T) {
	const calls, most = 40, 8
	s, r := MakeShare(2), NewShareRules(0.2, 3)
	for i := range uint32(calls) {
		s.Begin(i)
	}
	var out, peak, granted atomic.Int64
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			held := 0
			for n := range 20_000 {
				switch u := chance.Bits(uint64(i), uint64(n), 0, 0) >> 40; {
				case u%3 == 0 && held > 0:
					out.Add(-1)
					s.Release()
					held--
				case s.TryWithdraw(r):
					now := out.Add(1)
					for p := peak.Load(); now > p && !peak.CompareAndSwap(p, now); p = peak.Load() {
					}
					granted.Add(1)
					held++
				}
			}
			for ; held > 0; held-- {
				out.Add(-1)
				s.Release()
			}
		})
	}
	all.Wait()
	if _, left := s.Counts(); peak.Load() > most || granted.Load() == 0 || left != 0 {
		t.Errorf("%d re-sends were out at once, %d are left; %d granted", peak.Load(), left, granted.Load())
	}
}

// One re-send is left and two ask for it, in every order of their steps.
func TestInterleavedShare(t *testing.T) {
	r := ShareRules{Min: 2}
	interleave.Explore(t, 4, func() ([]func(), func() error) {
		s := MakeShare(2)
		s.TryWithdraw(r)
		granted := [2]int{}
		ask := func(i int) func() {
			return func() {
				s.Begin(uint32(i))
				if s.TryWithdraw(r) {
					granted[i]++
				}
				s.End(uint32(i))
			}
		}
		return []func(){ask(0), ask(1)}, func() error {
			if calls, resends := s.Counts(); granted[0]+granted[1] != 1 || calls != 0 || resends != 2 {
				return fmt.Errorf("%v granted, %d calls and %d re-sends in flight", granted, calls, resends)
			}
			return nil
		}
	})
}
