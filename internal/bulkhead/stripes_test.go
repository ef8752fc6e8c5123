package bulkhead

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/gabion-go/gabion/internal/chance"
)

// spreadOut opens the stripes of a bulkhead that is smaller than those that open them by themselves.
func spreadOut(b *Bulkhead) {
	b.mu.Lock()
	b.spread.open(word(b.word.Load()), 1)
	b.mu.Unlock()
}

func isOpen(b *Bulkhead) bool {
	s := b.spread.stripes.Load()
	return s != nil && s.epoch.Load()%2 != 0
}

func TestStripes(t *testing.T) {
	for _, c := range []struct {
		fact string
		do   func(b *Bulkhead)
		open bool
		used int // as the word says
	}{
		{"a slot that is given back stays", func(b *Bulkhead) {}, true, 2},
		{"another call takes it, and the word does not change", func(b *Bulkhead) { b.TryAcquire("", 0) }, true, 2},
		{"on another stripe a call takes one from the word", func(b *Bulkhead) { b.TryAcquire("", 1) }, true, 3},
		{"no more than most stay", func(b *Bulkhead) {
			s, _ := b.TryAcquire("", 1)
			b.Release(s, 0)
		}, true, 2},
		{"one that joins closes them", func(b *Bulkhead) { b.Join(nil, Normal, "") }, false, 2},
		{"a new size closes them", func(b *Bulkhead) { b.Resize(5, 1) }, false, 1},
		{"fairness closes them", func(b *Bulkhead) { b.SetFair(true) }, false, 1},
		{"a call that finds no other slot closes them, and is let in", func(b *Bulkhead) {
			for range 3 {
				if s, ok := b.TryAcquire("", 1); !ok || !s.Held() {
					panic("refused while a slot is spare")
				}
			}
		}, false, 4},
	} {
		t.Run(c.fact, func(t *testing.T) {
			b := New(4, 1, false)
			spreadOut(b)
			b.TryAcquire("", 0)
			s, _ := b.TryAcquire("", 0)
			b.Release(s, 0)
			c.do(b)
			if used := word(b.word.Load()).used(); isOpen(b) != c.open || used != c.used {
				t.Errorf("open: %v, %d slots are in use, as the word says", isOpen(b), used)
			}
		})
	}
}

func TestStripesStayClosed(t *testing.T) {
	for _, c := range []struct {
		fact string
		b    *Bulkhead
		do   func(b *Bulkhead)
	}{
		{"while a call waits", New(1, 1, false), func(b *Bulkhead) {
			b.TryAcquire("", 0)
			b.Join(nil, Normal, "")
			spreadOut(b)
		}},
		{"while the bulkhead is fair", New(1, 1, true), spreadOut},
		{"where there are few slots", New(perSpare-1, 0, false), meetOften},
		{"while more than half of the slots are in use", New(100, 0, false), func(b *Bulkhead) {
			for range 51 {
				b.TryAcquire("", 0)
			}
			meetOften(b)
		}},
		{"until calls have met often", New(100, 0, false), func(b *Bulkhead) {
			for range meetings - 1 {
				b.spread.met(&b.mu, &b.word)
			}
		}},
	} {
		if c.do(c.b); isOpen(c.b) {
			t.Errorf("%s they are open", c.fact)
		}
	}
	b := New(100, 0, false)
	if meetOften(b); !isOpen(b) || b.spread.stripes.Load().most.Load() != 100/perSpare {
		t.Error("they are closed")
	}
}

func meetOften(b *Bulkhead) {
	for range meetings {
		b.spread.met(&b.mu, &b.word)
	}
}

// As many calls as there are slots try at once, on stripes that are opened again and again. So one
// slot is free whenever one tries, and none is refused.
func TestNoCallIsRefusedWhileASlotIsSpare(t *testing.T) {
	const workers = 8
	b := New(workers, 0, false)
	var work sync.WaitGroup
	var out, closings atomic.Int32
	for n := range uint64(workers) {
		work.Go(func() {
			for i := range uint64(5000) {
				x := chance.Bits(n, i, 0, chance.Backoff)
				if x%8 == 0 {
					if !isOpen(b) {
						closings.Add(1)
					}
					spreadOut(b)
				}
				s, ok := b.TryAcquire("", uint32(x>>8))
				if !ok || out.Add(1) > workers {
					t.Error("refused, or one too many")
					return
				}
				if x>>4%4 == 0 {
					runtime.Gosched()
				}
				out.Add(-1)
				b.Release(s, uint32(x>>12))
			}
		})
	}
	work.Wait()
	if s := b.Stats(); s.InUse != 0 || closings.Load() < 100 {
		t.Errorf("left behind: %+v; closed %d times", s, closings.Load())
	}
}

// More calls than slots wait for each other, on stripes that are opened whenever that is possible.
// A lost wake-up would leave the bubble deadlocked.
func TestNoWaiterIsForgottenWhileStripesOpenAndClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const workers, slots = 8, 4
		b := New(slots, workers, false)
		var work sync.WaitGroup
		var out, waited, kept atomic.Int32
		for n := range uint64(workers) {
			work.Go(func() {
				ring := make(ringer, 1)
				for i := range uint64(2000) {
					x := chance.Bits(n, i, 0, chance.Backoff)
					s, ok := b.TryAcquire("", uint32(x))
					if !ok {
						waited.Add(1)
						s = ring.wait(b)
					}
					if out.Add(1) > slots {
						t.Error("one too many")
					}
					if x>>16%4 == 0 {
						runtime.Gosched()
					}
					out.Add(-1)
					spreadOut(b)
					kept.Add(int32((word(b.word.Load()).used() - b.spread.out(word(b.word.Load())))))
					b.Release(s, uint32(x>>8))
				}
			})
		}
		work.Wait()
		if s := b.Stats(); s.InUse != 0 || s.Queued != 0 || waited.Load() == 0 || kept.Load() == 0 {
			t.Errorf("left behind: %+v; %d waited, %d were kept", s, waited.Load(), kept.Load())
		}
	})
}

type ringer chan struct{}

func (r ringer) Wake() {
	select {
	case r <- struct{}{}:
	default:
	}
}

func (r ringer) wait(b *Bulkhead) Slot {
	w, _ := b.Join(r, Normal, "")
	for {
		if s, a := b.Granted(w); a == Granted {
			return s
		}
		<-r
	}
}
