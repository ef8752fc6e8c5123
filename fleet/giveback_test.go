package fleet_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/fleet"
	"github.com/gabion-go/gabion/fleet/fleettest"
	"github.com/gabion-go/gabion/internal/fleetlook"
	"github.com/gabion-go/gabion/policy"

	shares "github.com/gabion-go/gabion/internal/fleet"
)

// inspected is a store that compares what a process reports with what is in force in it.
type inspected struct {
	fleet.Store
	t      *testing.T
	d      *gabion.Dependency
	mu     sync.Mutex // guards what follows
	fell   bool       // the process gave something back
	beyond int        // reports of slots in use beyond the share
}

func (i *inspected) Do(ctx context.Context, b fleet.Batch) (fleet.Result, error) {
	for _, p := range b.Puts {
		r, err := shares.ParseReport(p.Value)
		if err != nil {
			i.t.Error(err)
			continue
		}
		i.compare(r)
	}
	return i.Store.Do(ctx, b)
}

func (i *inspected) compare(r *shares.Report) {
	i.mu.Lock()
	defer i.mu.Unlock()
	st := i.d.Stats()
	for k := range r.Demands {
		d := &r.Demands[k]
		has := float64(st.RateLimit.Rate)
		if strings.HasSuffix(d.Resource, " slots") {
			has = float64(max(st.Bulkhead.InUse, st.Bulkhead.Limit))
			if st.Bulkhead.InUse > st.Bulkhead.Limit {
				i.beyond++
			}
		} else if has < 200 && d.Want < 200 {
			i.fell = true
		}
		if st.Share.On && has > d.Holds*(1+1e-3) {
			i.t.Errorf("it reports that it holds %v of %s, and has %v", d.Holds, d.Resource, has)
		}
	}
}

// What a process does not report as held is others' at once. So nothing more may be in force in it, when it reports.
func TestNoMoreIsInForceThanIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := fleettest.NewMemory()
		p := shared()
		p.Bulkhead.Limit, p.Bulkhead.Queue, p.Timeout.Call = 20, 40, 5*time.Minute
		p.Fleet.Slots = true
		r, err := gabion.NewRegistry(map[string]policy.Policy{"payments": p})
		if err != nil {
			t.Fatal(err)
		}
		d, err := r.Get("payments")
		if err != nil {
			t.Fatal(err)
		}
		i := &inspected{Store: store, t: t, d: d}
		mine, err := fleet.Join(t.Context(), r, i, fleet.Options{Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
		if err != nil {
			t.Fatal(err)
		}
		defer mine.Close()
		// It has most of the slots, and calls that end late are in them.
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for range 14 {
			go d.Run(ctx, func(ctx context.Context) error { <-ctx.Done(); return nil })
		}
		time.Sleep(10 * time.Second)
		one, other := &pod{Member: mine, r: r, d: d}, join(t, store, p)
		for range 40 {
			go func() {
				for ctx.Err() == nil { // the other wants more than half
					_ = other.d.Run(ctx, func(ctx context.Context) error { <-ctx.Done(); return nil })
					time.Sleep(100 * time.Millisecond)
				}
			}()
		}
		time.Sleep(30 * time.Second)
		cancel()
		load(t.Context(), 15*time.Second, []int{2000, 2000}, one, other)
		load(t.Context(), 10*time.Second, []int{50, 2000}, one, other)
		i.mu.Lock()
		defer i.mu.Unlock()
		if !i.fell || i.beyond == 0 {
			t.Errorf("it gave back some of its rate: %v; %d reports of slots that were in use beyond the share", i.fell, i.beyond)
		}
	})
}

// Reports have an end, so that operators do not see for ever those that died or left.
func TestThoseThatAreGoneAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := fleettest.NewMemory()
		dead := &hanging{Store: store}
		join(t, dead, shared())
		join(t, store, shared()).Close()
		stays := join(t, store, shared())
		time.Sleep(5 * time.Second)
		dead.how.Store("says no time") // it has no store any more
		time.Sleep(40 * time.Second)
		v, err := fleetlook.Look(t.Context(), store, "gabion")
		if err != nil || len(v.Members) != 1 || v.Members[0].ID != stays.Status().ID {
			t.Errorf("%+v, %v", v.Members, err)
		}
	})
}

// The floor of a budget is for those that call.
func TestAFloorPassesToThoseThatCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, p := fleettest.NewMemory(), shared()
		p.Retry = policy.Retry{Attempts: 3, Budget: policy.Budget{Reserve: 10}}
		p.Fleet = policy.Fleet{Budget: true}
		a, b := join(t, store, p), join(t, store, p)
		load(t.Context(), 20*time.Second, []int{5, 5}, a, b)
		if got := a.Status().Shares[0].Amount; got < 0.4 || got > 0.6 {
			t.Errorf("one of two that call has %v of the floor", got)
		}
		load(t.Context(), 80*time.Second, []int{0, 5}, a, b)
		if quiet, busy := a.Status().Shares[0].Amount, b.Status().Shares[0].Amount; quiet > 0.01 || busy < 0.9 {
			t.Errorf("one that is quiet for a minute has %v of the floor, and the other %v", quiet, busy)
		}
	})
}

// Who holds a dependency that a reload has dropped may call it, also when the share that it had has ended.
func TestADependencyThatAReloadDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := join(t, fleettest.NewMemory(), shared())
		if err := a.r.Reload(map[string]policy.Policy{"mail": shared()}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(30 * time.Second)
		if st := a.d.Stats(); st.RateLimit.Rate != 100 || !st.Share.Lost {
			t.Errorf("it has %v, %+v; want a tenth of the whole, as one that has left", st.RateLimit.Rate, st.Share)
		}
		if err := a.r.Reload(map[string]policy.Policy{"payments": shared()}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		if st := a.d.Stats(); st.RateLimit.Rate < 700 || st.Share.Lost {
			t.Errorf("when it is back it has %v, %+v", st.RateLimit.Rate, st.Share)
		}
	})
}

// What an operator limits for a time is no limit of a dependency that a reload drops in that time: it has a tenth of its own limit, and no more than
// it had.
func TestAnOverrideDoesNotOutliveADroppedDependency(t *testing.T) {
	for _, c := range []struct {
		fact  string
		p     policy.Policy
		least float64 // of the rate; 0 means no limit
	}{
		{"with a limit of its own", shared(), 30},
		{"without one", policy.Policy{Retry: policy.Retry{Attempts: 1}}, 0},
	} {
		t.Run(c.fact, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := fleettest.NewMemory()
				a := join(t, store, c.p)
				time.Sleep(5 * time.Second)
				steer(t, store, fleet.Override{Dependency: "payments", Action: fleet.LimitRate, Rate: 50, For: time.Minute})
				time.Sleep(5 * time.Second)
				if st := a.d.Stats().RateLimit; !st.On || st.Rate > 50 {
					t.Fatalf("under the override it has %+v", st)
				}
				if err := a.r.Reload(map[string]policy.Policy{"mail": shared()}); err != nil {
					t.Fatal(err)
				}
				time.Sleep(2 * time.Minute)
				if st := a.d.Stats().RateLimit; st.On != (c.least > 0) || st.On && (float64(st.Rate) < c.least || st.Rate > 50) {
					t.Errorf("a minute after the override's end it has %+v", st)
				}
			})
		})
	}
}

// Limits for which a fleet has no room are each process's own.
func TestMoreLimitsThanAFleetCanShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		policies := map[string]policy.Policy{}
		for n := range shares.MaxResources + 10 {
			policies[fmt.Sprintf("d%04d", n)] = shared()
		}
		r, err := gabion.NewRegistry(policies)
		if err != nil {
			t.Fatal(err)
		}
		m, err := fleet.Join(t.Context(), r, fleettest.NewMemory(), fleet.Options{Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		on, given := 0, 0
		for _, d := range r.All() {
			st := d.Stats()
			if st.Share.On {
				on++
			}
			if st.Share.On && st.RateLimit.Rate > 100 {
				given++
			}
		}
		if st := m.Status(); st.Unshared != 10 || on != shares.MaxResources || given != on || st.Lost {
			t.Errorf("%d have a share, %d of them more than none, %d are not shared, %v", on, given, st.Unshared, st.Err)
		}
	})
}

// The network is cut to the dependency and to the store. When the dependency is back, what a process held is there for it.
func TestAShareIsNotGivenBackToAStoreThatIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := fleettest.NewMemory()
		p := shared()
		p.RateLimit.Rate, p.RateLimit.MaxWait = 100, time.Millisecond
		a, b := join(t, store, p), join(t, store, p)
		load(t.Context(), 20*time.Second, []int{300, 300}, a, b)
		store.Break(errors.New("no route to host"))
		time.Sleep(30 * time.Second) // nothing is called: breakers are open
		sent := load(t.Context(), 10*time.Second, []int{300, 300}, a, b)
		for i, n := range sent {
			if n < 400 || n > 600 {
				t.Errorf("process %d has sent %d in 10 s, want half of 100/s", i, n)
			}
		}
	})
}
