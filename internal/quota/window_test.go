package quota

import (
	"testing"
	"time"

	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/policy"
)

// A reset says when a window ends, when a bucket is full, or something of another quota. Whatever it says, a window does not open
// before its time, nor stays shut.
func TestAResetOpensNoMoreThanThePolicyHas(t *testing.T) {
	always := func(s int) func(int) int { return func(int) int { return s } }
	for _, tt := range []struct {
		name  string
		full  bool
		reset func(n int) (seconds int) // of the nth answer
	}{
		{"a bucket that is full soon", true, always(1)},
		{"a bucket that is full late", true, always(300)},
		{"of a shorter window", false, always(1)},
		{"always most of the window", false, always(60)},
		{"always the window", false, always(100)},
		{"now this and now that", false, func(n int) int { return 1 + n*37%100 }},
	} {
		for every, least := range map[int]float64{1: 9_000, 45: 7_000} { // a window begins with the first call in it
			g := New(0, []policy.Quota{{Unit: "tokens", Amount: 100, Span: 100 * time.Second, Estimate: 1, Among: 1, Window: true}})
			used, n := 0.0, 0
			for s := every; s < 10_000; s += every {
				now := second * clock.Instant(s)
				for range every {
					r := uses(g, 2)
					if _, a := r.Ask(now, now, nil); a == Taken {
						used, n = used+2, n+1
						r.Told(now, []policy.Remaining{{Unit: "tokens", Left: 99, Limit: 100, Reset: time.Duration(tt.reset(n)) * time.Second, Full: tt.full}})
						r.End(now, false, false)
					}
				}
			}
			if used < least || used > 10_600 {
				t.Errorf("%s, calls each %d s: %v of 10,000 are used", tt.name, every, used)
			}
		}
	}
}

// The first attempt of a window may bring no word. Then the word of the window before says nothing.
func TestAWordOfAnotherWindowSaysNothing(t *testing.T) {
	g := New(0, []policy.Quota{{Unit: "tokens", Amount: 100, Span: 100 * time.Second, Estimate: 1, Among: 1, Window: true}})
	r := uses(g, 98)
	ask(t, 0, 0, r, Taken, 0)
	r.Told(0, []policy.Remaining{{Unit: "tokens", Left: 0, Limit: 100, Reset: 100 * time.Second}})
	r.End(0, false, false)
	first := uses(g, 6)
	ask(t, 101*second, 101*second, first, Taken, 0)
	ask(t, 101*second, 101*second, uses(g, 1), Refused, 0) // it may be that others have used it up
	first.End(102*second, false, false)                    // broken off
	ask(t, 102*second, 102*second, uses(g, 1), Taken, 0)
}

// An answer may name the limit of other requests than most. The next one's word is believed as well, and then all is there that was.
func TestALimitOfOtherRequestsIsForgotten(t *testing.T) {
	for _, window := range []bool{false, true} {
		g := New(0, []policy.Quota{{Unit: "tokens", Amount: 5000, Span: time.Hour, Estimate: 1, Among: 1, Window: window}})
		three := []*Reservation{uses(g, 1), uses(g, 1), uses(g, 1)}
		for _, r := range three {
			ask(t, 0, 0, r, Taken, 0)
		}
		for i, w := range []policy.Remaining{{Left: 4999, Limit: 5000}, {Left: 29, Limit: 30}, {Left: 4997, Limit: 5000}} {
			now := second * clock.Instant(i+1)
			w.Unit, w.Reset = "tokens", time.Hour-time.Duration(now)
			three[i].Told(now, []policy.Remaining{w})
			three[i].End(now, false, false)
		}
		if left := g.Stats(4 * second)[0].Left; left < 4990 {
			t.Errorf("window %t: %v are left", window, left)
		}
	}
}
