package stores

import (
	"context"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gabion-go/gabion/contrib/boltstore"
	"github.com/gabion-go/gabion/idempotency"
)

// A Crowd is a bolt file with many records.
type Crowd struct {
	Records, Expired int     // in the file; those that the sweep deletes are part of it
	Fill             float64 // seconds to write them
	FileMiB, RSSMiB  float64 // the memory is what the process has more than before, 0 where that can't be read
	P99, SweptP99    float64 // milliseconds of a claim, without a sweep and during one
	Swept            float64 // records a second
}

const (
	fillers  = 2048 // as many writes share a sync
	claimers = 16
)

// Many fills a file and claims keys in it, first in peace and then during a sweep.
func Many(t testing.TB, s Sizes) (c Crowd) {
	before := resident()
	file := filepath.Join(t.TempDir(), "records")
	store, err := boltstore.Open(file, boltstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { store.Close() }()
	c.Records, c.Expired = s.Records, s.Records/50
	start := time.Now()
	fill(t, store, c)
	c.Fill = time.Since(start).Seconds()
	if err := store.Close(); err != nil { // what writing them took is not what having them takes
		t.Fatal(err)
	}
	if store, err = boltstore.Open(file, boltstore.Options{}); err != nil {
		t.Fatal(err)
	}
	debug.FreeOSMemory()
	c.RSSMiB = max(0, resident()-before)
	if info, err := os.Stat(file); err == nil {
		c.FileMiB = float64(info.Size()) / (1 << 20)
	}
	c.P99 = claims(t, store, func() { time.Sleep(s.Look) })
	start = time.Now()
	swept := 0
	c.SweptP99 = claims(t, store, func() { swept = sweep(t, store, c.Expired) })
	c.Swept = float64(swept) / time.Since(start).Seconds()
	return c
}

// fill claims and completes: the first so that they expire at once.
func fill(t testing.TB, store idempotency.Store, c Crowd) {
	var next atomic.Int64
	var all sync.WaitGroup
	for range fillers {
		all.Go(func() {
			for n := next.Add(1); n <= int64(c.Records); n = next.Add(1) {
				claim := claimOf(someID())
				if n <= int64(c.Expired) {
					claim.Retention = 1
				}
				a, err := store.Begin(context.Background(), claim)
				if err == nil {
					err = store.Apply(context.Background(), idempotency.Ref{ID: claim.ID, Token: a.Record.Token}, idempotency.Change{State: idempotency.StateDone})
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

// sweep sweeps as services do, only without waiting for the next round, until expired records are gone.
func sweep(t testing.TB, store idempotency.Store, expired int) (swept int) {
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	idempotency.Sweep(ctx, store, idempotency.SweepConfig{Every: time.Millisecond, Observer: watch(func(n idempotency.Event) {
		if swept += n.Records; n.Err != nil || swept >= expired {
			stop()
		}
	})})
	if swept < expired {
		t.Errorf("swept %d of %d", swept, expired)
	}
	return swept
}

type watch func(idempotency.Event)

// Observe implements [idempotency.Observer].
func (w watch) Observe(_ context.Context, n idempotency.Event) { w(n) }

// claims claims keys while something happens, and returns the 99th percentile.
func claims(t testing.TB, store idempotency.Store, during func()) float64 {
	var over atomic.Bool
	took := make([][]time.Duration, claimers)
	var all sync.WaitGroup
	for w := range took {
		all.Go(func() {
			for !over.Load() {
				start := time.Now()
				if _, err := store.Begin(context.Background(), claimOf(someID())); err != nil {
					t.Error(err)
					return
				}
				took[w] = append(took[w], time.Since(start))
			}
		})
	}
	during()
	over.Store(true)
	all.Wait()
	sorted := slices.Concat(took...)
	slices.Sort(sorted)
	return quantile(sorted, 0.99)
}

// resident returns the memory of this process in MiB, without pages of files.
func resident() float64 {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	_, after, _ := strings.Cut(string(text), "RssAnon:")
	fields := strings.Fields(after)
	if len(fields) == 0 {
		return 0
	}
	kib, _ := strconv.Atoi(fields[0])
	return float64(kib) / 1024
}
