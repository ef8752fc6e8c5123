package ratelimit

import (
	"slices"
	"testing"
	"time"

	"github.com/gabion-go/gabion/internal/chance"
	"github.com/gabion-go/gabion/internal/clock"
)

// model knows every turn that was taken, and works out the next one from the
// promise alone: between any earlier turn and it, both included, there are no
// more turns than the burst and one per interval.
type model struct {
	turns []clock.Instant
	free  []clock.Instant // given back, with later turns behind them; still among the turns
}

// spare returns the first turn that was given back and lies not behind.
func (m *model) spare(now clock.Instant) (clock.Instant, bool) {
	m.free = slices.DeleteFunc(m.free, func(t clock.Instant) bool { return t < now })
	if len(m.free) == 0 {
		return 0, false
	}
	return slices.Min(m.free), true
}

func (m *model) next(now clock.Instant, r Rules) clock.Instant {
	at := now
	for i, turn := range m.turns {
		inclusive := len(m.turns) - i + 1
		at = max(at, turn.Add(time.Duration(inclusive-max(r.Burst, 1))*r.Interval))
	}
	return at
}

// checkRate asks the promise of the turns, in whatever order they were noted.
// That k-i+1 turns are at most Burst + (turn k - turn i)/Interval, for all i and
// k, is one comparison per turn once each is shifted by its own number.
func checkRate(t *testing.T, turns []clock.Instant, r Rules) {
	t.Helper()
	slices.Sort(turns)
	latest := turns[0]
	for k, turn := range turns {
		shifted := turn.Add(-time.Duration(k) * r.Interval)
		latest = max(latest, shifted)
		if shifted < latest.Add(-time.Duration(r.Burst-1)*r.Interval) {
			t.Fatalf("turn %d comes at %d, too early after those before it", k, turn)
		}
	}
}

// TestRandomScripts runs what the fuzz target runs, over longer scripts.
func TestRandomScripts(t *testing.T) {
	for seed := range uint64(300) {
		script := make([]byte, 600)
		for i := range script {
			script[i] = byte(chance.Bits(seed, uint64(i), 0, 0) >> 32)
		}
		run(t, uint8(seed), script)
	}
}

// FuzzLimiter runs a script against the model. Each pair of bytes is a step: how
// far time moves, and what is asked.
func FuzzLimiter(f *testing.F) {
	f.Add(uint8(1), []byte{0, 0, 0, 9, 0, 99, 3, 200, 0, 255})
	f.Add(uint8(3), []byte{0, 0, 0, 0, 0, 0, 0, 0, 7, 50, 0, 50, 0, 130, 0, 220})
	f.Fuzz(run)
}

func run(t *testing.T, burst uint8, script []byte) {
	const origin = -1000
	r, back := Rules{7, int(burst%5) + 1}, burst&1 == 1 // time goes back too, and no turn is cancelled
	var l Limiter
	var m model
	now := clock.Instant(origin)
	for i := 0; i+1 < min(len(script), 600); i += 2 {
		now += clock.Instant(script[i] % 16)
		if back && script[i] >= 240 {
			now -= clock.Instant(script[i]-240) * 4
		}
		verb := script[i+1]
		want := m.next(now, r)
		spare, found := m.spare(now)
		if found {
			want = spare
		}
		if verb < 192 { // ask, ready to wait for 0 to 63
			maxWait := time.Duration(verb % 64)
			at, ok := l.Reserve(now, r, maxWait)
			if at != want || ok != (want.Sub(now) <= maxWait) {
				t.Fatalf("step %d at %d: got %d %v, want %d", i/2, now, at, ok, want)
			}
			switch {
			case ok && found:
				i := slices.Index(m.free, at)
				m.free = slices.Delete(m.free, i, i+1)
			case ok:
				m.turns = append(m.turns, at)
			}
			continue
		}
		if back || len(m.turns) == 0 {
			continue
		}
		k := len(m.turns) - 1 - int(verb%4)
		if k < 0 {
			continue
		}
		turn := m.turns[k]
		if slices.Contains(m.free, turn) {
			continue // given back already
		}
		if gone := l.Cancel(now, turn, r); gone != (turn > now) {
			t.Fatalf("step %d at %d: cancel of turn %d of %d (at %d) says %v", i/2, now, k, len(m.turns), turn, gone)
		} else if gone && (k == len(m.turns)-1 || turn == m.turns[len(m.turns)-1]) {
			m.turns = m.turns[:len(m.turns)-1]
		} else if gone {
			m.free = append(m.free, turn)
		}
	}
	if len(m.turns) > 0 {
		checkRate(t, m.turns, r)
	}
}

// Twice as many callers as there are turns, and each leaves after a second: those who
// wait are served at the rate all the same, and never above it.
func TestThoseWhoLeaveStarveNobody(t *testing.T) {
	const second = clock.Instant(time.Second)
	r := Every(10, 1)
	var l Limiter
	type waiter struct{ turn, leaves clock.Instant }
	var waiting []waiter
	var served []clock.Instant
	for now := clock.Instant(0); now < 60*second; now += second / 20 {
		waiting = slices.DeleteFunc(waiting, func(w waiter) bool {
			switch {
			case w.turn <= min(now, w.leaves):
				served = append(served, w.turn)
			case w.leaves <= now:
				l.Cancel(now, w.turn, r)
			default:
				return false
			}
			return true
		})
		if at, ok := l.Reserve(now, r, 15*time.Second); ok {
			waiting = append(waiting, waiter{at, now + second})
		}
	}
	checkRate(t, served, r)
	for from := clock.Instant(0); from < 60*second; from += 10 * second {
		n := 0
		for _, at := range served {
			if at >= from && at < from+10*second {
				n++
			}
		}
		if n < 90 {
			t.Errorf("from %v: %d are served in 10 s, of 100 turns", time.Duration(from), n)
		}
	}
}
