package bulkhead

import (
	"fmt"
	"testing"
	"unsafe"
)

// prober is woken and looks whether the bulkhead is locked.
type prober struct {
	b      *Bulkhead
	rung   int
	locked bool
}

func (p *prober) Wake() {
	p.rung++
	if !p.b.mu.TryLock() {
		p.locked = true
		return
	}
	p.b.mu.Unlock()
}

func TestWakeIsCalledOutsideTheLock(t *testing.T) {
	for _, c := range []struct {
		verb string
		fair bool
		do   func(b *Bulkhead, held Slot, first *Waiter)
	}{
		{"Release", false, func(b *Bulkhead, held Slot, _ *Waiter) { b.Release(held, 0) }},
		{"Release", true, func(b *Bulkhead, held Slot, _ *Waiter) { b.Release(held, 0) }},
		{"Resize", false, func(b *Bulkhead, _ Slot, _ *Waiter) { b.Resize(2, 1) }},
		{"Join that pushes out", true, func(b *Bulkhead, _ Slot, _ *Waiter) { b.Join(nil, Normal, "b") }},
	} {
		t.Run(fmt.Sprintf("%s fair=%v", c.verb, c.fair), func(t *testing.T) {
			b := New(1, 1, c.fair)
			p := &prober{b: b}
			held, _ := b.TryAcquire("x", 0)
			w, _ := b.Join(p, Normal, "a")
			c.do(b, held, w)
			if p.rung != 1 || p.locked {
				t.Errorf("woken %d times, locked %v", p.rung, p.locked)
			}
		})
	}
	t.Run("Join that is granted at once", func(t *testing.T) {
		p := &prober{b: New(1, 1, false)}
		p.b.Join(p, Normal, "")
		if p.rung != 1 || p.locked {
			t.Errorf("woken %d times, locked %v", p.rung, p.locked)
		}
	})
}

// A release changes the word first and hands over then. Here it is stopped in between,
// by hand: one that joins now must not be told that the queue is full, since the slot is
// free for the one in it.
func TestJoinHandsOverWhatAReleaseHasNotYet(t *testing.T) {
	b := New(1, 1, false)
	b.TryAcquire("", 0)
	first, _ := b.Join(nil, Normal, "")
	b.word.Add(^uint64(0)) // Release, before it hands over
	second, ok := b.Join(nil, Normal, "")
	if !ok {
		t.Fatal("the queue is full of one who has a slot")
	}
	if _, a := b.Granted(first); a != Granted {
		t.Fatalf("the first in the queue got %d", a)
	}
	if _, a := b.Granted(second); a != Waiting {
		t.Fatalf("the second overtook: %d", a)
	}
}

// The same moment, and a new call that does not join: the slot is for the waiter.
func TestNoNewCallTakesASlotThatIsBeingHandedOver(t *testing.T) {
	for _, fair := range []bool{false, true} {
		b := New(1, 1, fair)
		b.TryAcquire("a", 0)
		b.Join(nil, Normal, "a")
		b.word.Add(^uint64(0)) // Release, before it hands over
		if _, ok := b.TryAcquire("b", 0); ok {
			t.Errorf("fair %v: overtaken", fair)
		}
	}
}

func TestSizes(t *testing.T) {
	if n := unsafe.Sizeof(Slot{}); n > 8 {
		t.Errorf("a Slot has %d bytes", n)
	}
	if n := unsafe.Sizeof(Waiter{}); n > 64 {
		t.Errorf("a Waiter has %d bytes", n)
	}
	if n := unsafe.Sizeof(Bulkhead{}); n > 416 {
		t.Errorf("a Bulkhead has %d bytes", n)
	}
}

// Tenants are named by calls, perhaps by strangers: the table must not grow with
// the names.
func TestTenantsVanish(t *testing.T) {
	b := New(1, 0, true)
	for i := range 10_000 {
		s, _ := b.TryAcquire(fmt.Sprint(i), 0)
		b.TryAcquire(fmt.Sprint(-i), 0)
		b.Join(nil, Normal, fmt.Sprint(-i))
		b.Release(s, 0)
	}
	if len(b.tenants) != 0 || b.spares != 1 {
		t.Errorf("%d tenants and %d spares are left", len(b.tenants), b.spares)
	}
	b.Resize(10*maxSpares, 0)
	var held []Slot
	for i := range 10 * maxSpares {
		s, _ := b.TryAcquire(fmt.Sprint(i), 0)
		held = append(held, s)
	}
	for _, s := range held {
		b.Release(s, 0)
	}
	if len(b.tenants) != 0 || b.spares != maxSpares {
		t.Errorf("%d tenants and %d spares are left, at most %d", len(b.tenants), b.spares, maxSpares)
	}
}

func TestWord(t *testing.T) {
	full := word(0).withLimit(maxLimit) | fairBit | oneQueued*maxQueued | maxLimit
	if full.limit() != maxLimit || full.queued() != maxQueued || full.used() != maxLimit || !full.fair() || full.overdrawn() {
		t.Errorf("%x: fields run into each other", full)
	}
	if w := full.withLimit(0); w.limit() != 0 || w|word(maxLimit)<<limitShift != full {
		t.Errorf("%x: withLimit touches more than the limit", w)
	}
	for _, c := range []struct {
		fact        string
		w           word
		open, easy  bool
		quietOnBack bool
	}{
		{"free", word(0).withLimit(2) + 1, true, true, true},
		{"full", word(0).withLimit(2) + 2, false, false, true},
		{"over after a shrink", word(0).withLimit(2) + 3, false, false, true},
		{"a call waits", word(0).withLimit(2) + 1 + oneQueued, false, false, false},
		{"fair", word(0).withLimit(2) + 1 | fairBit, true, false, false},
		{"fair and a call waits", (word(0).withLimit(2) + 1 + oneQueued) | fairBit, false, false, false},
		{"overdrawn", word(0).withLimit(2) - 1, false, false, false},
	} {
		if c.w.open() != c.open || c.w.easy() != c.easy || c.w.quiet() != c.quietOnBack {
			t.Errorf("%s: open %v, easy %v, quiet %v", c.fact, c.w.open(), c.w.easy(), c.w.quiet())
		}
	}
}
