package bulkhead_test

import (
	"runtime"
	"sync"
	"testing"

	"github.com/gabion-go/gabion/internal/bulkhead"
	"github.com/gabion-go/gabion/internal/chance"
)

func TestShelves(t *testing.T) {
	for _, c := range []struct {
		fact          string
		limit, shards int
		before        func(b *bulkhead.Bulkhead)
		want          int
	}{
		{"one for each shard", 100, 4, nil, 4},
		{"a power of two", 100, 7, nil, 4},
		{"four slots for each", 15, 4, nil, 2},
		{"at most 256", bulkhead.Off, 1000, nil, 256},
		{"none with one shard", 100, 1, nil, 0},
		{"none without shards", 100, -1, nil, 0},
		{"none for few slots", 7, 4, nil, 0},
		{"none without slots", 0, 4, nil, 0},
		{"none while nothing is free", 8, 2, func(b *bulkhead.Bulkhead) { take(b, 8) }, 0},
		{"none while somebody waits", 8, 2, func(b *bulkhead.Bulkhead) { take(b, 8); b.Join(nil, 0, "") }, 0},
		{"none while it is fair", 8, 2, func(b *bulkhead.Bulkhead) { b.SetFair(true) }, 0},
		{"none above the limit", 8, 2, func(b *bulkhead.Bulkhead) { take(b, 8); b.Resize(8, 1); b.Resize(4, 1) }, 0},
		{"again after fairness", 8, 2, func(b *bulkhead.Bulkhead) { b.SetFair(true); b.SetFair(false) }, 2},
		{"more after growth", 8, 8, func(b *bulkhead.Bulkhead) { b.OpenShelves(); b.Resize(32, 1) }, 8},
		{"none after a shrink", 8, 8, func(b *bulkhead.Bulkhead) { b.OpenShelves(); b.Resize(7, 1) }, 0},
	} {
		t.Run(c.fact, func(t *testing.T) {
			b := bulkhead.New(c.limit, 1, false, c.shards)
			if c.before != nil {
				c.before(b)
			}
			b.OpenShelves()
			if got := b.Shelves(); got != c.want {
				t.Errorf("%d shelves, want %d", got, c.want)
			}
		})
	}
}

func take(b *bulkhead.Bulkhead, n int) (got []bulkhead.Slot) {
	for shard := range n {
		if s, ok := b.TryAcquire(uint32(shard), ""); ok {
			got = append(got, s)
		}
	}
	return got
}

func TestWhatShutsShelves(t *testing.T) {
	for _, c := range []struct {
		fact string
		do   func(b *bulkhead.Bulkhead)
		shut bool
	}{
		{"a slot that is taken, given back and taken again", func(b *bulkhead.Bulkhead) { b.Release(take(b, 1)[0]); take(b, 1) }, false},
		{"all slots taken", func(b *bulkhead.Bulkhead) { take(b, 8) }, false},
		{"one refused", func(b *bulkhead.Bulkhead) { take(b, 9) }, true},
		{"one who joins", func(b *bulkhead.Bulkhead) { b.Join(nil, 0, "") }, true},
		{"another limit", func(b *bulkhead.Bulkhead) { b.Resize(9, 1) }, true},
		{"fairness", func(b *bulkhead.Bulkhead) { b.SetFair(true) }, true},
		{"a look at the numbers", func(b *bulkhead.Bulkhead) { b.Stats() }, true},
	} {
		b := bulkhead.New(8, 1, false, 2)
		b.OpenShelves()
		c.do(b)
		if shut := b.Shelves() == 0; shut != c.shut {
			t.Errorf("%s: shut %v", c.fact, shut)
		}
	}
}

// Slots that lie on shelves are for everybody.
func TestSlotsOnOtherShelvesAreFound(t *testing.T) {
	b := bulkhead.New(8, 1, false, 2)
	b.OpenShelves()
	for _, s := range take(b, 8) {
		b.Release(s)
	}
	for n := range 8 {
		if _, ok := b.TryAcquire(1, ""); !ok {
			t.Fatalf("refused with %d of 8 out", n)
		}
	}
	if _, ok := b.TryAcquire(1, ""); ok {
		t.Error("nine of eight are out")
	}
}

func TestReleasingTooMuchToAShelfPanicsAndBreaksNothing(t *testing.T) {
	for _, shut := range []bool{false, true} {
		b := bulkhead.New(8, 1, false, 2)
		b.OpenShelves()
		s := take(b, 1)[0]
		b.Release(s)
		if shut {
			b.Stats()
		}
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("shut %v: the second Release went unnoticed", shut)
				}
			}()
			b.Release(s)
		}()
		if got, want := b.Stats(), (bulkhead.Stats{Limit: 8, QueueLimit: 1}); got != want {
			t.Errorf("shut %v: Stats = %+v, want %+v", shut, got, want)
		}
	}
}

// A slot from the word that goes back twice while another is on a shelf is not
// noticed, but no harm is done to the numbers.
func TestReleasingTooMuchBesideAShelfBreaksNothing(t *testing.T) {
	b := bulkhead.New(8, 1, false, 2)
	s := take(b, 1)[0]
	b.OpenShelves()
	b.Release(take(b, 1)[0])
	b.Release(s)
	b.Release(s)
	if got, want := b.Stats(), (bulkhead.Stats{Limit: 8, QueueLimit: 1}); got != want {
		t.Errorf("Stats = %+v, want %+v", got, want)
	}
	if got := len(take(b, 9)); got != 8 {
		t.Errorf("%d slots of 8", got)
	}
}

// Who may have a slot gets one: as many as there are slots try at once, so that
// one is free whenever somebody tries, wherever it lies.
func TestNobodyIsRefusedWhileASlotIsFree(t *testing.T) {
	const callers = 8
	b := bulkhead.New(callers, 0, false, 4)
	var work sync.WaitGroup
	for n := range uint64(callers) {
		work.Go(func() {
			for i := range uint64(5000) {
				x := chance.Bits(n, i, 0, chance.Backoff)
				if x%16 == 0 {
					b.OpenShelves()
				}
				s, ok := b.TryAcquire(uint32(x>>8), "")
				if !ok {
					t.Error("refused")
					return
				}
				if x>>16%4 == 0 {
					runtime.Gosched()
				}
				b.Release(s)
			}
		})
	}
	work.Wait()
	if s := b.Stats(); s.InUse != 0 {
		t.Errorf("left behind: %+v", s)
	}
}

func TestShelvesAllocateNothingOnceTheyAreThere(t *testing.T) {
	b := bulkhead.New(100, 0, false, 4)
	b.OpenShelves()
	if n := testing.AllocsPerRun(1000, func() {
		s, _ := b.TryAcquire(1, "")
		b.Release(s)
	}); n != 0 || b.Shelves() == 0 {
		t.Errorf("%v allocations, %d shelves", n, b.Shelves())
	}
	if n := testing.AllocsPerRun(1000, func() {
		b.Stats()
		b.OpenShelves()
	}); n != 0 {
		t.Errorf("%v allocations for shelves that open again", n)
	}
}
