package quota

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/policy"
)

// newWorld is a world of mixed calls of 1,000 tokens on average, some of 6,000. Its clock is before its
// origin at first, which is nothing special.
func newWorld(q policy.Quota, processes, callers int) *world {
	q.Unit, q.Estimate, q.Among = "tokens", 1000, max(q.Among, 1)
	at := clock.Instant(-17 * time.Second)
	return &world{
		rand: rand.New(rand.NewPCG(1, uint64(processes))), processes: processes, callers: callers, quota: q, says: 1,
		now: at, provider: provider{lies: -1, at: at},
	}
}

// Processes that never hear of each other, begin at once and want more than there is, use a quota whole, and are hardly
// ever refused, not at the start either. That holds whatever their estimates are, and whatever the server says.
func TestProcessesThatShareAQuotaUseItWhole(t *testing.T) {
	minute := policy.Quota{Amount: 200_000, Span: time.Minute}
	short := policy.Quota{Amount: 200_000, Span: 2 * time.Second}
	hourly := policy.Quota{Amount: 2_000_000, Span: time.Hour}
	large := policy.Quota{Amount: 1_000_000, Span: 10 * time.Second}
	window, largeWindow, ten := minute, large, minute
	window.Window, largeWindow.Window, ten.Among = true, true, 10
	for _, tt := range []struct {
		fact    string
		quota   policy.Quota
		n, each int
		says    float64
		change  func(*world)
		used    float64 // at least
		refused float64 // at most
		long    bool
	}{
		{"one", minute, 1, 20, 1, nil, 0.97, 0.005, false},
		{"one whose calls say nothing", minute, 1, 20, 0, nil, 0.97, 0.005, false},
		{"one whose calls say a third", minute, 1, 20, 1. / 3, nil, 0.97, 0.005, false},
		{"one whose calls say three times", minute, 1, 20, 3, nil, 0.97, 0.005, false},
		{"one, of a silent server", minute, 1, 20, 1, silent, 0.97, 0.005, false},
		{"one, of one that says that nothing is ever left", minute, 1, 20, 1, lying(0), 0.8, 0.005, false},
		{"one, of one that says that more is left than there can be", minute, 1, 20, 1, lying(1e12), 0.97, 0.005, false},
		{"one, of one that rounds to thousands", policy.Quota{Amount: 16_000, Span: time.Minute}, 1, 20, 1, rounding(1000), 0.97, 0.005, false},
		{"one, of a window", window, 1, 20, 1, nil, 0.97, 0.005, false},
		{"one that begins beside another", policy.Quota{Amount: 200_000, Span: 10 * time.Second}, 2, 40, 1, func(w *world) { w.late = 25 * time.Second }, 0.97, 0.005, false},
		{"ten", minute, 10, 4, 1, nil, 0.97, 0.005, false},
		{"ten whose calls say a third", minute, 10, 4, 1. / 3, nil, 0.97, 0.005, false},
		{"ten whose calls say three times", minute, 10, 4, 3, nil, 0.97, 0.005, false},
		{"ten by agreement, of a silent server", ten, 10, 4, 1, silent, 0.97, 0.005, false},
		{"ten by agreement, who say a third", ten, 10, 4, 1. / 3, silent, 0.97, 0.005, false},
		{"ten of a short one", short, 10, 20, 1, nil, 0.97, 0.005, false},
		{"ten of a window", window, 10, 4, 1, nil, 0.97, 0.005, false},
		{"ten of a large window", largeWindow, 10, 20, 1, nil, 0.97, 0.005, true},
		{"fifty", minute, 50, 2, 1, nil, 0.97, 0.005, true},
		{"fifty whose calls say a third", minute, 50, 2, 1. / 3, nil, 0.97, 0.005, true},
		{"fifty whose calls say three times", minute, 50, 2, 3, nil, 0.97, 0.005, true},
		{"fifty whose calls say nothing", minute, 50, 2, 0, nil, 0.97, 0.005, true},
		{"fifty of an hourly one", hourly, 50, 2, 1, nil, 0.97, 0.005, true},
		{"fifty of a short one", short, 50, 4, 1, nil, 0.97, 0.05, true}, // eight calls come back while one is answered
		{"fifty of a large one, whose calls say a third", large, 50, 4, 1. / 3, nil, 0.97, 0.005, true},
		{"fifty of a large one, whose calls say three times", large, 50, 4, 3, nil, 0.97, 0.005, true},
		{"fifty of a large window", largeWindow, 50, 4, 1, nil, 0.97, 0.005, true},
		{"fifty of a window, of four calls each", window, 50, 2, 1, nil, 0.97, 0.12, true}, // too few to share without refusals
	} {
		t.Run(tt.fact, func(t *testing.T) {
			if tt.long && testing.Short() {
				t.Skip("long: fifty processes")
			}
			t.Parallel()
			w := newWorld(tt.quota, tt.n, tt.each)
			w.says = tt.says
			if tt.change != nil {
				tt.change(w)
			}
			r := w.play(3, 10)
			t.Logf("%.1f %% of the quota is used, and %.2f %% of %d attempts are refused", 100*r.share, 100*r.refused, r.served)
			if r.share < tt.used || r.refused > tt.refused {
				t.Errorf("want %.0f %% used at least, and %.1f %% refused at most", 100*tt.used, 100*tt.refused)
			}
		})
	}
}

// One that begins beside another that uses all that comes back gets half, whatever the order of their calls is.
func TestOneThatBeginsIsNoticed(t *testing.T) {
	for seed := range uint64(20) {
		w := newWorld(policy.Quota{Amount: 200_000, Span: 10 * time.Second}, 2, 40)
		w.rand, w.late = rand.New(rand.NewPCG(seed, 50)), 25*time.Second
		if r := w.play(3, 10); float64(w.taken[1]) < 0.4*float64(r.served) {
			t.Errorf("seed %d: the later one gets %d of %d", seed, w.taken[1], r.served)
		}
	}
}

// Answers that overtook each other must not look like the use of others: the process would halve its
// own, as often as many of its calls go at once.
func TestOneIsNotTakenForMany(t *testing.T) {
	for seed := range uint64(10) {
		w := newWorld(policy.Quota{Amount: 200_000, Span: time.Minute}, 1, 40)
		w.rand = rand.New(rand.NewPCG(seed, 1))
		w.play(1, 0)
		for range 100 {
			w.until(w.now.Add(3 * time.Second))
			if l := w.groups[0].levels[0]; l.shared(w.now) {
				t.Errorf("seed %d, %v: %.0f of %.0f are thought to be used by others", seed, w.now, l.theirs, l.mine+l.theirs)
				break
			}
		}
		if w.refused > 0 {
			t.Errorf("seed %d: %d were refused", seed, w.refused)
		}
	}
}

func silent(w *world) { w.silent = true }

func rounding(to float64) func(*world) { return func(w *world) { w.grain = to } }

func lying(left float64) func(*world) { return func(w *world) { w.lies = left } }
