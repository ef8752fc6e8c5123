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
		{fact: "half is refused, as without room", full: true, part: 0.5, most: 0.5},
		{fact: "half is refused, as by a quota", part: 0.5, most: 0.5},
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

// What was found out does not last: the pause of the spacing doubles up to two minutes, and ends where nothing succeeds, or
// nothing is refused.
func TestSpacingThatDoesNotHelpIsTriedAgain(t *testing.T) {
	const s = clock.Instant(time.Second)
	for _, start := range []clock.Instant{-1000 * s, s} {
		var sp spaced
		now := start
		if sp.off(now) {
			t.Error("calls are not spaced before anything is known")
		}
		useless := func() bool { // a hundred calls a second, then fifty, and half of them are refused
			for _, n := range []int{100, 50, 50, 50} {
				now += s
				if bad, _ := sp.second(now, n/2, n/2, time.Second, 100); bad {
					return true
				}
			}
			return false
		}
		for _, want := range []time.Duration{30 * time.Second, time.Minute, 2 * time.Minute, 2 * time.Minute} {
			if !useless() || sp.until != now.Add(want) {
				t.Fatalf("at %v calls are not spaced until %v, want %v more", time.Duration(now), time.Duration(sp.until), want)
			}
			for ; now < sp.until; now += s {
				if sp.dead = 0; !sp.off(now) {
					t.Fatalf("at %v calls are spaced, and not from %v on", time.Duration(now), time.Duration(sp.until))
				}
			}
			if sp.off(now) {
				t.Error("calls are not spaced after that time")
			}
		}
		if now += 200 * s; !useless() || sp.quiet != 30*time.Second {
			t.Errorf("long after it calls are not spaced for %v", sp.quiet)
		}
		if !sp.off(now+s) || !sp.off(now+5*s) || sp.off(now+6*s) || sp.off(now+7*s) {
			t.Error("five seconds without a success don't end it")
		}
		if now += 200 * s; !useless() || !sp.off(now+4*s) || sp.off(now+9*s) {
			t.Error("five seconds without a refusal don't end it")
		}
	}
}

// What is no proof that spacing does not help.
func TestCallsStaySpacedWhereNothingIsProved(t *testing.T) {
	type second struct {
		good, bad int
		lasted    time.Duration
	}
	const s = time.Second
	for _, c := range []struct {
		fact    string
		seconds []second
		stay    float64 // of 50 a second
	}{
		{"a limit", []second{{50, 50, s}, {40, 10, s}}, 50},
		{"a limit that falls", []second{{60, 20, s}, {60, 20, s}, {60, 20, s}, {20, 13, s}}, 50},
		{"an outage that begins while calls are spaced", []second{{50, 50, s}, {0, 50, s}, {0, 50, s}, {0, 50, s}}, 0},
		{"two calls in a minute", []second{{20, 80, s}, {1, 1, time.Minute}}, 0},
		{"all were good but for one", []second{{40, 0, s}, {19, 1, s}}, 50},
		{"half of a few", []second{{20, 20, s}, {2, 2, s}}, 50},
	} {
		var sp spaced
		now, stay := clock.Instant(0), 0.0
		for i, n := range c.seconds {
			var useless bool
			now = now.Add(n.lasted)
			if useless, stay = sp.second(now, n.good, n.bad, n.lasted, 50); useless {
				t.Errorf("%s: second %d shows that spacing does not help", c.fact, i)
			}
		}
		if stay != c.stay {
			t.Errorf("%s: the rate is to stay %v, want %v", c.fact, stay, c.stay)
		}
	}
}
