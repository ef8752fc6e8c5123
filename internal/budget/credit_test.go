package budget

import (
	"testing"
	"time"
	"unsafe"

	"github.com/gabion-go/gabion/internal/chance"
	"github.com/gabion-go/gabion/internal/clock"
)

// twins are a Window of one shard, which knows no credits, and one of several, to
// which the same happens.
type twins struct {
	one, many Window
	held      [][2]Reservation
	spent     int // grants by a credit
}

// bothWithdraw asks both, and fails unless they agree.
func (w *twins) bothWithdraw(t *testing.T, now clock.Instant, shard uint32, r Rules) bool {
	t.Helper()
	before := w.rest(shard)
	a, want := w.one.TryWithdraw(now, shard, r)
	b, got := w.many.TryWithdraw(now, shard, r)
	if got != want {
		t.Fatalf("at %d under %+v: granted %v with shards, %v without", now, r, got, want)
	}
	if got {
		w.held = append(w.held, [2]Reservation{a, b})
	}
	if w.rest(shard) == before-1 {
		w.spent++
	}
	return got
}

func (w *twins) rest(shard uint32) int64 {
	return credits(w.many.sends.Beside(shard)[0].Load()).rest()
}

func (w *twins) bothRefund(t *testing.T, now clock.Instant, i int) {
	t.Helper()
	want, got := w.one.Refund(now, w.held[i][0]), w.many.Refund(now, w.held[i][1])
	if got != want {
		t.Fatalf("at %d: refunded %v with shards, %v without", now, got, want)
	}
	w.held = append(w.held[:i], w.held[i+1:]...)
}

func (w *twins) bothCount(t *testing.T, now clock.Instant, r Rules) {
	t.Helper()
	wantCalls, want := w.one.Counts(now, r)
	calls, resends := w.many.Counts(now, r)
	if calls != wantCalls || resends != want || w.many.Level(now, r) != w.one.Level(now, r) {
		t.Fatalf("at %d under %+v: counts %d/%d with shards, %d/%d without", now, r, resends, calls, want, wantCalls)
	}
}

// playTwins runs a script, three bytes a step, on both.
func playTwins(t *testing.T, shards uint8, script []byte) (spent int) {
	const span = 7000 * grain
	w := &twins{one: Make(span, 1), many: Make(span, 2+int(shards)%15)}
	reloads := []Rules{{100_000, 900_000}, {2_000_000, 0}, {500_000, 90_000}, {0, 4_000_000}}
	r := reloads[0]
	now := clock.Instant(-30 * span)
	for ; len(script) >= 3; script = script[3:] {
		step, verb, n := script[0], script[1], int(script[2])
		switch {
		case step < 128: // no time passes
		case step < 240:
			now += clock.Instant(step) * clock.Instant(step) * clock.Instant(grain) / 64
		case step < 250:
			now += clock.Instant(step-240) * clock.Instant(span) / 7
		default:
			now -= clock.Instant(step-249) * clock.Instant(span) / 20
		}
		switch shard := uint32(n); {
		case verb < 60:
			for range n {
				w.one.Deposit(now, shard)
				w.many.Deposit(now, shard)
			}
		case verb < 190:
			for range 1 + n/8 {
				if !w.bothWithdraw(t, now, shard, r) {
					break
				}
			}
		case verb < 220:
			if len(w.held) > 0 {
				w.bothRefund(t, now, len(w.held)-1-n%len(w.held))
			}
		case verb < 240:
			w.bothCount(t, now, r)
		case verb < 252:
			r = reloads[n%len(reloads)]
		default:
			w.one.Resize(now, span*time.Duration(1+n%2))
			w.many.Resize(now, span*time.Duration(1+n%2))
			w.held = nil
		}
	}
	w.bothCount(t, now, r)
	return w.spent
}

func FuzzShardsDecideAsOne(f *testing.F) {
	f.Add(uint8(2), []byte{0, 0, 200, 0, 100, 255, 150, 100, 80, 0, 245, 1, 0, 100, 40, 242, 100, 255, 0, 210, 0})
	f.Fuzz(func(t *testing.T, shards uint8, script []byte) {
		playTwins(t, shards, script[:min(len(script), 1500)])
	})
}

func TestShardsDecideAsOne(t *testing.T) {
	spent := 0
	for seed := range uint64(60) {
		script := make([]byte, 1500)
		for i := range script {
			script[i] = byte(chance.Bits(seed, uint64(i), 1, 0) >> 32)
			if i%3 == 0 && seed%3 > 0 { // little time passes
				script[i] >>= seed % 3
			}
		}
		spent += playTwins(t, uint8(seed), script)
	}
	if spent < 3_000 {
		t.Errorf("only %d credits were spent", spent)
	}
}

// generous leave so much that credits are given out.
var generous = Rules{0, 2_000_000}

// lent returns a Window of four shards with so many credits on shard 1, and as
// many re-sends granted as it takes to get them.
func lent(t *testing.T, r Rules, want int64) *Window {
	w := Make((slices-1)*time.Second, 4) // slices of a second
	if _, ok := w.TryWithdraw(0, 1, r); !ok {
		t.Fatal("refused")
	}
	if got := credits(w.sends.Beside(1)[0].Load()).rest(); got != want {
		t.Fatalf("%d credits, want %d", got, want)
	}
	return &w
}

func TestCredits(t *testing.T) {
	rest := func(w *Window, shard uint32) int64 { return credits(w.sends.Beside(shard)[0].Load()).rest() }
	for fact, check := range map[string]func(t *testing.T, w *Window){
		"are spent without the lock": func(t *testing.T, w *Window) {
			w.mu.Lock()
			defer w.mu.Unlock()
			if _, ok := w.TryWithdraw(1, 1, generous); !ok || rest(w, 1) != largest-2 {
				t.Error("refused")
			}
		},
		"are spent by one who waited for the lock while they came": func(t *testing.T, w *Window) {
			_, ok := w.withdraw(1, 1, generous)
			if _, resends := w.Counts(1, generous); !ok || resends != 2 {
				t.Errorf("granted %v, %d re-sends", ok, resends)
			}
		},
		"are of one shard": func(t *testing.T, w *Window) {
			w.TryWithdraw(1, 2, generous)
			if rest(w, 1) != largest-1 || rest(w, 2) != largest-1 {
				t.Error("shard 2 took one of shard 1")
			}
		},
		"are not counted": func(t *testing.T, w *Window) {
			if _, resends := w.Counts(1, generous); resends != 1 {
				t.Errorf("%d re-sends", resends)
			}
		},
		"die with their slice": func(t *testing.T, w *Window) {
			w.TryWithdraw(s, 1, generous)
			if _, resends := w.Counts(s, generous); resends != 2 || rest(w, 1) != 0 {
				t.Errorf("%d re-sends", resends)
			}
		},
		"die with their slice also when nobody asked in the next": func(t *testing.T, w *Window) {
			w.Deposit(s, 1)
			if _, ok := w.spend(0, 1, generous); ok {
				t.Error("spent when the slice was over")
			}
		},
		"are not good from the end of their slice on": func(t *testing.T, w *Window) {
			if _, ok := w.spend(s, 1, generous); ok {
				t.Error("spent in the next slice, which nobody has seen")
			}
		},
		"die with another ratio": func(t *testing.T, w *Window) {
			other := Rules{1, generous.FloorMilli}
			if _, ok := w.spend(0, 1, other); ok {
				t.Error("spent under other rules")
			}
			w.TryWithdraw(0, 1, other)
			if _, ok := w.spend(0, 1, other); !ok {
				t.Error("not spent under the rules that they are for")
			}
		},
		"die with other rules": func(t *testing.T, w *Window) {
			other := Rules{0, 1_999_000}
			if _, ok := w.spend(0, 1, other); ok {
				t.Fatal("spent under other rules")
			}
			w.TryWithdraw(0, 2, other)
			if rest(w, 1) != 0 || w.Level(0, other) != 1997 {
				t.Errorf("%d left with %d credits out", w.Level(0, other), rest(w, 1))
			}
		},
		"die with a resize": func(t *testing.T, w *Window) {
			w.Resize(0, (slices-1)*time.Second)
			if _, ok := w.spend(0, 1, generous); ok || w.Level(0, generous) != 2000 {
				t.Error("spent after a resize")
			}
		},
		"are called in before anybody is refused": func(t *testing.T, w *Window) {
			if got := withdraw(w, 0, generous); got != 1999 {
				t.Errorf("%d granted, want 1999", got)
			}
		},
		"are refunded once spent": func(t *testing.T, w *Window) {
			res, _ := w.TryWithdraw(500*ms, 1, generous)
			if _, resends := w.Counts(500*ms, generous); !w.Refund(s, res) || resends != 2 || w.Level(s, generous) != 1999 {
				t.Errorf("level %d, and %d re-sends before", w.Level(s, generous), resends)
			}
		},
		"spent are grants, a span after which the floor is back": func(t *testing.T, w *Window) {
			w.TryWithdraw(500*ms, 1, generous)
			for range 1998 {
				w.TryWithdraw(0, 1, generous)
			}
			w.Deposit(s, 0)
			backAt(t, w, generous, (slices-1)*s+500*ms)
		},
		"are no grants when they are called in for somebody who is refused": func(t *testing.T, w *Window) {
			if _, ok := w.TryWithdraw(3*s, 2, floor(1)); ok {
				t.Error("granted")
			}
			if got := w.Level((slices-1)*s-1, generous); got != 1999 {
				t.Errorf("level %d before a span is over, want 1999", got)
			}
			if got := w.Level((slices-1)*s, generous); got != 2000 {
				t.Errorf("level %d a span later, want 2000", got)
			}
		},
	} {
		t.Run(fact, func(t *testing.T) { check(t, lent(t, generous, largest-1)) })
	}
}

// backAt fails unless the whole floor is back at that time, and nothing before.
func backAt(t *testing.T, w *Window, r Rules, at clock.Instant) {
	t.Helper()
	if got := w.Level(at-1, r); got != 0 {
		t.Errorf("%d are back too early", got)
	}
	if got, want := w.Level(at, r), r.FloorMilli/1000; got != want {
		t.Errorf("%d are back a span later, want %d", got, want)
	}
}

// A grant that is no credit, while some are out, is the newest all the same.
func TestWhatIsGrantedBesideCreditsIsRemembered(t *testing.T) {
	r := floor(33)
	w := lent(t, r, 1)
	w.TryWithdraw(500*ms, 1, r)
	for range 31 {
		w.TryWithdraw(800*ms, 2, r)
	}
	backAt(t, w, r, (slices-1)*s+800*ms)
}

// Refusals of an outage take no lock: a thousand callers don't queue to be told no.
func TestRefusalsTakeNoLock(t *testing.T) {
	w := Make(time.Second, 8)
	r := NewRules(0, 500, time.Second)
	withdraw(&w, 0, r)
	w.mu.Lock()
	defer w.mu.Unlock()
	for shard := range uint32(8) {
		if _, ok := w.TryWithdraw(0, shard, r); ok {
			t.Error("granted")
		}
	}
}

// A look that says too little is left must not hide what time gave back, also to one
// whose clock is behind.
func TestALookRefusesNothingThatMayBeForgotten(t *testing.T) {
	for _, shards := range []int{1, 4} {
		w := Make((slices-1)*time.Second, shards)
		r := floor(2)
		withdraw(&w, 0, r)
		if _, ok := w.TryWithdraw((slices-1)*s-1, 0, r); ok {
			t.Errorf("%d shards: granted before the span was over", shards)
		}
		w.Deposit((slices-1)*s, 0)
		for _, at := range []clock.Instant{(slices-1)*s - 1, (slices - 1) * s} {
			if _, ok := w.TryWithdraw(at, 0, r); !ok {
				t.Errorf("%d shards: refused at %d, when the span was over", shards, at)
			}
		}
		w = Make((slices-1)*time.Second, shards)
		w.TryWithdraw(0, 0, r)
		w.Deposit((slices-1)*s, 0)
		if got := withdraw(&w, (slices-1)*s, r); got != 2 {
			t.Errorf("%d shards: %d granted a span after one of two, want both", shards, got)
		}
	}
}

// What was seen without the lock is not believed once it may be too much.
func TestALookGrowsOld(t *testing.T) {
	ratio, floor := Rules{RatioPPM: million}, Rules{FloorMilli: 1000}
	for fact, c := range map[string]struct {
		r    Rules
		then func(w *Window)
		want bool
	}{
		"when nothing happens it stands":      {floor, func(*Window) {}, true},
		"a call more makes it no worse":       {ratio, func(w *Window) { w.Deposit(0, 1) }, true},
		"a grant to another makes it too old": {floor, func(w *Window) { w.TryWithdraw(0, 1, floor) }, false},
		"so does a turn, which forgets calls": {ratio, func(w *Window) { w.Deposit(slices*s, 1) }, false},
	} {
		w := Make((slices-1)*time.Second, 4)
		w.Deposit(0, 0)
		seen := w.look(0)
		c.then(&w)
		if got := w.stands(&seen); got != c.want {
			t.Errorf("%s: stands %v", fact, got)
		}
	}
}

func TestLongSlicesHaveNoCredits(t *testing.T) {
	w := Make(1000*time.Hour, 4)
	if w.TryWithdraw(0, 1, generous); w.out() {
		t.Error("credits are out")
	}
}

// Who was stopped in the middle of spending a credit must not take one that was
// issued since, for other rules perhaps, for that one.
func TestBatchesAreToldApart(t *testing.T) {
	w := lent(t, generous, largest-1)
	first := w.sends.Beside(1)[0].Load()
	w.Counts(0, generous)
	w.TryWithdraw(0, 1, Rules{0, 1_999_000})
	if second := w.sends.Beside(1)[0].Load(); credits(second).rest() != largest-1 || second == first {
		t.Errorf("%x, then %x", first, second)
	}
}

// An unspent rest is bounded: a quarter of what is left would do for all shards.
func TestBatch(t *testing.T) {
	w := Make(time.Second, 4)
	for left, want := range map[int64]int64{1: 1, 16: 1, 31: 1, 32: 2, 160: 10, 1 << 20: largest, most: largest} {
		if got := w.batch(left); got != want {
			t.Errorf("%d of %d, want %d", got, left, want)
		}
	}
}

func TestLinesOfShardsAreCacheLines(t *testing.T) {
	for _, shards := range []int{2, 4, 8, 64, 256} {
		w := Make(time.Second, shards)
		for i := range uint32(shards) {
			if at := uintptr(unsafe.Pointer(w.sends.Beside(i))); at%64 != 0 {
				t.Errorf("%d shards: line %d lies at %d", shards, i, at%64)
			}
		}
	}
}

// A re-send that was counted in the next slice is refunded from its own, and takes an
// unspent credit's place there: calling in takes what is left of them.
func TestCreditsThatARefundTookAreNotMissed(t *testing.T) {
	w := Make((slices-1)*time.Second, 4)
	r := Rules{0, 2_000_000}
	first, _ := w.TryWithdraw(0, 1, r)
	w.mu.Lock()
	w.sends.Add(clock.Instant(time.Second), 0, 0, 1, 0) // decided in the slice before
	w.mu.Unlock()
	second := Reservation{clock.Instant(time.Second - 1), true}
	if !w.Refund(clock.Instant(time.Second), first) || !w.Refund(clock.Instant(time.Second), second) {
		t.Fatal("not refunded")
	}
	if got := w.Level(clock.Instant(time.Second), r); got != 1999 {
		t.Errorf("level %d, want all but the one in the next slice", got)
	}
}
