package budget

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/internal/testrace"
)

// earnings is what happened to a budget, for a model that looks at all of it.
type earnings struct {
	earned []clock.Instant
	taken  []struct {
		at clock.Instant
		n  int64
	}
}

// in returns how many successes were in (from, to].
func (h *earnings) in(from, to clock.Instant) (n int64) {
	for _, at := range h.earned {
		if at > from && at <= to {
			n++
		}
	}
	return n
}

// The promise of Earned, in every span between any two moments of random histories.
func TestEarnedKeepsItsPromiseInEverySpan(t *testing.T) {
	testrace.Serial(t)
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		rules := NewEarnedRules([]float64{0.1, 0.2, 1}[r.IntN(3)], []time.Duration{time.Second, 10 * time.Second}[r.IntN(2)],
			[]float64{0, 0.5, 1.5, 3}[r.IntN(4)], []float64{0, 0.4, 1}[r.IntN(3)])
		rules.Start = min(rules.Start, rules.Reserve)
		e, h, now := MakeEarned(rules, 1), earnings{}, clock.Instant(r.Int64N(1e9)-5e8)
		moments := []clock.Instant{now - 1}
		for range 400 {
			now = now.Add(time.Duration(r.ExpFloat64() * float64(rules.Window) / []float64{1, 10, 100}[r.IntN(3)]))
			switch r.IntN(6) {
			case 0, 1, 2:
				e.Earn(now, 0, &rules)
				h.earned = append(h.earned, now)
			case 3, 4:
				before := e.Level(now, &rules)
				ok, _ := e.TryWithdraw(now, &rules, r.Float64())
				h.taken = append(h.taken, struct {
					at clock.Instant
					n  int64
				}{now, before - e.Level(now, &rules)}) // a draw that is lost is paid, too
				switch back := r.IntN(8); {
				case !ok:
				case back < 2:
					e.Refund()
					h.taken[len(h.taken)-1].n -= million
				case back < 4:
					e.End(true, true)
					h.taken[len(h.taken)-1].n -= 3 * million / 2
				default:
					e.End(back == 4, false)
				}
			case 5:
				moments = append(moments, now)
			}
		}
		moments = append(moments, now)
		for i, from := range moments {
			for _, to := range moments[i+1:] {
				sum := int64(0)
				for _, w := range h.taken {
					if w.at > from && w.at <= to {
						sum += w.n
					}
				}
				most := rules.Ratio * h.in(from.Add(-rules.Window), to)
				if rules.Reserve > 0 {
					most += rules.Reserve + mostProven*million
				}
				if sum > most {
					t.Fatalf("seed %d, %+v: %d millionths between %d and %d, promised at most %d", seed, rules, sum, from, to, most)
				}
			}
		}
	}
}

// naiveEarned is an Earned that looks through all successes. Its window is exact, and
// may be shorter: what an Earned keeps lies between one that looks three quarters of the
// window back and one that looks back all of it.
type naiveEarned struct {
	rules   EarnedRules
	back    time.Duration
	level   int64
	earned  []clock.Instant
	counted int
	proven  int // in successes: 200 are one
}

// end is the end of a re-send.
func (m *naiveEarned) end(succeeded bool) {
	if !succeeded {
		m.proven = max(m.proven-200, 0)
		return
	}
	m.level += 3 * million / 2
	m.proven = min(m.proven+200, 800)
}

func (m *naiveEarned) look(now clock.Instant) int64 {
	in := int64(0)
	for _, at := range m.earned {
		if at > now.Add(-m.back) {
			in++
		}
	}
	m.proven = max(m.proven-(len(m.earned)-m.counted), 0)
	reserve := m.rules.Reserve
	if reserve > 0 {
		reserve += int64(m.proven) * million / 200
	}
	m.level = min(m.level+m.rules.Ratio*int64(len(m.earned)-m.counted), max(m.rules.Ratio*in, reserve))
	m.counted = len(m.earned)
	return m.level
}

func FuzzEarnedAgreesWithNaive(f *testing.F) {
	f.Add(uint64(1), []byte("aaaaawwaaaaaaaaaaw"))
	f.Add(uint64(3), []byte{0, 250, 252, 0, 0, 251, 0, 1, 5, 9, 254, 254, 0})
	f.Add(uint64(7), []byte{0, 200, 40, 200, 1, 2, 3, 250, 250, 9, 90, 91})
	f.Fuzz(func(t *testing.T, seed uint64, script []byte) {
		rules := NewEarnedRules(float64(seed%5)/4, time.Duration(seed%7+1)*time.Second, float64(seed%4)/2, 0)
		e := MakeEarned(rules, 1)
		low := naiveEarned{rules: rules, back: rules.Window*3/4 - marks}
		high := naiveEarned{rules: rules, back: rules.Window}
		now := clock.Instant(seed % 1000)
		for i, op := range script[:min(len(script), 300)] {
			now = now.Add(time.Duration(op>>2) * 13 * time.Millisecond)
			if op&3 != 0 && op < 250 {
				e.Earn(now, 0, &rules)
				low.earned, high.earned = append(low.earned, now), append(high.earned, now)
				continue
			}
			if op >= 250 { // a re-send ends: the level is looked at before, so that all three have forgotten as much
				e.Level(now, &rules)
				low.look(now)
				high.look(now)
				e.End(op&1 == 0, true)
				low.end(op&1 == 0)
				high.end(op&1 == 0)
				continue
			}
			got, least, most := e.Level(now, &rules), low.look(now), high.look(now)
			if got < least || got > most {
				t.Fatalf("step %d at %d: %d, want %d to %d", i, now, got, least, most)
			}
			if ok, _ := e.TryWithdraw(now, &rules, 0.5); ok != (min(got, million) > million/2) {
				t.Fatalf("step %d: of %d millionths one was granted: %v", i, got, ok)
			}
			if spent := min(max(got, 0), million); spent > 0 { // whether it was granted or not
				low.level, high.level = min(max(low.level-million, 0), got-spent), high.level-spent
			}
		}
	})
}
