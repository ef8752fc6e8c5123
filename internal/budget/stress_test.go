package budget

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gabion-go/gabion/internal/chance"
	"github.com/gabion-go/gabion/internal/clock"
)

// deed is something done to a Window, between two ticks of a clock that all
// goroutines share.
type deed struct {
	kind       byte // 'd' for a deposit, 'g' for a grant, 'n' for a refusal
	begin, end int64
	at         clock.Instant
	rules      Rules
	token      Reservation
	back       int64 // when its refund began, if it was refunded
	backEnd    int64
}

// worker does things to a Window and writes them down.
type worker struct {
	w     *Window
	ticks *atomic.Int64
	id    uint32
	log   []*deed
	held  []*deed
}

func (k *worker) note(kind byte, begin int64, at clock.Instant, r Rules) *deed {
	d := &deed{kind: kind, begin: begin, end: k.ticks.Add(1), at: at, rules: r}
	k.log = append(k.log, d)
	return d
}

func (k *worker) deposit(at clock.Instant) {
	begin := k.ticks.Add(1)
	k.w.Deposit(at, k.id)
	k.note('d', begin, at, Rules{})
}

func (k *worker) withdraw(at clock.Instant, r Rules) {
	begin := k.ticks.Add(1)
	token, ok := k.w.TryWithdraw(at, r)
	if !ok {
		k.note('n', begin, at, r)
		return
	}
	d := k.note('g', begin, at, r)
	d.token = token
	k.held = append(k.held, d)
}

func (k *worker) refund(at clock.Instant, i int) {
	if i >= len(k.held) {
		return
	}
	d := k.held[i]
	k.held = append(k.held[:i], k.held[i+1:]...)
	begin := k.ticks.Add(1)
	if k.w.Refund(at, d.token) {
		d.back, d.backEnd = begin, k.ticks.Add(1)
	}
}

// act does one thing, drawn from the dice.
func (k *worker) act(at clock.Instant, r Rules, dice uint64) {
	switch dice % 16 {
	case 0, 1, 2, 3, 4:
		k.deposit(at)
	case 5, 6:
		k.refund(at, int(dice>>8%8))
	case 7:
		if dice>>8%8 == 0 {
			k.w.Level(at, r)
		}
	default:
		k.withdraw(at, r)
	}
}

// reloads are rules of which some allow what others don't.
var reloads = []Rules{{500_000, 900_000}, {1_000_000, 300_000}, {0, 1_200_000}}

// crowd lets eight goroutines act, and returns what they wrote down.
func crowd(w *Window, ticks *atomic.Int64, each int, act func(k *worker, i int)) (log []*deed) {
	var all sync.WaitGroup
	workers := make([]worker, 8)
	for id := range workers {
		k := &workers[id]
		*k = worker{w: w, ticks: ticks, id: uint32(id)}
		all.Go(func() {
			for i := range each {
				act(k, i)
			}
		})
	}
	all.Wait()
	for _, k := range workers {
		log = append(log, k.log...)
	}
	return log
}

// latest returns the newest time at which a deposit may have been counted: a caller that
// is stopped in the middle of it is overtaken by a new slice.
func latest(d *deed, log []*deed) clock.Instant {
	newest := d.at
	for _, other := range log {
		if other.begin < d.end {
			newest = max(newest, other.at)
		}
	}
	return newest
}

// check validates the promise at every grant. For it count all calls that may
// have been counted by then, and against it only re-sends that surely were
// granted before, at a time that is within the span wherever this grant belongs.
func check(w *Window, log []*deed) (grants int, wrong error) {
	span, slice := clock.Instant(w.Span()), clock.Instant(w.width)
	until := map[*deed]clock.Instant{}
	for _, d := range log {
		if d.kind == 'd' {
			until[d] = latest(d, log)
		}
	}
	for _, g := range log {
		if g.kind != 'g' {
			continue
		}
		grants++
		newest := g.at
		for _, d := range log {
			if d.begin < g.end {
				newest = max(newest, d.at)
			}
		}
		oldest := clock.Instant(floorDiv(int64(g.at), int64(slice)))*slice - span + slice
		calls, resends := int64(0), int64(0)
		for _, d := range log {
			switch {
			case d.kind == 'd' && d.begin < g.end && until[d] >= oldest:
				calls++
			case d == g, d.kind == 'g' && d.end < g.begin && d.at > newest-span && (d.back == 0 || d.back > g.end):
				resends++
			}
		}
		if most := g.rules.Allows(calls); resends > most {
			return grants, fmt.Errorf("at %d under %+v: %d re-sends for %d calls", g.at, g.rules, resends, calls)
		}
	}
	return grants, nil
}

// Eight goroutines deposit, withdraw and refund while time goes on and the rules
// change, and no grant breaks the promise.
func TestTheCrowdKeepsThePromise(t *testing.T) {
	for seed := range uint64(3) {
		w := MakeWindow(7*time.Millisecond, 8)
		var ticks, now atomic.Int64
		log := crowd(&w, &ticks, 500, func(k *worker, i int) {
			dice := chance.Bits(seed, uint64(k.id), uint64(i), 0)
			pace := int64(100) << (2 * (seed % 3))
			at := clock.Instant(now.Add(int64(dice>>32) % pace))
			k.act(at, reloads[int(at>>18)%len(reloads)], dice)
		})
		if grants, wrong := check(&w, log); wrong != nil || grants < 100 {
			t.Errorf("%d grants: %v", grants, wrong)
		}
	}
}

// When the crowd rests, the Window counts what was granted and not refunded, to
// the last one, and grants what the rules still allow, to the last one.
func TestNothingIsLostInTheCrowd(t *testing.T) {
	w := MakeWindow((slices-1)*time.Second, 8) // slices of a second
	var ticks atomic.Int64
	var log []*deed
	for round := range 40 {
		at := clock.Instant(round) * s / 5
		log = append(log, crowd(&w, &ticks, 120, func(k *worker, i int) {
			dice := chance.Bits(uint64(round), uint64(k.id), uint64(i), 1)
			k.act(at, reloads[(round/4+int(dice>>20%16/15))%len(reloads)], dice)
		})...)
		calls, resends := int64(0), int64(0)
		for _, d := range log {
			switch {
			case floorDiv(int64(d.at), int64(s)) <= floorDiv(int64(at), int64(s))-slices:
			case d.kind == 'd' && floorDiv(int64(d.at), int64(s)) > floorDiv(int64(at), int64(s))-slices+1:
				calls++
			case d.kind == 'g' && d.back == 0:
				resends++
			}
		}
		r := reloads[round%len(reloads)]
		gotCalls, got := w.Counts(at)
		if gotCalls != calls || got != resends {
			t.Fatalf("round %d: counts %d/%d, want %d/%d", round, got, gotCalls, resends, calls)
		}
		if round%10 == 9 {
			want := max(r.Allows(calls)-resends, 0)
			var spare worker
			spare.w, spare.ticks = &w, &ticks
			for range want + 1 {
				spare.id++
				spare.withdraw(at, r)
			}
			if got := int64(len(spare.held)); got != want {
				t.Fatalf("round %d: %d granted, want %d", round, got, want)
			}
			log = append(log, spare.log...)
		}
	}
}

// The crowd asks for more than there is, some of it for itself: all of it is
// granted, and not one more.
func TestTheCrowdGetsAllAndNoMore(t *testing.T) {
	for round := range 30 {
		w := MakeWindow(time.Second, 8)
		r := Rules{1_000_000, int64(round) * 37_000}
		var granted atomic.Int64
		var ticks atomic.Int64
		crowd(&w, &ticks, 60, func(k *worker, _ int) { k.deposit(0) })
		crowd(&w, &ticks, 400, func(k *worker, i int) {
			if i%16 == 0 {
				w.Level(0, r)
			}
			if _, ok := w.TryWithdraw(0, r); ok {
				granted.Add(1)
			}
		})
		if got, want := granted.Load(), r.Allows(8*60); got != want {
			t.Fatalf("%d granted, want %d", got, want)
		}
	}
}
