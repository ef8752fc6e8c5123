package fleet_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion/fleet"
	"github.com/gabion-go/gabion/fleet/fleettest"
	"github.com/gabion-go/gabion/internal/fleetlook"
	"github.com/gabion-go/gabion/policy"
)

// saying is a store for a process that reports these breakers as open, whatever they are.
func saying(s fleet.Store, open []string) fleet.Store {
	return lying{s, func(report map[string]any) {
		for name, f := range report["f"].(map[string]any) {
			if name != "" {
				f.(map[string]any)["o"] = open
			}
		}
	}}
}

// A process is one witness.
func TestOneThatRepeatsItselfIsOneWitness(t *testing.T) {
	for liars, want := range []policy.BreakerState{policy.StateClosed, policy.StateClosed, policy.StateOpen} {
		synctest.Test(t, func(t *testing.T) {
			store, p := fleettest.NewMemory(), policy.Policy{Retry: policy.Retry{Attempts: 1}}
			mine := join(t, store, p)
			for range 3 {
				join(t, store, p)
			}
			for range liars {
				join(t, saying(store, []string{"", "", "x", "", ""}), p)
			}
			time.Sleep(12 * time.Second)
			for range 2 {
				_ = mine.d.Run(t.Context(), func(context.Context) error { return &net.OpError{Op: "read", Err: syscall.ECONNRESET} })
			}
			if got := state(mine); got != want {
				t.Errorf("where %d say five times each that it is open, the breaker is %s, want %s", liars, got, want)
			}
		})
	}
}

// letters are as many as that, and do not compress well.
func letters(rng *rand.Rand, n int) string {
	raw := make([]byte, n)
	for i := range raw {
		raw[i] = byte(rng.Uint32())
	}
	return base64.RawURLEncoding.EncodeToString(raw)[:n]
}

// What is believed goes into one record, without which no process has a share.
func TestThoseThatSayTooMuchStopNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, rng := fleettest.NewMemory(), rand.New(rand.NewPCG(1, 2))
		mine := join(t, store, shared())
		for range 2 {
			open := make([]string, 16)
			for i := range open {
				open[i] = letters(rng, 55_000)
			}
			for range 2 {
				join(t, saying(store, open), shared())
			}
		}
		time.Sleep(8 * time.Second)
		if st := mine.Status(); st.Lost || st.Failed > 0 || st.Members != 5 {
			t.Errorf("its status is %+v", st)
		}
	})
}

// A report in another's name could give away what that one holds.
func TestAReportInAnothersNameIsNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := fleettest.NewMemory()
		mine := join(t, store, shared())
		time.Sleep(10 * time.Second)
		before := mine.Status().Shares[0].Amount
		record := fmt.Sprintf(`{"v":1,"id":%q,"n":%d,"end":true}`, mine.Status().ID, uint64(1)<<60)
		if _, err := store.Do(t.Context(), fleet.Batch{Puts: []fleet.Put{{Key: "gabion/pods/liar", Value: []byte(record)}}}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Second) // what it had by then has ended
		if st, rate := mine.Status(), mine.d.Stats().RateLimit.Rate; st.Shares[0].Amount != before || st.Members != 1 || float64(rate) < before*0.99 {
			t.Errorf("it had %v of 1,000, and now %v: %+v", before, rate, st)
		}
		v, err := fleetlook.Look(t.Context(), store, "gabion")
		if err != nil || len(v.Members) != 1 || len(v.Unread) != 1 || !strings.Contains(v.Unread[0], "another process's name") {
			t.Errorf("%+v, %v", v, err)
		}
	})
}

// What the page and the status add up is no nonsense because one reports some.
func TestCountsThatMakeNoSenseAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := fleettest.NewMemory()
		join(t, lying{store, func(report map[string]any) {
			for name, f := range report["f"].(map[string]any) {
				if name != "" {
					f := f.(map[string]any)
					f["c"], f["s"], f["r"], f["p"] = int64(1)<<62, -5, int64(-1)<<62, int64(1)<<62
				}
			}
		}}, shared())
		v, err := fleetlook.Look(t.Context(), store, "gabion")
		if err != nil || len(v.Members) != 1 {
			t.Fatalf("%+v, %v", v, err)
		}
		if d := v.Members[0].Dependencies[0]; d.Calls > 1<<50 || d.Succeeded != 0 || d.Unsent != 0 || d.P99 > time.Hour {
			t.Errorf("%+v", d)
		}
	})
}
