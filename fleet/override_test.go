package fleet_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/fleet"
	"github.com/gabion-go/gabion/fleet/fleettest"
	"github.com/gabion-go/gabion/policy"
)

func steer(t *testing.T, s fleet.Store, o fleet.Override) fleet.Override {
	t.Helper()
	o.Who, o.Why = "ada", "INC-123"
	o, err := fleet.Steer(t.Context(), s, "gabion", o)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func state(p *pod) policy.BreakerState { return p.d.Stats().Main.Breaker.State }

func TestAnOverrideIsInForceEverywhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := fleettest.NewMemory()
		a, b := join(t, store, shared()), join(t, store, shared())
		var moved []gabion.Event
		a.r.Observe(gabion.ObserverFunc(func(_ context.Context, e gabion.Event) {
			if e.Kind == policy.KindBreakerMoved {
				moved = append(moved, e)
			}
		}))
		host, err := a.r.Instance("payments", "eu")
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		steer(t, store, fleet.Override{Dependency: "payments", Action: fleet.ForceOpen, For: time.Minute})
		time.Sleep(2 * time.Second)
		late := join(t, store, shared())
		for i, p := range []*pod{a, b, late} {
			if got := state(p); got != policy.StateForcedOpen {
				t.Errorf("process %d: the breaker is %s 2 s later", i, got)
			}
		}
		if got := host.Stats().Main.Breaker.State; got != policy.StateForcedOpen {
			t.Errorf("that of an instance is %s", got)
		}
		if len(moved) == 0 || moved[0].Code != "ada: INC-123" {
			t.Errorf("the event says %+v", moved)
		}
		if all := a.Status().Overrides; len(all) != 1 || all[0].Why != "INC-123" {
			t.Errorf("the status has %+v", all)
		}
		store.Break(errors.New("connection refused"))
		time.Sleep(time.Minute)
		for i, p := range []*pod{a, b, late} {
			if !p.call(t.Context()) {
				t.Errorf("process %d: it does not end by itself: %+v", i, p.Status())
			}
		}
	})
}

func TestLiftedOverridesEndEverywhere(t *testing.T) {
	for _, c := range []struct {
		action fleet.Action
		state  policy.BreakerState
	}{{fleet.ForceOpen, policy.StateForcedOpen}, {fleet.Disable, policy.StateDisabled}, {fleet.Observe, policy.StateObserveOnly}} {
		t.Run(string(c.action), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := fleettest.NewMemory()
				a := join(t, store, shared())
				o := steer(t, store, fleet.Override{Dependency: fleet.Everything, Action: c.action, For: time.Hour})
				time.Sleep(2 * time.Second)
				if got := state(a); got != c.state {
					t.Errorf("the breaker is %s", got)
				}
				if err := fleet.Lift(t.Context(), store, "gabion", o.ID, "bob", "mended"); err != nil {
					t.Fatal(err)
				}
				time.Sleep(2 * time.Second)
				if got := state(a); got != policy.StateClosed {
					t.Errorf("the breaker is %s after it was lifted", got)
				}
				all, _, err := fleet.Overrides(t.Context(), store, "gabion")
				if err != nil || len(all) != 1 || all[0].LiftedBy != "bob" || all[0].LiftedWhy != "mended" {
					t.Errorf("the audit has %+v, %v", all, err)
				}
			})
		})
	}
}

func TestAHandOnThePageHasTheLastWord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := fleettest.NewMemory()
		a := join(t, store, shared())
		steer(t, store, fleet.Override{Dependency: "payments", Action: fleet.ForceOpen, For: time.Hour})
		time.Sleep(2 * time.Second)
		b, _ := a.d.Breaker("")
		b.By("carl").Reset()
		time.Sleep(5 * time.Second)
		if got := state(a); got != policy.StateClosed {
			t.Errorf("the breaker is %s", got)
		}
		steer(t, store, fleet.Override{Dependency: "payments", Action: fleet.Disable, For: time.Hour}) // a new one counts again
		time.Sleep(2 * time.Second)
		if got := state(a); got != policy.StateDisabled {
			t.Errorf("the breaker is %s", got)
		}
	})
}

// Neither the end of an override nor that it is lifted undoes what a hand did after it.
func TestWhatAHandDidOutlastsTheOverride(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := fleettest.NewMemory()
		a := join(t, store, shared())
		o := steer(t, store, fleet.Override{Dependency: "payments", Action: fleet.Observe, For: time.Hour})
		steer(t, store, fleet.Override{Dependency: "payments", Action: fleet.RetriesOff, For: time.Minute})
		time.Sleep(2 * time.Second)
		b, _ := a.d.Breaker("")
		b.By("carl").ForceOpen(time.Hour)
		a.d.Retries().By("carl").Stop(time.Hour)
		if err := fleet.Lift(t.Context(), store, "gabion", o.ID, "bob", "mended"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		if st := a.d.Stats(); st.Main.Breaker.State != policy.StateForcedOpen || !st.RetriesOff {
			t.Errorf("the breaker is %s, retries are off: %v", st.Main.Breaker.State, st.RetriesOff)
		}
	})
}

// It is in force everywhere within two seconds, and can be used, while callers go on.
func TestARateForAllIsInForceAtOnce(t *testing.T) {
	for _, c := range []struct {
		fact  string
		p     policy.Policy
		least float64 // in force then in each of ten
	}{
		{"a rate is shared", shared(), 2},
		{"there is no rate", policy.Policy{Retry: policy.Retry{Attempts: 1}}, 4.5},
	} {
		t.Run(c.fact, func(t *testing.T) {
			p := c.p
			synctest.Test(t, func(t *testing.T) {
				store := fleettest.NewMemory()
				var all []*pod
				for range 10 {
					all = append(all, join(t, store, p))
				}
				counts := slices.Repeat([]int{200}, len(all))
				var callers sync.WaitGroup
				callers.Go(func() { load(t.Context(), 20*time.Second, counts, all...) })
				time.Sleep(12 * time.Second)
				steer(t, store, fleet.Override{Dependency: "payments", Action: fleet.LimitRate, Rate: 50, For: 2 * time.Minute})
				time.Sleep(2 * time.Second)
				sum := 0.0
				for _, one := range all {
					st := one.d.Stats()
					if sum += float64(st.RateLimit.Rate); !st.Share.On || !st.RateLimit.On || float64(st.RateLimit.Rate) < c.least {
						t.Errorf("it is not in force, or less than %v is: %+v", c.least, st.RateLimit)
					}
				}
				if sum > 50*1.001 {
					t.Errorf("two seconds later all have %v a second, want 50 at most", sum)
				}
				callers.Wait()
			})
		})
	}
}

// A process that comes in between has it for the rest of its time.
func TestAnOverrideEndsEverywhereAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := fleettest.NewMemory()
		steer(t, store, fleet.Override{Dependency: "payments", Action: fleet.LimitRate, Rate: 50, For: time.Minute})
		time.Sleep(50 * time.Second)
		late := join(t, store, shared())
		if n := len(late.Status().Overrides); n != 1 {
			t.Fatalf("%d overrides are in force, want 1", n)
		}
		time.Sleep(11 * time.Second)
		if all := late.Status().Overrides; len(all) != 0 {
			t.Errorf("in force after its minute: %+v", all)
		}
	})
}

// Those that have ended make room for others.
func TestOverridesThatEndedMakeRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := fleettest.NewMemory()
		for i := range 150 {
			o := steer(t, store, fleet.Override{Dependency: fmt.Sprint("d", i), Action: fleet.ForceOpen, For: time.Minute})
			if time.Sleep(time.Second); o.Active(o.Until) {
				t.Fatal("it is in force at its end")
			}
		}
		all, now, err := fleet.Overrides(t.Context(), store, "gabion")
		if err != nil || len(all) != 100 {
			t.Fatalf("%d are kept, %v", len(all), err)
		}
		if err := fleet.Lift(t.Context(), store, "gabion", all[0].ID, "bob", "mended"); !errors.Is(err, fleet.ErrNotInForce) || all[0].Active(now) {
			t.Errorf("one that has ended is lifted: %v", err)
		}
	})
}

// When the newer of two ends, the older one is in force again.
func TestTheNewestOverrideCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := fleettest.NewMemory()
		a := join(t, store, shared())
		steer(t, store, fleet.Override{Dependency: "payments", Action: fleet.ForceOpen, For: time.Hour})
		time.Sleep(2 * time.Second)
		steer(t, store, fleet.Override{Dependency: "payments", Action: fleet.Observe, For: 10 * time.Second})
		time.Sleep(2 * time.Second)
		if got := state(a); got != policy.StateObserveOnly {
			t.Errorf("the breaker is %s", got)
		}
		time.Sleep(12 * time.Second)
		if got := state(a); got != policy.StateForcedOpen {
			t.Errorf("the breaker is %s", got)
		}
	})
}

func TestTheKillSwitch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := fleettest.NewMemory()
		a := join(t, store, shared())
		o := steer(t, store, fleet.Override{Dependency: fleet.Everything, Action: fleet.RetriesOff, For: time.Minute})
		time.Sleep(2 * time.Second)
		if !a.d.Stats().RetriesOff {
			t.Error("retries are on")
		}
		if err := fleet.Lift(t.Context(), store, "gabion", o.ID, "bob", "mended"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		if a.d.Stats().RetriesOff {
			t.Error("retries are off")
		}
	})
}

func TestARateForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := fleettest.NewMemory()
		p := policy.Policy{Retry: policy.Retry{Attempts: 1}, Timeout: policy.Timeout{Call: 100 * time.Millisecond}} // no rate, and nothing is shared
		a, b := join(t, store, p), join(t, store, p)
		time.Sleep(5 * time.Second)
		steer(t, store, fleet.Override{Dependency: "payments", Action: fleet.LimitRate, Rate: 20, For: 2 * time.Minute})
		time.Sleep(20 * time.Second)
		sent := 0
		for _, one := range []*pod{a, b} {
			st := one.d.Stats().RateLimit
			if !st.On || st.Rate > 20 {
				t.Errorf("%+v", st)
			}
			sent += int(st.Rate)
		}
		if sent > 20 {
			t.Errorf("all have %d a second, want 20 at most", sent)
		}
		store.Break(errors.New("connection refused"))
		time.Sleep(3 * time.Minute)
		if a.d.Stats().RateLimit.On {
			t.Error("it does not end by itself")
		}
	})
}

func TestWhatOverridesMayNotSay(t *testing.T) {
	good := fleet.Override{Dependency: "payments", Action: fleet.ForceOpen, For: time.Minute, Who: "ada", Why: "INC-123"}
	for fact, change := range map[string]func(*fleet.Override){
		"who is empty":            func(o *fleet.Override) { o.Who = " " },
		"why is empty":            func(o *fleet.Override) { o.Why = "" },
		"letters that do not":     func(o *fleet.Override) { o.Why = "a\x1b[2J" },
		"longer than 200":         func(o *fleet.Override) { o.Why = strings.Repeat("a", 201) },
		"the dependency is empty": func(o *fleet.Override) { o.Dependency = "" },
		"is no action":            func(o *fleet.Override) { o.Action = "reboot" },
		"every override ends":     func(o *fleet.Override) { o.For = 0 },
		"after at most 24h":       func(o *fleet.Override) { o.For = 25 * time.Hour },
		"a rate of 0":             func(o *fleet.Override) { o.Action = fleet.LimitRate },
		"name it":                 func(o *fleet.Override) { o.Action, o.Rate, o.Dependency = fleet.LimitRate, 5, fleet.Everything },
	} {
		t.Run(fact, func(t *testing.T) {
			o, store := good, fleettest.NewMemory()
			change(&o)
			if _, err := fleet.Steer(t.Context(), store, "gabion", o); err == nil || !strings.Contains(err.Error(), fact) {
				t.Errorf("the error is %v", err)
			}
			if store.Batches() != 0 {
				t.Error("the store was asked")
			}
		})
	}
	if _, err := fleet.Steer(t.Context(), fleettest.NewMemory(), "a/b", good); err == nil {
		t.Error("a fleet may not have a slash in its name")
	}
}

func TestOverridesAreBounded(t *testing.T) {
	store := fleettest.NewMemory()
	var first fleet.Override
	for i := range 100 {
		o := steer(t, store, fleet.Override{Dependency: fmt.Sprint("d", i), Action: fleet.ForceOpen, For: time.Hour})
		if i == 0 {
			first = o
		}
	}
	one := fleet.Override{Dependency: "payments", Action: fleet.ForceOpen, For: time.Minute, Who: "ada", Why: "INC-123"}
	if _, err := fleet.Steer(t.Context(), store, "gabion", one); !errors.Is(err, fleet.ErrTooMany) {
		t.Errorf("the error is %v", err)
	}
	if err := fleet.Lift(t.Context(), store, "gabion", first.ID, "bob", "mended"); err != nil {
		t.Fatal(err)
	}
	if _, err := fleet.Steer(t.Context(), store, "gabion", one); err != nil {
		t.Error(err)
	}
	all, _, _ := fleet.Overrides(t.Context(), store, "gabion")
	if len(all) != 100 || all[0].ID == first.ID {
		t.Errorf("%d are kept, the first of which is %+v", len(all), all[0])
	}
	if err := fleet.Lift(t.Context(), store, "gabion", first.ID, "bob", "again"); !errors.Is(err, fleet.ErrNotInForce) {
		t.Errorf("the error is %v", err)
	}
}

func TestOperatorsAtTheSameTime(t *testing.T) {
	store := fleettest.NewMemory()
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			steer(t, store, fleet.Override{Dependency: fmt.Sprint("d", i), Action: fleet.ForceOpen, For: time.Hour})
		})
	}
	all.Wait()
	if list, _, err := fleet.Overrides(t.Context(), store, "gabion"); len(list) != 8 || err != nil {
		t.Errorf("%d of 8 are kept: %v", len(list), err)
	}
}

func TestAStoreThatRefusesToWriteHasHalfAppliedNothing(t *testing.T) {
	store := fleettest.NewMemory()
	store.Break(errors.New("no permission"))
	o := fleet.Override{Dependency: "payments", Action: fleet.ForceOpen, For: time.Minute, Who: "ada", Why: "INC-123"}
	if _, err := fleet.Steer(t.Context(), store, "gabion", o); err == nil || !strings.Contains(err.Error(), "no permission") {
		t.Errorf("the error is %v", err)
	}
	store.Break(nil)
	if list, _, _ := fleet.Overrides(t.Context(), store, "gabion"); len(list) != 0 {
		t.Errorf("%+v", list)
	}
}
