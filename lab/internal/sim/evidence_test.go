package sim

import (
	"testing"
	"time"

	"github.com/gabion-go/gabion/internal/machine"
	"github.com/gabion-go/gabion/lab/internal/draw"
	"github.com/gabion-go/gabion/policy"
)

// guarded is a policy with a breaker and one attempt, whose clients tell each other of it.
func guarded(t testing.TB) *machine.Rules {
	return rules(t, policy.Policy{
		Timeout: policy.Timeout{Call: policy.Off, Attempt: policy.Off}, Bulkhead: policy.Bulkhead{Off: true},
		Retry: policy.Retry{Attempts: 1, Budget: policy.Budget{Off: true}}, Pace: policy.Pace{Off: true},
	})
}

// Fifty clients make five hundred calls a second. Some are poisoned: all that they send fails. Others' breakers are
// evidence (ADR 133), and this is what it costs those that are well, beside the same world where none knows of the others.
func TestWhatPoisonedClientsCostTheOthers(t *testing.T) {
	if testing.Short() {
		t.Skip("long: twelve runs of ten minutes")
	}
	for _, c := range []struct {
		fact     string
		poisoned int
		errors   float64 // of what the others send
		most     float64 // of the others' calls, that are lost by it
	}{
		{"one of fifty changes nothing", 1, 0, 0},
		{"nor where one in a hundred fails anyway", 1, 0.01, 0},
		{"five of fifty are believed, and those without a failure lose nothing", 5, 0, 0},
		{"five of fifty, and one in a hundred fails anyway", 5, 0.01, 0.001},
		{"five of fifty, and one in twenty fails anyway", 5, 0.05, 0.01},
		{"ten of fifty, and one in twenty fails anyway", 10, 0.05, 0.01},
	} {
		t.Run(c.fact, func(t *testing.T) {
			good := func(shares *Shares) (good, sent float64) {
				faults := []Fault{{Kind: Errors, Status: 500, At: time.Minute, For: 8 * time.Minute, Callers: c.poisoned}}
				if c.errors > 0 {
					faults = append(faults, Fault{Kind: Errors, Status: 500, At: 0, For: 10 * time.Minute, Share: c.errors})
				}
				w := steady(guarded(t), 500, 10*time.Minute, Service{Time: draw.Constant(10 * ms)}, faults...)
				w.Fleets[0].Clients, w.Fleets[0].Shares = 50, shares
				w.Cuts = []time.Duration{time.Minute, 9 * time.Minute}
				n := play(t, w).Phases[1].Fleets[0]
				return float64(n.Good), float64(n.Offered) * float64(50-c.poisoned) / 50
			}
			alone, of := good(nil)
			together, _ := good(&Shares{Lease: 10 * time.Second, Network: draw.Exponential(ms)})
			lost := (alone - together) / of
			t.Logf("of %.0f calls of the others %.4f %% are lost by what they hear", of, 100*lost)
			if lost > c.most || lost < 0 {
				t.Errorf("%.4f %% are lost, want at most %v", 100*lost, 100*c.most)
			}
			if c.poisoned > 5 && c.errors > 0 && lost == 0 {
				t.Error("nothing was heard: the test sees nothing")
			}
		})
	}
}
