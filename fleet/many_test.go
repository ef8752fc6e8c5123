package fleet_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"runtime"
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

// A thousand processes with twenty dependencies ask the store no more than 2,000 times a second. Each asks by itself, and who divides
// asks for all: so what fewer ask, by process, is more than what a thousand do.
func TestWhatProcessesAskOfTheStore(t *testing.T) {
	processes := 50
	if testing.Short() {
		processes = 10
	}
	synctest.Test(t, func(t *testing.T) {
		store := fleettest.NewMemory()
		policies := map[string]policy.Policy{}
		for n := range 20 {
			policies[fmt.Sprint("dependency-", n)] = shared()
		}
		var all sync.WaitGroup
		registries := make([]*gabion.Registry, processes)
		members := make([]*fleet.Member, processes)
		for n := range registries {
			all.Go(func() {
				var err error
				if registries[n], err = gabion.NewRegistry(policies); err != nil {
					t.Error(err)
					return
				}
				members[n], err = fleet.Join(t.Context(), registries[n], store, fleet.Options{ID: fmt.Sprint("process-", n), Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
				if err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if t.Failed() {
			return
		}
		defer func() {
			for _, m := range members {
				all.Go(m.Close)
			}
			all.Wait()
		}()
		time.Sleep(10 * time.Second)
		before, failed := store.Batches(), 0
		const span = 10
		time.Sleep(span * time.Second)
		asked := store.Batches() - before
		for _, m := range members {
			if st := m.Status(); st.Lost || len(st.Shares) != 20 {
				failed++
			}
		}
		t.Logf("%d processes ask %d times a second", processes, asked/span)
		if most := 2 * processes; asked/span > most || failed > 0 {
			t.Errorf("%d processes ask %d times a second, want at most %d; %d could not", processes, asked/span, most, failed)
		}
	})
}
