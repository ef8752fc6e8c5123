package fleet_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/fleet"
	"github.com/gabion-go/gabion/fleet/fleettest"
	"github.com/gabion-go/gabion/internal/testrace"
	"github.com/gabion-go/gabion/policy"
)

// records says how long what a fleet has in its store is.
func records(t *testing.T, s fleet.Store) (report, pool int) {
	t.Helper()
	r, err := s.Do(t.Context(), fleet.Batch{List: "gabion/"})
	if err != nil {
		t.Fatal(err)
	}
	for key, item := range r.Items {
		if strings.HasPrefix(key, "gabion/pods/") {
			report = max(report, len(item.Value))
		}
	}
	return report, len(r.Items["gabion/pool"].Value)
}

// broken calls partitions of a dependency, and breaks all of them.
func broken(t *testing.T, d *gabion.Dependency, names []string) {
	t.Helper()
	for _, name := range names {
		if err := d.Run(t.Context(), func(context.Context) error { return nil }, gabion.WithPartition(name)); err != nil {
			t.Fatal(err)
		}
		b, ok := d.Breaker(name)
		if !ok {
			t.Fatalf("there is no partition %s", name)
		}
		b.ForceOpen(time.Hour)
		b.Reset()
		b.Trip()
	}
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// A fleet knows of sixteen partitions of a dependency at most. Others cost neither the store nor the process anything, but for a look at
// each when it renews, and while an override is for their breakers a line for each.
func TestMoreThanTenThousandPartitionsCostTheFleetNothing(t *testing.T) {
	many := 12_000
	if testing.Short() {
		many = 1_200
	}
	cost := map[int][3]int{}
	for _, n := range []int{20, many} {
		synctest.Test(t, func(t *testing.T) {
			store, p := fleettest.NewMemory(), shared()
			p.RateLimit = policy.RateLimit{Quotas: []policy.Quota{{Unit: "tokens", Amount: 1e6, Span: time.Minute, Estimate: 1}}}
			p.Fleet, p.Partitions.Max, p.Breaker.Open = policy.Fleet{Quotas: true}, many, time.Hour
			names := make([]string, n)
			for i := range names {
				names[i] = fmt.Sprintf("tenant-%05d.example.com", i)
			}
			a := join(t, store, p)
			broken(t, a.d, names)
			join(t, store, p)
			time.Sleep(10 * time.Second)
			before, batches := heap(), store.Batches()
			time.Sleep(time.Minute)
			batches = store.Batches() - batches
			if grown := int64(heap()) - int64(before); grown > 1<<20 {
				t.Errorf("with %d partitions the heap has grown by %d bytes in a minute", n, grown)
			}
			report, pool := records(t, store)
			cost[n] = [3]int{batches, report, pool}
			if st := a.Status(); st.Lost || st.Failed > 0 {
				t.Errorf("with %d partitions the status is %+v", n, st)
			}
			steer(t, store, fleet.Override{Dependency: "payments", Action: fleet.Disable, For: 10 * time.Second})
			time.Sleep(2 * time.Second)
			if b := a.d.Stats().Partitions[n-1].Breaker; b.State != policy.StateDisabled {
				t.Errorf("the breaker of the last of %d partitions is %s", n, b.State)
			}
		})
	}
	few, all := cost[20], cost[many]
	t.Logf("batches in a minute, bytes of a report and of the pool: %v with 20, %v with %d", few, all, many)
	if all[0] > few[0]+few[0]/10 || all[1] > few[1]+500 || all[2] > few[2]+500 {
		t.Error("more partitions cost more")
	}
}

// metered counts what goes to a store and comes from it, which takes its time.
type metered struct {
	fleet.Store
	in, out, lists atomic.Int64 // bytes, and lists of all reports
}

func (m *metered) Do(ctx context.Context, b fleet.Batch) (fleet.Result, error) {
	if b.Swap != nil {
		m.in.Add(int64(len(b.Swap.Value)))
	}
	for i := range b.Puts {
		m.in.Add(int64(len(b.Puts[i].Value)))
	}
	if b.List != "" {
		m.lists.Add(1)
		time.Sleep(100 * time.Millisecond)
	}
	time.Sleep(5 * time.Millisecond)
	r, err := m.Store.Do(ctx, b)
	for _, item := range r.Items {
		m.out.Add(int64(len(item.Value)))
	}
	return r, err
}

// asked is what processes ask of a store in a second, when all of them have joined.
type asked struct {
	batches, in, out int
	lists            float64
}

// crowd lets processes join together, and says what they ask from then on. Each wants a call in five seconds of each dependency.
func crowd(t *testing.T, processes, dependencies int) (a asked) {
	synctest.Test(t, func(t *testing.T) {
		memory := fleettest.NewMemory()
		store := &metered{Store: memory}
		policies := map[string]policy.Policy{}
		for n := range dependencies {
			p := shared()
			p.RateLimit.Rate, p.RateLimit.Burst = policy.PerSecond(float64(processes)/7.5), processes
			policies[fmt.Sprint("dependency-", n)] = p
		}
		ctx, stop := context.WithCancel(t.Context())
		var all, calls sync.WaitGroup
		members := make([]*fleet.Member, processes)
		for n := range members {
			r, err := gabion.NewRegistry(policies)
			if err != nil {
				t.Fatal(err)
			}
			calls.Go(func() {
				rng, list := rand.New(rand.NewPCG(uint64(n), 1)), r.All()
				for ctx.Err() == nil {
					_ = list[rng.IntN(len(list))].Run(ctx, func(context.Context) error { return nil })
					time.Sleep(time.Duration(rng.ExpFloat64() * float64(5*time.Second) / float64(dependencies)))
				}
			})
			all.Go(func() {
				if members[n], err = fleet.Join(t.Context(), r, store, fleet.Options{ID: fmt.Sprint("process-", n), Logger: slog.New(slog.DiscardHandler)}); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		defer func() {
			stop()
			calls.Wait()
			for _, m := range members {
				all.Go(m.Close)
			}
			all.Wait()
		}()
		if t.Failed() {
			return
		}
		t.Logf("%d processes begin with %d batches, %d lists and %d bytes", processes, memory.Batches(), store.lists.Load(), store.out.Load())
		time.Sleep(10 * time.Second)
		const span = 10
		before := asked{memory.Batches(), int(store.in.Load()), int(store.out.Load()), float64(store.lists.Load())}
		time.Sleep(span * time.Second)
		a = asked{(memory.Batches() - before.batches) / span, (int(store.in.Load()) - before.in) / span, (int(store.out.Load()) - before.out) / span, (float64(store.lists.Load()) - before.lists) / span}
		for _, m := range members {
			if st := m.Status(); st.Lost || len(st.Shares) != dependencies {
				t.Errorf("a process has %d shares of %d: %+v", len(st.Shares), dependencies, st)
				break
			}
		}
		report, pool := records(t, memory)
		t.Logf("%d processes: %+v in a second; a report of %d bytes, a pool of %d", processes, a, report, pool)
	})
	return a
}

// A thousand processes with twenty dependencies ask the store no more than 2,000 times a second. What one of them costs does not
// grow with their number: from 65 on each reads its part of the pool, and they take turns to divide it. GABION_MEASURE=1000 has as many.
func TestWhatProcessesAskOfTheStore(t *testing.T) {
	sizes, dependencies := []int{50, 150}, 20
	if many, err := strconv.Atoi(os.Getenv("GABION_MEASURE")); err == nil {
		sizes = []int{50, 100, 200, 500, many}
	} else if testing.Short() || testrace.Enabled {
		sizes, dependencies = []int{20, 120}, 3
	}
	for _, n := range sizes {
		a, in, out := crowd(t, n, dependencies), n*(500+300*dependencies), n*(1500+800*dependencies)
		if a.batches > 2*n || a.in > in || n > 64 && (a.out > out || a.lists > 3) {
			t.Errorf("%d processes ask %d times a second, of which %.1f are lists, write %d bytes and read %d; want at most %d, 3, %d and %d", n, a.batches, a.lists, a.in, a.out, 2*n, in, out)
		}
	}
}
