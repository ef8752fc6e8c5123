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
		{"Release", false, func(b *Bulkhead, held Slot, _ *Waiter) { b.Release(held) }},
		{"Release", true, func(b *Bulkhead, held Slot, _ *Waiter) { b.Release(held) }},
		{"Resize", false, func(b *Bulkhead, _ Slot, _ *Waiter) { b.Resize(2, 1) }},
		{"Join that pushes out", true, func(b *Bulkhead, _ Slot, _ *Waiter) { b.Join(nil, Normal, "b") }},
	} {
		t.Run(fmt.Sprintf("%s fair=%v", c.verb, c.fair), func(t *testing.T) {
			b := New(1, 1, c.fair, 1)
			p := &prober{b: b}
			held, _ := b.TryAcquire(0, "x")
			w, _ := b.Join(p, Normal, "a")
			c.do(b, held, w)
			if p.rung != 1 || p.locked {
				t.Errorf("woken %d times, locked %v", p.rung, p.locked)
			}
		})
	}
	t.Run("Join that is granted at once", func(t *testing.T) {
		p := &prober{b: New(1, 1, false, 1)}
		p.b.Join(p, Normal, "")
		if p.rung != 1 || p.locked {
			t.Errorf("woken %d times, locked %v", p.rung, p.locked)
		}
	})
}

// A release changes the word first and passes then. Here, by hand, it is caught
// in between: a joiner who comes now must not be told that the queue is full,
// since the slot is free for the one in it.
func TestJoinPassesOnWhatAReleaseHasNotYet(t *testing.T) {
	b := New(1, 1, false, 1)
	b.TryAcquire(0, "")
	first, _ := b.Join(nil, Normal, "")
	b.word.Add(^uint64(0)) // Release, up to its pass
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

// The same moment, and somebody new who does not join: the slot is for those who
// wait.
func TestNobodyBargesBetweenReleaseAndItsPass(t *testing.T) {
	for _, fair := range []bool{false, true} {
		b := New(1, 1, fair, 1)
		b.TryAcquire(0, "a")
		b.Join(nil, Normal, "a")
		b.word.Add(^uint64(0)) // Release, up to its pass
		if _, ok := b.TryAcquire(0, "b"); ok {
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
	if n := unsafe.Sizeof(shelf{}); n != 128 {
		t.Errorf("a shelf has %d bytes", n)
	}
}

// Tenants are named by calls, perhaps by strangers: the table must not grow with
// the names.
func TestTenantsVanish(t *testing.T) {
	b := New(1, 0, true, 1)
	for i := range 10_000 {
		s, _ := b.TryAcquire(0, fmt.Sprint(i))
		b.TryAcquire(0, fmt.Sprint(-i))
		b.Join(nil, Normal, fmt.Sprint(-i))
		b.Release(s)
	}
	if len(b.tenants) != 0 || b.spares != 1 {
		t.Errorf("%d tenants and %d spares are left", len(b.tenants), b.spares)
	}
	b.Resize(10*maxSpares, 0)
	var held []Slot
	for i := range 10 * maxSpares {
		s, _ := b.TryAcquire(0, fmt.Sprint(i))
		held = append(held, s)
	}
	for _, s := range held {
		b.Release(s)
	}
	if len(b.tenants) != 0 || b.spares != maxSpares {
		t.Errorf("%d tenants and %d spares are left, at most %d", len(b.tenants), b.spares, maxSpares)
	}
}

func TestWord(t *testing.T) {
	full := word(0).withLimit(maxLimit) | detourBit | oneQueued*maxQueued | maxLimit
	if full.limit() != maxLimit || full.queued() != maxQueued || full.used() != maxLimit || !full.detour() || full.overdrawn() {
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
		{"somebody waits", word(0).withLimit(2) + 1 + oneQueued, false, false, false},
		{"fair, or there are shelves", word(0).withLimit(2) + 1 | detourBit, true, false, false},
		{"detour and somebody waits", (word(0).withLimit(2) + 1 + oneQueued) | detourBit, false, false, false},
		{"overdrawn", word(0).withLimit(2) - 1, false, false, false},
	} {
		if c.w.open() != c.open || c.w.easy() != c.easy || c.w.quiet() != c.quietOnBack {
			t.Errorf("%s: open %v, easy %v, quiet %v", c.fact, c.w.open(), c.w.easy(), c.w.quiet())
		}
	}
}

// Who finds that another was faster at the word counts it.
func TestATryThatLostIsCounted(t *testing.T) {
	b := New(8, 0, false, 2)
	for range minRaces {
		s, _ := b.tryHarder(0, "")
		b.Release(s)
	}
	if b.Shelves() == 0 {
		t.Errorf("no shelves after %d lost races", minRaces)
	}
}

// Shelves come after lost races, and later each time they were not worth it.
func TestShelvesComeWithLostRaces(t *testing.T) {
	for _, shards := range []int{0, 1, 2} {
		b := New(8, 0, false, shards)
		for range 10 * maxRaces {
			b.lostRace()
		}
		if open := b.Shelves() > 0; open != (shards > 1) {
			t.Errorf("%d shards: shelves %v", shards, open)
		}
	}
	b := New(8, 0, false, 2)
	for _, c := range []struct{ served, races int }{
		{0, minRaces},
		{worthwhile - 1, 2 * minRaces},
		{worthwhile, 4 * minRaces},
		{0, minRaces},
		{0, 2 * minRaces},
	} {
		for range c.races {
			if b.Shelves() > 0 {
				t.Fatalf("shelves after fewer than %d lost races", c.races)
			}
			b.lostRace()
		}
		if b.Shelves() == 0 {
			t.Fatalf("no shelves after %d lost races", c.races)
		}
		for range c.served {
			s, _ := b.TryAcquire(0, "")
			b.Release(s)
		}
		var all []Slot
		for range 9 { // one is refused
			s, _ := b.TryAcquire(0, "")
			all = append(all, s)
		}
		for _, s := range all {
			b.Release(s)
		}
	}
	for range 20 {
		b.OpenShelves()
		b.giveUp(true)
	}
	if b.patience != maxRaces {
		t.Errorf("%d lost races, at most %d", b.patience, maxRaces)
	}
}

func TestShelvesThatAreEmptyTooOftenAreGivenUp(t *testing.T) {
	for _, c := range []struct {
		fact               string
		limit              int
		one, burst, bursts int // calls one by one before, and then so many at once, again and again
		want               int
	}{
		{"never empty but at first", 100, 0, 20, 100, 2},
		{"nothing has come home yet", 400, 0, 150, 1, 2},
		{"empty oftener than not", 100, 0, 90, 3, 0},
		{"less often than not", 100, 0, 45, 40, 2},
		{"oftener than not, though not before", 100, 10_000, 90, 3, 0},
		{"served so often that the count is where it was", 100, 1<<servedBits - 1, 45, 40, 2},
	} {
		b := New(c.limit, 0, false, 2) // two shelves of a quarter each
		b.OpenShelves()
		for range c.one {
			s, _ := b.TryAcquire(0, "")
			b.Release(s)
		}
		for range c.bursts {
			var out []Slot
			for range c.burst {
				s, _ := b.TryAcquire(0, "")
				out = append(out, s)
			}
			for _, s := range out {
				b.Release(s)
			}
		}
		if got := b.Shelves(); got != c.want {
			t.Errorf("%s: %d shelves, want %d", c.fact, got, c.want)
		}
		patience := int32(minRaces)
		if c.want == 0 { // however much they had served
			patience *= 2
		}
		if b.patience != patience || b.races.Load() != patience {
			t.Errorf("%s: patience %d, races %d, want %d", c.fact, b.patience, b.races.Load(), patience)
		}
	}
}

// Half of the limit is for those whose shelf is empty, and shards have shelves of
// their own.
func TestHalfOfTheLimitFitsOnShelves(t *testing.T) {
	for _, c := range []struct{ limit, shards, shelves int }{{8, 2, 2}, {100, 4, 4}, {1000, 256, 128}} {
		b := New(c.limit, 0, false, c.shards)
		b.OpenShelves()
		var out []Slot
		used := map[*shelf]bool{}
		for n := range c.limit {
			s, _ := b.TryAcquire(uint32(n), "")
			out, used[s.from.shelf] = append(out, s), true
		}
		if len(used) != c.shelves {
			t.Errorf("limit %d: %d shards use %d shelves, want %d", c.limit, c.shards, len(used), c.shelves)
		}
		for _, s := range out {
			b.Release(s)
		}
		kept := word(b.word.Load()).used()
		if most := c.limit / 2; kept > most || kept <= most-len(used) {
			t.Errorf("limit %d: shelves keep %d slots, want about %d", c.limit, kept, most)
		}
	}
}

// Shelves that could not open are tried again, and those that open have no past.
func TestShelvesThatOpenBeginAnew(t *testing.T) {
	b := New(4, 0, false, 2)
	var out []Slot
	for _, c := range []struct {
		fact string
		do   func()
		want int
	}{
		{"there are too few slots", func() {}, 0},
		{"nothing is free", func() {
			b.Resize(8, 0)
			for range 8 {
				s, _ := b.TryAcquire(0, "")
				out = append(out, s)
			}
		}, 0},
		{"something is free", func() { b.Release(out[0]) }, 2},
	} {
		c.do()
		for range minRaces {
			b.lostRace()
		}
		if got := b.Shelves(); got != c.want {
			t.Fatalf("%d shelves where %s, want %d", got, c.fact, c.want)
		}
	}
	first := &(*b.last)[0]
	first.missed.Store(99)
	first.looked.Store(99)
	b.Stats()
	b.OpenShelves()
	if m, l := first.missed.Load(), first.looked.Load(); m != 0 || l != 0 {
		t.Errorf("opened anew with %d missed, and looked at %d", m, l)
	}
}

// What was of no use comes back later each time, and soon once it was of use, whoever
// ends it.
func TestPatienceIsForgottenOnceShelvesWereOfUse(t *testing.T) {
	b := New(100, 0, false, 2)
	for want := int32(2 * minRaces); want <= maxRaces; want *= 2 {
		b.OpenShelves()
		b.mu.Lock()
		b.giveUp(false)
		b.mu.Unlock()
		if b.patience != want {
			t.Fatalf("patience %d, want %d", b.patience, want)
		}
	}
	b.OpenShelves()
	b.Stats() // which ends shelves that were of no use yet
	if b.patience != maxRaces {
		t.Errorf("patience %d after a look at the numbers, want %d", b.patience, maxRaces)
	}
	b.OpenShelves()
	for range worthwhile + 1 {
		s, _ := b.TryAcquire(0, "")
		b.Release(s)
	}
	b.Stats()
	if b.patience != minRaces || b.races.Load() != minRaces {
		t.Errorf("patience %d, races %d, after shelves that served %d calls", b.patience, b.races.Load(), worthwhile)
	}
}
