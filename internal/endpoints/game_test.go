package endpoints

import (
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/gabion-go/gabion/internal/clock"
)

func listOf(n int, r Rules) *List {
	l := &List{Rules: r}
	for range n {
		l.All = append(l.All, new(Endpoint))
	}
	return l
}

func draws(r *rand.Rand) [3]float64 { return [3]float64{r.Float64(), r.Float64(), r.Float64()} }

// naive says which endpoints an attempt may go to, from nothing but the facts.
func naive(l *List, q *Query, ejected Set) (may Set) {
	n := len(l.All)
	working := 0
	for i := range n {
		if !q.Out.Has(i) && !q.Due.Has(i) {
			working++
		}
	}
	for i := range n {
		works := !q.Out.Has(i) && !q.Due.Has(i)
		probe := q.Due.Has(i) && !q.Tried.Has(i) && (working == 0 || q.First && (q.Moves || q.Late.Has(i)))
		past := q.First && !l.Rules.Ordered && !ejected.Has(i)
		if works || working == 0 || probe || past {
			may |= Of(i)
		}
	}
	return may
}

func FuzzPick(f *testing.F) {
	f.Add(uint64(1), uint8(3), true)
	f.Add(uint64(7), uint8(63), false)
	f.Fuzz(func(t *testing.T, seed uint64, n uint8, ordered bool) { play(t, seed, int(n%Max)+1, ordered, 300) })
}

func TestRandomGames(t *testing.T) {
	for seed := range uint64(120) {
		play(t, seed, int(seed%12)+1, seed%2 == 0, 400)
	}
}

// play moves endpoints at random and checks each choice: it is one that the rules allow, no more than
// the bound are left out, one is always chosen, and a call goes where it was not as long as that works.
func play(t *testing.T, seed uint64, n int, ordered bool, moves int) {
	r := rand.New(rand.NewPCG(seed, 1))
	l := listOf(n, Rules{Ordered: ordered, Standing: r.Float64() * 0.2, Ejected: r.Float64(), SlowStart: time.Duration(r.Int64N(int64(10 * time.Second)))})
	out := make([]int, n)
	var q Query
	now := clock.Instant(-5 * time.Second)
	for range moves {
		now = now.Add(time.Duration(r.Int64N(int64(300 * time.Millisecond))))
		i := r.IntN(n)
		switch r.IntN(6) {
		case 0:
			q.Out ^= Of(i)
		case 1:
			q.Due ^= Of(i)
		case 2:
			q.Tried = Set(r.Uint64()) & l.all()
		case 3:
			if out[i] > 0 {
				out[i]--
				l.All[i].Leave(now, time.Duration(r.Int64N(int64(time.Second))), Result(r.IntN(3)))
			}
		}
		q.Late, q.Shut = Set(r.Uint64()&r.Uint64()), q.Out&^q.Due&Set(r.Uint64()&r.Uint64())
		q.First, q.Moves, q.U = r.IntN(2) == 0, r.IntN(2) == 0, draws(r)
		if q.First {
			q.Tried = 0
		}
		gone := q.Out | q.Due
		l.Note(now, gone)
		ejected := l.Ejected(gone)
		if most := max(int(l.Rules.Ejected*float64(n)), 1); ejected.Len() > most || ejected == l.all() || ejected&^gone != 0 {
			t.Fatalf("seed %d: %b of %d are left out, the bound is %d", seed, ejected, n, most)
		}
		at, why := l.Pick(now, &q)
		may := naive(l, &q, ejected)
		if gone == l.all() && may&^q.Shut != 0 {
			may &^= q.Shut
		}
		switch {
		case at < 0 || at >= n || !may.Has(at):
			t.Fatalf("seed %d: went to %d of %d, may go to %b: %+v", seed, at, n, may, q)
		case why == Panicked != (gone == l.all() && !(q.Due.Has(at) && !q.Tried.Has(at))):
			t.Fatalf("seed %d: %d of %d, why %d: %+v", seed, at, n, why, q)
		case why != Probe && q.Tried.Has(at) && l.all()&^gone&^q.Tried != 0:
			t.Fatalf("seed %d: went again to %d: %+v", seed, at, q)
		case why == Standing && (!ordered || !q.First || !q.Moves):
			t.Fatalf("seed %d: standing traffic of %+v", seed, q)
		}
		l.All[at].Enter(now)
		out[at]++
		for i, e := range l.All {
			if got := e.Stats(now); got.Out != out[i] || got.Cost < 0 || got.Cost > mostCost {
				t.Fatalf("seed %d: %+v, %d are out", seed, got, out[i])
			}
		}
	}
}

// spread is how many of many attempts each endpoint gets, none of which lasts.
func spread(l *List, now clock.Instant, n int, q Query) []int {
	r, got := rand.New(rand.NewPCG(3, 1)), make([]int, len(l.All))
	for range n {
		q.U = draws(r)
		at, _ := l.Pick(now, &q)
		got[at]++
	}
	return got
}

func TestTheBackupGetsItsShare(t *testing.T) {
	l := listOf(2, Rules{Ordered: true, Standing: 0.01})
	for _, c := range []struct {
		fact string
		q    Query
		low  int
		high int
	}{
		{"of first attempts that are safe to move", Query{First: true, Moves: true}, 850, 1150},
		{"none of keyed ones", Query{First: true}, 0, 0},
		{"all where the primary is out", Query{First: true, Out: Of(0)}, 100_000, 100_000},
		{"each retry", Query{Tried: Of(0), Moves: true}, 100_000, 100_000},
	} {
		if got := spread(l, 1, 100_000, c.q); got[1] < c.low || got[1] > c.high {
			t.Errorf("%s: %v", c.fact, got)
		}
	}
}

func TestOneThatReturnsStartsSlowly(t *testing.T) {
	for _, ordered := range []bool{true, false} {
		l := listOf(2, Rules{Ordered: ordered, Ejected: 0.5, SlowStart: 10 * time.Second})
		l.Note(0, Of(0))
		l.Note(clock.Instant(time.Second), 0)
		usual := 100_000
		if !ordered {
			usual /= 2
		}
		for _, c := range []struct {
			after time.Duration
			share float64
		}{{0, 0.1}, {2 * time.Second, 0.2}, {5 * time.Second, 0.5}, {10 * time.Second, 1}} {
			got := spread(l, clock.Instant(time.Second+c.after), 100_000, Query{First: true})[0]
			want := c.share * float64(usual)
			if float64(got) < 0.9*want || float64(got) > 1.1*want {
				t.Errorf("ordered %v, after %v: %d attempts, want about %.0f", ordered, c.after, got, want)
			}
		}
	}
}

// An endpoint that is slow, or fails quickly, is avoided before any breaker knows of it, and tried again later.
func TestTheBetterOfTwoIsTaken(t *testing.T) {
	for _, c := range []struct {
		fact string
		took time.Duration
		r    Result
	}{
		{"ten times slower", 100 * time.Millisecond, Good},
		{"fails at once", time.Microsecond, Bad},
		{"is given up late", 100 * time.Millisecond, Nothing},
	} {
		l := listOf(3, Rules{})
		now := clock.Instant(0)
		for range 30 {
			now = now.Add(10 * time.Millisecond)
			for i, e := range l.All {
				e.Enter(now)
				if i == 0 {
					e.Leave(now, 10*time.Millisecond, Good)
					e.Enter(now)
					e.Leave(now, c.took, c.r)
				} else {
					e.Leave(now, 10*time.Millisecond, Good)
				}
			}
		}
		if got := spread(l, now, 3000, Query{First: true}); got[0] != 0 || got[1] < 1300 || got[2] < 1300 {
			t.Errorf("%s: %v", c.fact, got)
		}
		later := now.Add(time.Hour) // what was known of it counts for nothing any more
		for _, e := range l.All[1:] {
			e.Enter(later)
			e.Leave(later, 10*time.Millisecond, Good)
		}
		if got := spread(l, later, 3000, Query{First: true}); got[0] < 1800 {
			t.Errorf("%s: after an hour %v", c.fact, got)
		}
	}
}

func TestSilence(t *testing.T) {
	var e Endpoint
	for range silentOut - 1 {
		e.Enter(0)
	}
	s := clock.Instant(time.Second)
	if e.Silent(s + 1) {
		t.Error("too few are out")
	}
	e.Enter(0)
	if e.Silent(s/2) || !e.Silent(s/2+1) {
		t.Error("it is silent when more than half a second has passed")
	}
	e.Leave(s, time.Second, Good)
	e.Enter(s)
	if e.Silent(9*s) || !e.Silent(9*s+1) {
		t.Error("it is silent when more than eight times what one takes has passed")
	}
}

// What one call asks of its endpoints. Go: go test -run xxx -bench Choice -cpu 2 ./internal/endpoints
func BenchmarkChoice(b *testing.B) {
	for _, n := range []int{1, 3, 10} {
		l := listOf(n, Rules{Ejected: 0.5})
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			b.RunParallel(func(pb *testing.PB) {
				q := Query{First: true, Moves: true, U: [3]float64{0.3, 0.4, 0.7}}
				for pb.Next() {
					for i, e := range l.All {
						if e.Silent(0) {
							q.Out |= Of(i)
						}
					}
					l.Note(0, q.Out)
					i, _ := l.Pick(0, &q)
					l.All[i].Enter(0)
					l.All[i].Leave(0, 1, Good)
				}
			})
		})
	}
}
