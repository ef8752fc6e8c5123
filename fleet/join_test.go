package fleet_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/fleet"
	"github.com/gabion-go/gabion/fleet/fleettest"
	"github.com/gabion-go/gabion/internal/adapter"
	"github.com/gabion-go/gabion/internal/machine"
	"github.com/gabion-go/gabion/policy"
)

// pod is a process of a fleet: it has a registry of its own.
type pod struct {
	*fleet.Member
	r   *gabion.Registry
	d   *gabion.Dependency
	log bytes.Buffer
}

func shared() policy.Policy {
	return policy.Policy{
		RateLimit: policy.RateLimit{Rate: 1000, Burst: 10, MaxWait: 100 * time.Millisecond}, Fleet: policy.Fleet{Rate: true},
		Retry: policy.Retry{Attempts: 1},
	}
}

func join(t *testing.T, s fleet.Store, p policy.Policy) *pod {
	t.Helper()
	one := new(pod)
	var err error
	if one.r, err = gabion.NewRegistry(map[string]policy.Policy{"payments": p}); err != nil {
		t.Fatal(err)
	}
	if one.d, err = one.r.Get("payments"); err != nil {
		t.Fatal(err)
	}
	one.Member, err = fleet.Join(t.Context(), one.r, s, fleet.Options{Logger: slog.New(slog.NewTextHandler(&one.log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(one.Close)
	return one
}

// call makes one call, and reports whether it was sent.
func (p *pod) call(ctx context.Context) (sent bool) {
	_, _ = gabion.Do(ctx, p.d, func(context.Context) (int, error) { sent = true; return 0, nil })
	return sent
}

// load makes calls a second for a time, and returns how many were sent by each. Those that wait for a slot or a turn at
// the end count.
func load(ctx context.Context, lasts time.Duration, perSecond []int, pods ...*pod) []int {
	sent := make([]atomic.Int64, len(pods))
	due := make([]float64, len(pods))
	var all sync.WaitGroup
	for end := time.Now().Add(lasts); time.Now().Before(end); time.Sleep(time.Millisecond) {
		for i, p := range pods {
			for due[i] += float64(perSecond[i]) / 1000; due[i] >= 1; due[i]-- {
				all.Go(func() {
					if p.call(ctx) {
						sent[i].Add(1)
					}
				})
			}
		}
	}
	all.Wait()
	counts := make([]int, len(pods))
	for i := range sent {
		counts[i] = int(sent[i].Load())
	}
	return counts
}

func TestARateIsSharedByWhatEachWants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := fleettest.NewMemory()
		a, b := join(t, store, shared()), join(t, store, shared())
		load(t.Context(), 15*time.Second, []int{2000, 2000}, a, b)
		even := load(t.Context(), 10*time.Second, []int{2000, 2000}, a, b)
		if sum := even[0] + even[1]; sum < 9700 || sum > 10_400 {
			t.Errorf("%v are sent of 10,000 while both want more", even)
		}
		if even[0] < 4700 || even[1] < 4700 {
			t.Errorf("%v are sent by equals", even)
		}
		load(t.Context(), 15*time.Second, []int{100, 2000}, a, b)
		skewed := load(t.Context(), 10*time.Second, []int{100, 2000}, a, b)
		if skewed[0] < 980 || skewed[0]+skewed[1] < 9200 || skewed[0]+skewed[1] > 10_400 {
			t.Errorf("%v are sent where one wants 1,000 and the other all", skewed)
		}
		a.Close()
		load(t.Context(), 10*time.Second, []int{2000}, b)
		if alone := load(t.Context(), 10*time.Second, []int{2000}, b); alone[0] < 9800 || alone[0] > 10_400 {
			t.Errorf("%v are sent by one that is left", alone)
		}
	})
}

// The drivers sleep until their turn: another share has to wake them.
func TestCallsThatWaitMoveUpInALargerShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := shared()
		p.RateLimit.MaxWait = time.Minute
		for name, how := range map[string]policy.Policy{"serial": p, "hedging": hedged(p)} {
			d := gabion.New(name, how)
			share := func(rate float64) {
				adapter.Of(d).Lease(&adapter.Lease{Until: time.Now().Add(time.Hour), Share: machine.Share{Limits: machine.OfRate, Rate: rate}})
			}
			share(0.2)
			began, all := time.Now(), sync.WaitGroup{}
			for range 5 {
				all.Go(func() {
					if _, err := gabion.Do(t.Context(), d, func(context.Context) (int, error) { return 0, nil }); err != nil {
						t.Error(err)
					}
				})
			}
			synctest.Wait()
			share(100)
			if all.Wait(); time.Since(began) > 100*time.Millisecond {
				t.Errorf("%s: the last of five calls is sent after %s at 100/s", name, time.Since(began))
			}
		}
	})
}

func hedged(p policy.Policy) policy.Policy {
	p.Safe, p.Hedge = true, policy.Hedge{Max: 1, Delay: time.Second}
	return p
}

func TestTheDeathOfTheStoreIsNoEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := fleettest.NewMemory()
		a, b := join(t, store, shared()), join(t, store, shared())
		load(t.Context(), 15*time.Second, []int{2000, 2000}, a, b)
		store.Break(errors.New("connection refused"))
		before := store.Batches()
		away := load(t.Context(), 60*time.Second, []int{2000, 2000}, a, b)
		if asked := store.Batches() - before; asked > 80 {
			t.Errorf("two processes ask a store that is away %d times in a minute", asked)
		}
		if sum := away[0] + away[1]; sum < 54_000 || sum > 60_400 {
			t.Errorf("%v are sent of 60,000 while the store is away", away)
		}
		if st := a.Status(); !st.Lost || st.Failed == 0 || st.Err == nil {
			t.Errorf("its status is %+v", st)
		}
		if st := a.d.Stats(); !st.Share.On || !st.Share.Lost {
			t.Errorf("the statistics are %+v", st.Share)
		}
		store.Break(nil)
		time.Sleep(20 * time.Second)
		if st := a.Status(); st.Lost || st.Err != nil {
			t.Errorf("its status is %+v", st)
		}
		if lines := strings.Count(a.log.String(), "\n"); lines != 2 {
			t.Errorf("%d lines are logged, want one of the loss and one of the return:\n%s", lines, a.log.String())
		}
	})
}

// What policies declare is in force where the store never answered.
func TestAProcessStartsWithoutTheStore(t *testing.T) {
	for _, c := range []struct {
		fact string
		lost policy.Ratio
		want int // of 1,000 a second, in ten seconds
	}{
		{"with the declared part", 0.05, 500},
		{"with a tenth where nothing is declared", 0, 1000},
		{"with nothing", policy.Off, 0},
	} {
		t.Run(c.fact, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := fleettest.NewMemory()
				store.Break(errors.New("connection refused"))
				p := shared()
				p.Fleet.Lost = c.lost
				a := join(t, store, p)
				if sent := load(t.Context(), 10*time.Second, []int{2000}, a); sent[0] < c.want*98/100 || sent[0] > c.want+c.want/50+40 {
					t.Errorf("%d are sent, want %d", sent[0], c.want)
				}
			})
		})
	}
}

// hanging is a store that does not answer, or panics.
type hanging struct {
	fleet.Store
	how       atomic.Value // string
	out, most atomic.Int32 // batches that it works on
}

func (h *hanging) Do(ctx context.Context, b fleet.Batch) (fleet.Result, error) {
	h.most.Store(max(h.most.Load(), h.out.Add(1)))
	defer h.out.Add(-1)
	switch h.how.Load() {
	case "panics":
		panic("no store")
	case "heeds its context":
		<-ctx.Done()
		return fleet.Result{}, ctx.Err()
	case "heeds nothing":
		time.Sleep(time.Minute)
	case "says no time":
		return fleet.Result{Swapped: true}, nil
	case "answers nonsense":
		return fleet.Result{Now: time.Unix(1e9, 0), Swapped: true, Items: map[string]fleet.Item{
			"gabion/pool": {Value: []byte("{"), Version: 1}, "gabion/overrides": {Value: []byte("{"), Version: 1},
		}}, nil
	}
	return h.Store.Do(ctx, b)
}

func TestAStoreThatMisbehavesHoldsUpNothing(t *testing.T) {
	for _, how := range []string{"panics", "heeds its context", "heeds nothing", "says no time", "answers nonsense"} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &hanging{Store: fleettest.NewMemory()}
				a := join(t, store, shared())
				time.Sleep(6 * time.Second)
				store.how.Store(how)
				began := time.Now()
				time.Sleep(10 * time.Second)
				if st := a.Status(); !st.Lost {
					t.Errorf("after %s the status is %+v", time.Since(began), st)
				}
				if sent := load(t.Context(), time.Second, []int{2000}, a); sent[0] < 740 {
					t.Errorf("%v are sent by one that had three quarters", sent)
				}
				store.how.Store("")
				time.Sleep(90 * time.Second)
				if st := a.Status(); st.Lost {
					t.Errorf("its status is %+v when the store is back", st)
				}
				a.Close()
				time.Sleep(time.Minute) // what was left behind ends
				if n := store.most.Load(); n > 1 {
					t.Errorf("%d batches were out at once", n)
				}
			})
		})
	}
}

func TestAReloadIsFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := join(t, fleettest.NewMemory(), shared())
		next := shared()
		next.RateLimit.Rate = 100
		if err := a.r.Reload(map[string]policy.Policy{"payments": next, "mail": shared()}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		if st := a.Status(); len(st.Shares) != 2 || st.Shares[1].Of != 100 || st.Shares[1].Amount > 100 || st.Shares[0].Dependency != "mail" {
			t.Errorf("%+v", st.Shares)
		}
		next.Fleet = policy.Fleet{}
		if err := a.r.Reload(map[string]policy.Policy{"payments": next}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		if st := a.Status(); len(st.Shares) != 0 || a.d.Stats().Share.On {
			t.Errorf("%+v, %+v", st.Shares, a.d.Stats().Share)
		}
	})
}

func TestAllLimitsAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := fleettest.NewMemory()
		p := shared()
		p.Bulkhead.Limit = 20
		p.RateLimit.Quotas = []policy.Quota{{Unit: "tokens", Amount: 1000, Span: time.Minute, Estimate: 1}}
		p.Retry = policy.Retry{Attempts: 3, Budget: policy.Budget{Reserve: 10}}
		p.Fleet = policy.Fleet{Rate: true, Slots: true, Quotas: true, Budget: true}
		a, b := join(t, store, p), join(t, store, p)
		load(t.Context(), 20*time.Second, []int{5, 5}, a, b)
		sums := map[string]float64{}
		of := map[string]float64{"rate": 1000, "slots": 20, "budget": 1, "tokens/1m": 1000}
		for _, one := range []*pod{a, b} {
			st := one.Status()
			if len(st.Shares) != 4 || st.Members != 2 {
				t.Fatalf("%+v", st)
			}
			for _, s := range st.Shares {
				sums[s.Limit] += s.Amount
				if s.Of != of[s.Limit] || s.Amount <= 0 {
					t.Errorf("%+v", s)
				}
			}
		}
		for limit, sum := range sums {
			if sum > of[limit]*(1+1e-9) || sum < of[limit]*0.5 {
				t.Errorf("%v of %v %s are in force", sum, of[limit], limit)
			}
		}
		st := a.d.Stats()
		if st.Bulkhead.Limit >= 20 || st.RateLimit.Rate >= 1000 || !st.Main.Quotas[0].Shared || !st.Share.Floored {
			t.Errorf("%+v", st)
		}
	})
}

// A process that has left may make calls that it began. It has what a process has that reaches no store.
func TestAProcessThatHasLeftHasNoShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := join(t, fleettest.NewMemory(), shared())
		if st := a.d.Stats(); st.RateLimit.Rate != 500 {
			t.Fatalf("the first has %v, want half, as others may come", st.RateLimit.Rate)
		}
		time.Sleep(7 * time.Second)
		if st := a.d.Stats(); st.RateLimit.Rate < 700 {
			t.Fatalf("alone it has %v", st.RateLimit.Rate)
		}
		a.Close()
		if st := a.d.Stats(); st.RateLimit.Rate != 100 || !st.Share.Lost {
			t.Errorf("after it left it has %v, %+v", st.RateLimit.Rate, st.Share)
		}
		a.Close()
	})
}
