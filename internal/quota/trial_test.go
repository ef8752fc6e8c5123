package quota

import (
	"testing"
	"time"

	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/policy"
)

// A word that little is left, though all is there, slows a process for a while and not for ever. It costs no refusal.
func TestAWordThatLittleIsLeftIsTried(t *testing.T) {
	stuck := func(at float64) func(*world) float64 { return func(w *world) float64 { return at * w.amount } }
	for _, tt := range []struct {
		fact string
		left func(w *world) float64
	}{
		{"stuck at a fiftieth", stuck(0.021)},
		{"stuck at a twentieth", stuck(0.05)},
		{"stuck at a tenth", stuck(0.1)},
		{"stuck at 30 %", stuck(0.3)},
		{"now this and now that, from a twentieth to a tenth", func(w *world) float64 { return (0.05 + 0.05*w.rand.Float64()) * w.amount }},
		{"a tenth of what is left", func(w *world) float64 { return w.left / 10 }},
	} {
		for _, window := range []bool{false, true} {
			for _, callers := range []int{4, 20} {
				w := newWorld(policy.Quota{Amount: 200_000, Span: time.Minute, Window: window}, 1, callers)
				w.lie = tt.left
				first := w.play(0, 10)
				before := w.used
				w.until(w.now.Add(30 * w.span))
				later := (w.used - before) / (30 * w.amount)
				t.Logf("%s, window %t, %d callers: %.2f, then %.2f, %d refused", tt.fact, window, callers, first.share, later, w.refused)
				if first.share < 0.5 || later < 0.85 || float64(w.refused) > 0.005*float64(w.served) {
					t.Errorf("%s, window %t, %d callers: %.2f of the quota is used, then %.2f, %d of %d are refused", tt.fact, window, callers, first.share, later, w.refused, w.served)
				}
			}
		}
	}
}

// What others leave is obeyed, however long they leave little: hardly anything is used and hardly anything refused.
func TestATrueWordThatLittleIsLeftIsObeyed(t *testing.T) {
	for _, others := range []float64{0.05, 0.08, 0.12} {
		for _, grain := range []float64{0, 1000} {
			w := newWorld(policy.Quota{Amount: 200_000, Span: time.Minute}, 1, 20)
			w.others, w.grain = others, grain
			r := w.play(3, 300)
			t.Logf("others leave %.2f, grain %.0f: %.3f is used, %d of %d are refused", others, grain, r.share, w.refused, r.served)
			if float64(w.refused) > 0.005*float64(r.served) || r.share > 0.02 {
				t.Errorf("others leave %.2f: %.3f of what comes back is used, %d of %d are refused", others, r.share, w.refused, r.served)
			}
		}
	}
}

// A limit counts at once where it is smaller than the last one. A larger one needs several answers, and is taken back when one is
// refused.
func TestALargerLimitIsProven(t *testing.T) {
	g := New(0, []policy.Quota{{Unit: "tokens", Amount: 200, Span: 100 * time.Second, Estimate: 1, Among: 1}})
	now := clock.Instant(0)
	hear := func(times int, limit float64, refused bool) {
		for range times {
			now += second
			r := uses(g, 0.5)
			r.Anyway(now)
			r.Told(now, []policy.Remaining{{Unit: "tokens", Left: limit / 2, Limit: limit}})
			r.End(now, false, refused)
		}
	}
	for _, step := range []struct {
		fact    string
		times   int
		limit   float64
		refused bool
		want    float64
	}{
		{"the first one counts", 1, 100, false, 100},
		{"a smaller one counts at once", 1, 50, false, 50},
		{"one that counted before as well", 1, 100, false, 100},
		{"a larger one does not", 7, 1000, false, 100},
		{"one word of the smaller one is enough", 1, 100, false, 100},
		{"and the count begins anew", 7, 1000, false, 100},
		{"eight make it count, up to what is configured", 1, 1000, false, 200},
		{"a refusal takes it back", 1, 1000, true, 100},
		{"then it needs twice as many", 15, 1000, false, 100},
		{"and counts again", 1, 1000, false, 200},
	} {
		hear(step.times, step.limit, step.refused)
		if got := g.Stats(now)[0].Amount; got != step.want {
			t.Errorf("%s: %v, want %v", step.fact, got, step.want)
		}
	}
}
