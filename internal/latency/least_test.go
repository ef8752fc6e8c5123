package latency

import (
	"testing"
	"time"

	"github.com/gabion-go/gabion/internal/clock"
)

func TestTheLeastTimeThatWorkTakes(t *testing.T) {
	const ms = time.Millisecond
	type part struct {
		n    int
		took time.Duration
		cut  bool
	}
	for _, c := range []struct {
		fact     string
		parts    []part
		min, max time.Duration
	}{
		{"nothing is known of nothing", nil, 0, 0},
		{"nothing is known of a few", []part{{19, 30 * ms, false}}, 0, 0},
		{"all takes as long", []part{{20, 30 * ms, false}}, 28 * ms, 30 * ms},
		{"what was cut off takes longer", []part{{500, 25 * ms, true}, {100, 30 * ms, false}}, 28 * ms, 30 * ms},
		{"a few that are quick are not all", []part{{4, ms, false}, {96, 30 * ms, false}}, 28 * ms, 30 * ms},
		{"a twentieth that is quick is news", []part{{6, ms, false}, {94, 30 * ms, false}}, ms * 9 / 10, ms},
		{"those that were cut off say nothing of the quick ones", []part{{6, ms, false}, {94, 30 * ms, true}}, ms * 9 / 10, ms},
		{"what has never been seen to finish takes as long at least", []part{{100, 25 * ms, true}}, 23 * ms, 25 * ms},
		{"and no longer than enough of them were waited for", []part{{100, 25 * ms, true}, {10, time.Second, true}}, 23 * ms, 25 * ms},
	} {
		t.Run(c.fact, func(t *testing.T) {
			x := NewTail(0, 2)
			for _, p := range c.parts {
				for i := range p.n {
					if p.cut {
						x.Cut(uint32(i), p.took, false)
					} else {
						x.Finish(uint32(i), p.took)
					}
				}
			}
			if got := x.Least(clock.Instant(time.Second)); got < c.min || got > c.max {
				t.Errorf("%v, want %v to %v", got, c.min, c.max)
			}
		})
	}
}

func TestTheLeastTimeIsLookedAtAnew(t *testing.T) {
	const ms = time.Millisecond
	x := NewTail(0, 1)
	now := clock.Instant(0)
	see := func(n int, took time.Duration) {
		for range n {
			x.Finish(0, took)
		}
	}
	step := func(d time.Duration, low, high time.Duration) {
		t.Helper()
		now = now.Add(d)
		if got := x.Least(now); got < low || got > high {
			t.Errorf("at %v: %v, want %v to %v", time.Duration(now), got, low, high)
		}
	}
	step(0, 0, 0)
	see(100, 30*ms)
	step(10*ms, 28*ms, 30*ms) // soon, where nothing was known
	see(100, ms)
	step(99*ms, 28*ms, 30*ms)
	step(ms, ms*9/10, ms)
	for range 20 { // the quick ones are forgotten
		see(100, 30*ms)
		now = now.Add(10 * time.Second)
		x.Least(now)
	}
	step(time.Second, 28*ms, 30*ms)
}
