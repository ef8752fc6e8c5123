package ratelimit

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/gabion-go/gabion/internal/clock"
)

func TestWhatAChangeKeeps(t *testing.T) {
	const s = clock.Instant(time.Second)
	slow, fast := Rules{time.Second, 4}, Rules{time.Second / 10, 40}
	for _, c := range []struct {
		fact     string
		from, to Rules
		taken    int // at 0
		at       clock.Instant
		now      int           // turns that are free then
		next     clock.Instant // the one after them
	}{
		{"a whole burst becomes a smaller whole one", fast, slow, 0, 0, 4, s},
		{"what is left is no more than the new burst", fast, slow, 20, 0, 4, s},
		{"or what was left", fast, slow, 38, 0, 2, s},
		{"a burst that becomes larger fills in time", slow, fast, 2, 0, 2, s / 10},
		{"turns ahead are void, and half of one stays half of one", slow, fast, 8, s / 2, 0, s/2 + s/20 + 1},
		{"so it does at a slower rate", fast, slow, 60, s / 20, 0, s/20 + s/2 + 1},
		{"nothing is nothing", fast, Nothing, 0, 0, 0, clock.Instant(longest)},
	} {
		t.Run(c.fact, func(t *testing.T) {
			var l Limiter
			for range c.taken {
				l.Reserve(0, c.from, time.Hour)
			}
			l.Change(c.at, c.from, c.to)
			for i := range c.now {
				if at, ok := l.Reserve(c.at, c.to, 0); !ok {
					t.Fatalf("turn %d comes at %s", i, time.Duration(at))
				}
			}
			if at, _ := l.Reserve(c.at, c.to, 0); at != max(c.next, c.at) {
				t.Errorf("the next comes at %s, want %s", time.Duration(at), time.Duration(c.next))
			}
		})
	}
}

// Processes share one rate, and their shares change. What one gives up another gets later, never before. Then all
// together keep to the whole.
func TestSharesThatAddUpKeepToTheWhole(t *testing.T) {
	const whole, burst = 100.0, 20
	for seed := range uint64(60) {
		rnd := rand.New(rand.NewPCG(seed, 7))
		var ls [4]Limiter
		parts := [4]float64{0.25, 0.25, 0.25, 0.25}
		of := func(part float64) Rules { return Every(max(whole*part, 1e-9), max(1, int(burst*part))) }
		var turns []clock.Instant
		now := clock.Instant(0)
		for range 4000 {
			now += clock.Instant(rnd.IntN(int(4 * time.Millisecond)))
			if rnd.IntN(40) == 0 {
				a, b := rnd.IntN(4), rnd.IntN(4)
				moved := parts[a] * rnd.Float64()
				if a == b {
					continue
				}
				ls[a].Change(now, of(parts[a]), of(parts[a]-moved))
				parts[a] -= moved
				ls[b].Change(now, of(parts[b]), of(parts[b]+moved))
				parts[b] += moved
				continue
			}
			i := rnd.IntN(4)
			if at, ok := ls[i].Reserve(now, of(parts[i]), 0); ok {
				turns = append(turns, at)
			}
		}
		// Each limiter has a burst of one at least.
		checkRate(t, turns, Every(whole, burst+4))
	}
}
