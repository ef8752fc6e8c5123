package fleet_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion/fleet"
	"github.com/gabion-go/gabion/fleet/fleettest"
	"github.com/gabion-go/gabion/internal/fleetlook"
	"github.com/gabion-go/gabion/policy"
)

// An override ends when it was to, whatever the store's clock does.
func TestAnOverrideEndsThoughTheStoresClockStepsBack(t *testing.T) {
	for _, c := range []struct {
		fact  string
		after time.Duration // of the step
	}{
		{"while it is in force", time.Minute},
		{"when it is over", 6 * time.Minute},
	} {
		t.Run(c.fact, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := fleettest.NewMemory()
				mine := join(t, store, shared())
				steer(t, store, fleet.Override{Dependency: "payments", Action: fleet.LimitRate, Rate: 50, For: 5 * time.Minute})
				time.Sleep(c.after)
				store.Step(-10 * time.Hour)
				time.Sleep(7*time.Minute - c.after)
				if all := mine.Status().Overrides; len(all) != 0 {
					t.Errorf("in force after seven minutes of five: %+v", all)
				}
				late := join(t, store, shared())
				time.Sleep(6 * time.Minute)
				if all := late.Status().Overrides; len(all) != 0 {
					t.Errorf("in force for longer than five minutes in a process that came later: %+v", all)
				}
			})
		})
	}
}

// lagging is a store that answers late, also those that gave up.
type lagging struct {
	fleet.Store
	lag time.Duration
}

func (l *lagging) Do(ctx context.Context, b fleet.Batch) (fleet.Result, error) {
	timer := time.NewTimer(l.lag)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		time.Sleep(time.Millisecond)
		return fleet.Result{}, ctx.Err()
	}
	return l.Store.Do(ctx, b)
}

// One that is closed while a renewal is out gives its shares back all the same.
func TestClosedWhileARenewalIsOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := fleettest.NewMemory()
		for n := range 25 {
			lag := &lagging{Store: store, lag: 300 * time.Millisecond}
			mine := join(t, lag, shared())
			time.Sleep(time.Duration(n) * 200 * time.Millisecond)
			mine.Close()
			if err := mine.Status().Err; err != nil {
				t.Errorf("closed %d ms after it joined: %v", n*200, err)
			}
			if st := mine.Status(); st.Lost || st.Failed > 0 || mine.log.Len() > 0 {
				t.Errorf("closed %d ms after it joined, it says that the store is away: %+v\n%s", n*200, st, mine.log.String())
			}
		}
		v, err := fleetlook.Look(t.Context(), store, "gabion")
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range v.Members {
			if !m.Left {
				t.Errorf("%s has not given its shares back", m.ID)
			}
		}
	})
}

func TestARegistryJoinsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := fleettest.NewMemory()
		mine := join(t, store, shared())
		if _, err := fleet.Join(t.Context(), mine.r, store, fleet.Options{Name: "other"}); err == nil || !strings.Contains(err.Error(), "a member already") {
			t.Errorf("it joined twice: %v", err)
		}
		mine.Close()
		again, err := fleet.Join(t.Context(), mine.r, store, fleet.Options{})
		if err != nil {
			t.Fatal(err)
		}
		again.Close()
	})
}

// An entry that this release does not understand neither undoes the others nor is lost when the record changes.
func TestAnOverrideOfANextRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := fleettest.NewMemory()
		mine := join(t, store, shared())
		o := steer(t, store, fleet.Override{Dependency: "payments", Action: fleet.ForceOpen, For: time.Hour})
		known, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		const next = `{"id":"next","dependency":"payments","action":{"pace":"2/s"},"for":"1h"}`
		put := func(value string) {
			if _, err := store.Do(t.Context(), fleet.Batch{Puts: []fleet.Put{{Key: "gabion/overrides", Value: []byte(value)}}}); err != nil {
				t.Fatal(err)
			}
		}
		put(`{"v":1,"overrides":[` + next + `,` + string(known) + `]}`)
		time.Sleep(2 * time.Second)
		if got := state(mine); got != policy.StateForcedOpen || mine.Status().Err != nil {
			t.Errorf("the breaker is %s, %v", got, mine.Status().Err)
		}
		if err := fleet.Lift(t.Context(), store, "gabion", o.ID, "bob", "well"); err != nil {
			t.Fatal(err)
		}
		r, err := store.Do(t.Context(), fleet.Batch{Get: []string{"gabion/overrides"}})
		if err != nil || !strings.Contains(string(r.Items["gabion/overrides"].Value), `"pace":"2/s"`) {
			t.Errorf("what a next release wanted is lost: %s, %v", r.Items["gabion/overrides"].Value, err)
		}
		// What can't be read at all changes nothing.
		steer(t, store, fleet.Override{Dependency: "payments", Action: fleet.ForceOpen, For: time.Hour})
		time.Sleep(2 * time.Second)
		for _, broken := range []string{`{"v":1,"overr`, strings.Repeat(" ", 10<<20), `{"v":2,"overrides":{}}`} {
			put(broken)
			time.Sleep(2 * time.Second)
			if got := state(mine); got != policy.StateForcedOpen {
				t.Errorf("after a record of %d bytes the breaker is %s", len(broken), got)
			}
			if err := fleet.Lift(t.Context(), store, "gabion", "any", "bob", "well"); err == nil {
				t.Errorf("a record of %d bytes that can't be read was changed", len(broken))
			}
		}
	})
}
