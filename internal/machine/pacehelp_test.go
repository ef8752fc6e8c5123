package machine

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/gabion-go/gabion/internal/clock"
)

// A dependency that refuses the same part at any rate isn't helped by fewer calls: they are not spaced for long. One
// with a limit is, and calls stay spaced.
func TestCallsAreSpacedOnlyWhereThatHelps(t *testing.T) {
	const s = clock.Instant(time.Second)
	for _, c := range []struct {
		fact   string
		full   bool
		part   float64 // that is refused at random
		limit  float64 // or what is answered a second
		spaced float64 // of the seconds, at least and at most
		most   float64
	}{
		{fact: "half is refused, as without room", full: true, part: 0.5, most: 0.35},
		{fact: "half is refused, as by a quota", part: 0.5, most: 0.35},
		{fact: "four of five are refused, where few answers tell", full: true, part: 0.8, most: 0.8},
		{fact: "a quota of half", limit: 10, spaced: 0.9, most: 1},
		{fact: "a server with room for half", full: true, limit: 10, spaced: 0.9, most: 1},
		{fact: "a server with room for a tenth", full: true, limit: 2, spaced: 0.9, most: 1},
	} {
		var spaced, seconds float64
		for seed := range uint64(20) {
			p, draw, room := new(pacer), rand.New(rand.NewPCG(seed, 5)), 0.0
			p.full.Store(c.full)
			var good []clock.Instant // of the last second
			for i := range clock.Instant(20 * 120) {
				now := s + i*s/20
				room = min(room+c.limit/20, 1)
				for len(good) > 0 && now.Sub(good[0]) > time.Second {
					good = good[1:]
				}
				lately := successes{n: int64(len(good)), rate: float64(len(good)), worked: true}
				if i >= 20*10 {
					if seconds++; p.active.Load() {
						spaced++
					}
				}
				if p.active.Load() {
					if at, ok := p.reserve(now, now+s/20, clock.Never, 0.5); !ok || at > now+s/20 {
						continue
					}
				}
				refused := draw.Float64() < c.part
				if c.limit > 0 {
					if refused = room < 1; !refused {
						room--
					}
				}
				if refused {
					p.hold(now, now+s, true, lately)
				} else {
					good = append(good, now)
					p.accept(now, 0)
				}
			}
		}
		if part := spaced / seconds; part < c.spaced || part > c.most {
			t.Errorf("%s: calls are spaced in %.0f %% of the time, want %.0f to %.0f %%", c.fact, 100*part, 100*c.spaced, 100*c.most)
		}
	}
}

// What was found out does not last: the pause of the spacing doubles up to ten minutes, and ends where nothing succeeds.
func TestSpacingThatDoesNotHelpIsTriedAgain(t *testing.T) {
	const s = clock.Instant(time.Second)
	var sp spaced
	sp.begin()
	now := s
	useless := func(part float64) bool { // a hundred calls a second, then fifty
		for _, n := range []float64{100, 50, 50, 50} {
			now += s
			if bad, _ := sp.second(now, int(n*part), int(n*(1-part)), time.Second); bad {
				return true
			}
		}
		return false
	}
	for _, want := range []time.Duration{30 * time.Second, time.Minute, 2 * time.Minute, 4 * time.Minute, 8 * time.Minute, 10 * time.Minute, 10 * time.Minute} {
		if !useless(0.5) || sp.until != now.Add(want) {
			t.Fatalf("at %v calls are not spaced until %v, want %v more", time.Duration(now), time.Duration(sp.until), want)
		}
		if !sp.off(now, true) || !sp.off(sp.until-1, false) || sp.off(sp.until, true) {
			t.Error("calls are spaced in that time, or not after it")
		}
		now = sp.until
	}
	if !useless(0.5) || !sp.off(now+s, false) || !sp.off(now+3*s, true) || !sp.off(now+4*s, false) || !sp.off(now+8*s, false) {
		t.Error("a few seconds without a success end it")
	}
	if sp.off(now+9*s, false) || sp.off(now+10*s, false) {
		t.Error("five seconds without a success don't end it")
	}
	sp.begin()
	for _, second := range [][2]int{{50, 50}, {40, 10}} { // of a limit of 50
		now += s
		if bad, _ := sp.second(now, second[0], second[1], time.Second); bad {
			t.Error("a limit is taken for none")
		}
	}
	if sp.quiet != 0 {
		t.Errorf("calls are not spaced for %v, though it helped", sp.quiet)
	}
}
