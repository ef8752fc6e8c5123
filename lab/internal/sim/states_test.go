package sim

import (
	"math"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/internal/clock"
	"github.com/gabion-go/gabion/internal/machine"
	"github.com/gabion-go/gabion/lab/internal/draw"
	"github.com/gabion-go/gabion/policy"
)

// A state that knows nothing is as good as a new one: with waits that are not
// drawn, a run in which states change hands is the same, event by event.
func TestBlankStatesChangeHandsUnnoticed(t *testing.T) {
	for _, c := range []struct {
		fact string
		edit func(*policy.Policy)
		f    Fault
	}{
		{"budget", func(*policy.Policy) {}, Fault{Kind: Errors, Status: 503, Share: 0.7}},
		{"no budget", func(p *policy.Policy) { p.Retry.Budget.Off = true }, Fault{Kind: Errors, Status: 503, Share: 0.7}},
		{"timeouts", func(*policy.Policy) {}, Fault{Kind: BlackHole, Share: 0.7}},
	} {
		t.Run(c.fact, func(t *testing.T) {
			r := tries(t, 3, func(p *policy.Policy) {
				p.Timeout = policy.Timeout{Call: 2 * time.Second, Attempt: 500 * ms, Strict: true}
				p.Retry.Backoff = backoff.Const(50 * ms)
				p.Retry.Budget = policy.Budget{Ratio: 0.1, Window: 2 * time.Second, Floor: 0.5}
				c.edit(p)
			})
			w := steady(r, 100, 2*time.Minute, Service{Time: draw.Exponential(20 * ms)}, always(c.f))
			w.Fleets[0].Clients = 5000
			// They pause, and come again at another rate: so all lists get old, and some do.
			w.Fleets[0].Load = Load{{0, 100}, {40 * time.Second, 100}, {40 * time.Second, 0}, {70 * time.Second, 0}, {70 * time.Second, 300}}
			keep, lend := newSim(w, 1, nil), newSim(w, 1, nil)
			keep.many, lend.many = math.MaxInt, 1
			keep.run()
			lend.run()
			is(t, "hash", lend.hash, keep.hash)
			kept, lent := states(keep), states(lend)+len(lend.edges[0].blank.free)
			if kept < 4500 || lent > 3500 {
				t.Errorf("%d states were kept, %d lent", kept, lent)
			}
		})
	}
}

// Two clients, of whom one calls all the time and the other in two epochs whose
// numbers have the same last digit.
func TestAStateIsTakenBackFromWhoeverStopsCallingAgain(t *testing.T) {
	r := tries(t, 1, func(p *policy.Policy) { p.Timeout.Call = time.Second })
	b := newBlanks(r, 2, 1)
	e := &edge{states: make([]*machine.State, 2), blank: b}
	s := &sim{}
	held := ""
	for epoch := range 24 {
		s.now = clock.Instant(time.Duration(epoch) * b.span)
		b.seen(s, e, 1)
		if epoch == 2 || epoch == 2+2*(epochs+1) {
			b.seen(s, e, 0)
			e.states[0] = new(machine.State)
		}
		held += map[bool]string{true: "-", false: "x"}[e.states[0] == nil]
	}
	is(t, "held", held, "--xxxxx-----xxxxx-------")
}

func states(s *sim) (n int) {
	for _, st := range s.edges[0].states {
		if st != nil {
			n++
		}
	}
	return n
}

func TestOnlyStatesThatForgetAreLent(t *testing.T) {
	for _, c := range []struct {
		fact string
		edit func(*policy.Policy)
		want time.Duration
	}{
		{"a budget's window and a slice, and the longest call", func(*policy.Policy) {}, 2*time.Second + 5*time.Second + time.Second},
		{"attempts that were cut off", func(p *policy.Policy) { p.Timeout.Strict = false }, 2*time.Second + 61*time.Second + time.Second},
		{"what successes earn", func(p *policy.Policy) { p.Retry.Budget = policy.Budget{} }, 0},
		{"no bound on calls", func(p *policy.Policy) { p.Timeout.Call = policy.Off }, 0},
		{"a breaker", func(p *policy.Policy) { p.Breaker.Off = false }, 0},
		{"a bulkhead", func(p *policy.Policy) { p.Bulkhead.Off = false }, 0},
		{"a throttle", func(p *policy.Policy) { p.Throttle.K = 2 }, 0},
		{"a rate limit", func(p *policy.Policy) { p.RateLimit.Rate = 2 }, 0},
		{"tokens", func(p *policy.Policy) { p.Retry.Budget = policy.Budget{Shape: policy.BudgetTokens} }, 0},
		{"gRPC's tokens", func(p *policy.Policy) { p.Retry.Budget = policy.Budget{Shape: policy.BudgetGRPC} }, 0},
		{"a quota", func(p *policy.Policy) { p.Retry.Budget = policy.Budget{Shape: policy.BudgetQuota} }, 0},
		{"a share of what is in flight", func(p *policy.Policy) { p.Retry.Budget = policy.Budget{Shape: policy.BudgetShare} }, 2*time.Second + 5*time.Second + time.Second},
		{"measured latency", func(p *policy.Policy) { p.Hedge = policy.Hedge{Max: 1, Percentile: 0.9} }, 0},
		{"a fit", func(p *policy.Policy) { p.Timeout.Fit = 0.5 }, 0},
	} {
		r := tries(t, 3, func(p *policy.Policy) {
			p.Timeout = policy.Timeout{Call: 2 * time.Second, Strict: true}
			p.Retry.Budget = policy.Budget{Shape: policy.BudgetWindow, Window: 4 * time.Second}
			c.edit(p)
		})
		if got := remembers(r); got != c.want {
			t.Errorf("%s: %v, want %v", c.fact, got, c.want)
		}
	}
}

// LAB S3. What a run holds when it ends is the most that it held: pools and states
// don't shrink.
func TestAMillionClientsAreSmall(t *testing.T) {
	w := crowd(t, 100_000, 2_000)
	w.Duration = 30 * time.Second
	if os.Getenv("GABION_SOAK") == "1" {
		w = crowd(t, 1_000_000, 20_000)
	}
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	begun := time.Now()
	s := newSim(w, 1, nil)
	s.run()
	took := time.Since(begun)
	runtime.GC()
	runtime.ReadMemStats(&after)
	each := float64(after.HeapAlloc-before.HeapAlloc) / float64(w.Fleets[0].Clients)
	t.Logf("%v for %d events: %.0f bytes a client, %d MB from the system", took, s.rec.events, each, after.Sys>>20)
	if each > 150 {
		t.Errorf("%.0f bytes a client", each)
	}
	runtime.KeepAlive(s)
}
