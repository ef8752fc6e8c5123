package window

import (
	"math"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/gabion-go/gabion/internal/clock"
)

// granted returns a headroom of four shards that allows a hundred calls of its
// first turn, for the key 7.
func granted(t *testing.T) *Headroom {
	t.Helper()
	h := MakeHeadroom(120, 12, 4)
	h.Add(0, 0, 0, 1)
	h.Allow(h.Turn(), 7, 100)
	if !h.Spend(0, 0, 7) {
		t.Fatal("nothing was allowed")
	}
	return &h
}

func TestHeadroomIsWithdrawn(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(h *Headroom)
		want bool // shard 3 may still spend
	}{
		{"not by a call within another shard's share", func(h *Headroom) { h.Add(0, 1, 25, 0) }, true},
		{"by one past it", func(h *Headroom) { h.Add(0, 1, 26, 0) }, false},
		{"not by one that is taken back", func(h *Headroom) { h.Add(0, 1, 25, 0); h.Take(0, 0, 1, 1, 0); h.Add(0, 1, 1, 0) }, true},
		{"by a turn", func(h *Headroom) { h.Sum(10) }, false},
		{"by a turn of which only the time has come", func(h *Headroom) { h.win.end.Store(0) }, false},
		{"by a resize", func(h *Headroom) { h.Resize(0, 120) }, false},
		{"by what lands in a closed bucket", func(h *Headroom) { h.check(1, late) }, false},
		{"not by failures", func(h *Headroom) { h.Add(0, 1, 0, 1000) }, true},
		{"not by a refused allowance of another key", func(h *Headroom) { h.Allow(h.Turn(), 8, 1000) }, true},
		{"by a turn only until it is made anew", func(h *Headroom) { h.Sum(10); h.Allow(h.Turn(), 7, 100) }, true},
	} {
		h := granted(t)
		c.do(h)
		if got := h.Spend(0, 3, 7); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

func TestHeadroomIsNotAllowed(t *testing.T) {
	for name, allow := range map[string]func(h *Headroom, turn uint32){
		"for another key":                      func(h *Headroom, turn uint32) { h.Allow(turn, 8, 100) },
		"for another turn":                     func(h *Headroom, turn uint32) { h.Allow(turn+1, 7, 100) },
		"where a share is too small":           func(h *Headroom, turn uint32) { h.Allow(turn, 7, 4*leastShare-0.5) },
		"where the calls are in the window":    func(h *Headroom, turn uint32) { h.Add(0, 0, 90, 0); h.Allow(turn, 7, 100) },
		"where they are in its closed buckets": func(h *Headroom, turn uint32) { h.Add(0, 0, 90, 0); h.Sum(10); h.Allow(h.Turn(), 7, 100) },
	} {
		h := MakeHeadroom(120, 12, 4)
		h.Add(0, 0, 0, 1)
		allow(&h, h.Turn())
		if h.Spend(clock.Instant(h.win.end.Load()-1), 0, 7) {
			t.Errorf("%s it is", name)
		}
	}
}

// However much is allowed, a bucket takes no more than it can count.
func TestHeadroomEndsWithItsBucket(t *testing.T) {
	for _, calls := range []float64{1e12, math.Inf(1)} {
		h := MakeHeadroom(120, 12, 4)
		h.Add(0, 1, counterMax-1, 0)
		h.Allow(h.Turn(), 7, calls)
		if !h.Spend(0, 1, 7) || h.Spend(0, 1, 7) {
			t.Errorf("%v allowed: want one call more, and no other", calls)
		}
		if got := h.Sum(0).Calls; got != counterMax {
			t.Errorf("%v allowed: %d calls", calls, got)
		}
	}
}

// With few buckets and one shard nothing is kept, and a sum is as quick.
func TestHeadroomIsForSeveralCacheLines(t *testing.T) {
	h := MakeHeadroom(80, 8, 1)
	h.Add(0, 0, 0, 1)
	if h.Allow(h.Turn(), 7, 100); h.Spend(0, 0, 7) {
		t.Error("calls were allowed")
	}
	for shards := 1; shards <= 8; shards *= 2 {
		h, tally := MakeHeadroom(120, 12, shards), MakeTally(120, 12, shards)
		if got, want := len(h.win.cells), len(tally.win.cells); got != want {
			t.Errorf("%d shards: %d words, a tally has %d", shards, got, want)
		}
		least := float64(shards * leastShare)
		if !h.Worthwhile(least) || h.Worthwhile(least-0.5) {
			t.Errorf("%d shards: worth it are not %v calls", shards, least)
		}
	}
}

// All that lands while a grant is being made is in it or withdraws it.
func TestNobodySpendsMoreThanWasAllowed(t *testing.T) {
	const callers, allowed = 4, 100
	rounds := 800
	if testing.Short() {
		rounds = 200
	}
	for range rounds {
		h := MakeHeadroom(120, 12, callers)
		h.Add(0, 0, 0, 1)
		var spent atomic.Int64
		var all sync.WaitGroup
		for g := range uint32(callers) {
			all.Go(func() {
				for i := range 60 {
					h.Allow(h.Turn(), 7, allowed)
					if i%8 != int(g) && h.Spend(0, g, 7) {
						spent.Add(1)
					} else {
						h.Add(0, g, 1, 0)
					}
				}
			})
		}
		all.Wait()
		if got := spent.Load(); got > allowed+callers { // each may be in the middle of one
			t.Fatalf("%d spent of %d", got, allowed)
		}
		if h.Spend(0, 0, 7) {
			t.Fatal("there is something left of what was more than used up")
		}
	}
}
