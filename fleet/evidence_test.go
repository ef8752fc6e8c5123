package fleet_test

import (
	"context"
	"net"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion/fleet/fleettest"
	"github.com/gabion-go/gabion/internal/fleetlook"
	"github.com/gabion-go/gabion/policy"
)

// Others' breakers make mine open at its own first failures, and nothing more.
func TestOthersBreakersAreEvidence(t *testing.T) {
	for _, c := range []struct {
		fact      string
		witnesses int
		failures  int
		calls     int // before that, from which it has learned by itself
		others    int
		want      policy.BreakerState
	}{
		{"two witnesses and two failures open it", 2, 2, 0, 3, policy.StateOpen},
		{"also where it has learned by itself", 2, 2, 40, 3, policy.StateOpen},
		{"also in a large fleet, of one in ten", 8, 2, 0, 62, policy.StateOpen},
		{"one failure may be chance", 2, 1, 0, 3, policy.StateClosed},
		{"without a failure of its own it stays closed", 2, 0, 0, 3, policy.StateClosed},
		{"one witness may be poisoned", 1, 2, 0, 3, policy.StateClosed},
		{"in a large fleet two may be", 2, 2, 0, 68, policy.StateClosed},
		{"without evidence two failures are nothing", 0, 2, 0, 3, policy.StateClosed},
	} {
		t.Run(c.fact, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := fleettest.NewMemory()
				p := policy.Policy{Retry: policy.Retry{Attempts: 1}}
				if c.calls > 0 {
					p = measuring()
					p.Retry.Attempts = 1
				}
				mine := join(t, store, p)
				for n := 0; n < c.calls; {
					_ = mine.d.Run(t.Context(), hangs(&n, 1000))
				}
				for range c.others {
					join(t, store, p)
				}
				for range c.witnesses {
					b, _ := join(t, store, p).d.Breaker("")
					b.Trip()
					stop := make(chan struct{})
					t.Cleanup(func() { close(stop) })
					go func() { // and it fails again at each probe
						for {
							select {
							case <-stop:
								return
							case <-time.After(time.Second):
								b.Trip()
							}
						}
					}()
				}
				time.Sleep(12 * time.Second)
				for range c.failures {
					_ = mine.d.Run(t.Context(), func(context.Context) error { return &net.OpError{Op: "read", Err: syscall.ECONNRESET} })
				}
				if got := state(mine); got != c.want {
					t.Errorf("the breaker is %s", got)
				}
			})
		})
	}
}

func TestWhatIsSeenOfAFleet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := fleettest.NewMemory()
		other := shared()
		other.Timeout.Call = time.Minute
		a, b, c := join(t, store, shared()), join(t, store, shared()), join(t, store, other)
		load(t.Context(), 12*time.Second, []int{100, 0, 0}, a, b, c)
		v, err := fleetlook.Look(t.Context(), store, "gabion")
		if err != nil || len(v.Members) != 3 || len(v.Unread) != 0 {
			t.Fatalf("%+v, %v", v, err)
		}
		hashes, sum, calls := map[string]int{}, 0.0, int64(0)
		for _, m := range v.Members {
			hashes[m.Policies]++
			sum += m.Shares[0].Amount
			calls += m.Dependencies[0].Calls
			if age := v.Now.Sub(m.Reported); age < 0 || age > 5*time.Second {
				t.Errorf("it was reported %s ago", age)
			}
		}
		if len(hashes) != 2 || sum > 1000 || sum < 700 || calls < 800 {
			t.Errorf("%v, shares of %v, %d calls", hashes, sum, calls)
		}
		a.Close()
		if v, _ = fleetlook.Look(t.Context(), store, "gabion"); len(v.Members) != 3 {
			t.Errorf("%+v", v.Members)
		}
		gone := 0
		for _, m := range v.Members {
			if m.Left {
				gone++
			}
		}
		if gone != 1 {
			t.Errorf("%d have left", gone)
		}
	})
}

// What a process itself reported a moment ago is no word of another.
func TestAProcessIsNoWitnessOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := fleettest.NewMemory()
		p := policy.Policy{Retry: policy.Retry{Attempts: 1}}
		mine, other := join(t, store, p), join(t, store, p)
		for end := time.Now().Add(12 * time.Second); time.Now().Before(end); time.Sleep(time.Second) {
			for _, one := range []*pod{mine, other} {
				b, _ := one.d.Breaker("")
				b.Trip()
			}
		}
		b, _ := mine.d.Breaker("")
		b.Reset()
		for range 2 {
			_ = mine.d.Run(t.Context(), func(context.Context) error { return &net.OpError{Op: "read", Err: syscall.ECONNRESET} })
		}
		if got := state(mine); got != policy.StateClosed {
			t.Errorf("the breaker is %s: one other process finds the dependency broken", got)
		}
	})
}
