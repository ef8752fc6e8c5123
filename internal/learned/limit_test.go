package learned

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gabion-go/gabion/internal/clock"
)

// counting is a rule that keeps what it was asked, and moves by one each time.
type counting struct {
	limit   int
	windows []Window
	settle  time.Duration
}

func (r *counting) Judge(_ clock.Instant, w *Window) (limit, verdict int, settle time.Duration) {
	r.windows = append(r.windows, *w)
	r.limit++
	return r.limit, Anew, r.settle
}
func (r *counting) SetBounds(b Bounds) int { r.limit = b.clamp(r.limit); return r.limit }
func (r *counting) Limit() int             { return r.limit }

const ms = time.Millisecond

func TestAWindowHasWhatEndedInIt(t *testing.T) {
	r := &counting{limit: 10}
	l := New(0, r, 1)
	for i := range 20 {
		now := clock.Instant(i) * clock.Instant(10*ms)
		l.Done(now, 0, 5*ms, Worked)
		l.Done(now, 0, 7*ms, Late)
		l.Done(now, 0, 9*ms, Busy)
		l.Done(now, 0, 9*ms, Nothing)
	}
	if len(r.windows) != 1 {
		t.Fatalf("the rule was asked %d times", len(r.windows))
	}
	// The first Done of all begins the window and is not in it, and the one that asks is.
	if w := r.windows[0]; w.Good != 10 || w.Late != 10 || w.Busy != 10 || w.Time != 120*ms || w.Span != 100*ms || w.Limit != 10 {
		t.Errorf("the window is %+v", w)
	}
	if l.Limit() != 11 || l.Last().From != 10 || l.Last().To != 11 {
		t.Errorf("the limit is %d, moved by %+v", l.Limit(), l.Last())
	}
}

// Answers of a moment that were quick make late what is hurried where answers take longer, but not for ever.
func TestAQuickMomentIsForgotten(t *testing.T) {
	for _, c := range []struct {
		fact  string
		quick time.Duration // for so long answers take 2 ms, and then 100 ms
		then  time.Duration
		late  bool // what has 40 ms
	}{
		{"answers always took 100 ms", 0, time.Minute, false},
		{"answers were quick a second ago", time.Second, time.Second, true},
		{"two minutes ago", time.Second, 2 * time.Minute, false},
		{"answers are quick", time.Minute, 0, true},
	} {
		t.Run(c.fact, func(t *testing.T) {
			r := &counting{}
			l := New(0, r, 1)
			now := clock.Instant(0)
			for ; now < clock.Instant(c.quick+c.then); now = now.Add(ms) {
				took := 100 * ms
				if now < clock.Instant(c.quick) {
					took = 2 * ms
				}
				l.Done(now, 0, took, Worked)
			}
			before := l.sum().late
			l.Done(now, 0, 40*ms, Late)
			if late := l.sum().late > before; late != c.late {
				t.Errorf("late: %v; a good attempt has %v", late, time.Duration(l.brief.Load()))
			}
		})
	}
}

// C112: what was sent before the limit was moved says nothing of the new one.
func TestWhatWasSentUnderTheOldLimitIsLeftOut(t *testing.T) {
	r := &counting{limit: 10, settle: time.Second}
	l := New(0, r, 1)
	for now := clock.Instant(0); now < clock.Instant(3*time.Second); now = now.Add(10 * ms) {
		l.Done(now, 0, 5*ms, Worked)
	}
	for i, w := range r.windows {
		if w.Span > 110*ms || w.Good > 11 {
			t.Errorf("window %d spans %v", i, w.Span)
		}
	}
	if len(r.windows) != 3 {
		t.Errorf("the rule was asked %d times in 3 s", len(r.windows))
	}
}

// Many goroutines end attempts at once: none is lost, and of all those who find the
// window at its end one moves the limit.
func TestManyEndAtOnce(t *testing.T) {
	const workers, each = 8, 20_000
	r := &counting{limit: 1}
	l := New(0, r, 4)
	var clocks, moves atomic.Int64
	var wg sync.WaitGroup
	for g := range workers {
		wg.Go(func() {
			for range each {
				now := clock.Instant(clocks.Add(int64(10 * time.Microsecond)))
				if _, moved := l.Done(now, uint32(g), ms, Worked); moved {
					moves.Add(1)
				}
			}
		})
	}
	wg.Wait()
	var good int64
	for _, w := range r.windows {
		good += w.Good
		if w.Span < Every {
			t.Errorf("a window of %v", w.Span)
		}
	}
	if l.sum().good != workers*each || good > workers*each {
		t.Errorf("%d of %d are counted, %d in windows", l.sum().good, workers*each, good)
	}
	if int(moves.Load()) != len(r.windows) || len(r.windows) == 0 {
		t.Errorf("%d moves of %d windows", moves.Load(), len(r.windows))
	}
}

func TestCountingAllocatesNothing(t *testing.T) {
	l := New(0, NewRule(Bounds{1, 100}, 10), 2)
	now := clock.Instant(0)
	if n := testing.AllocsPerRun(1000, func() {
		now = now.Add(time.Microsecond)
		l.Done(now, 1, ms, Worked)
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkDone(b *testing.B) {
	l := New(0, NewRule(Bounds{1, 1000}, 100), 2)
	now := clock.Instant(0)
	for b.Loop() {
		now += 1000
		l.Done(now, 0, ms, Worked)
	}
}

func BenchmarkDoneParallel(b *testing.B) {
	l := New(0, NewRule(Bounds{1, 1000}, 100), 2)
	var shards atomic.Uint32
	b.RunParallel(func(pb *testing.PB) {
		shard, now := shards.Add(1), clock.Instant(0)
		for pb.Next() {
			now += 1000
			l.Done(now, shard, ms, Worked)
		}
	})
}
