package stores

import (
	"context"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gabion-go/gabion/idempotency"
)

// Workers is how many goroutines work at once.
const Workers = 64

// Sizes say how much is measured.
type Sizes struct {
	Rounds  int           // through all contestants in turn
	Each    time.Duration // of each contestant in a round
	Calls   int           // of the middleware, in each of its rounds
	Records int           // in the file for the test of many
	Look    time.Duration // at claims on that file, without a sweep
}

// Full takes about two minutes, Quick some seconds.
var (
	Full  = Sizes{Rounds: 3, Each: 2500 * time.Millisecond, Calls: 100_000, Records: 1_000_000, Look: 5 * time.Second}
	Quick = Sizes{Rounds: 1, Each: 100 * time.Millisecond, Calls: 200, Records: 5_000, Look: 100 * time.Millisecond}
)

// A Row is what came of one contestant.
type Row struct {
	Name    string
	Missing string  // why it was not measured
	Rounds  []Round `json:",omitempty"`
	Bytes   float64 // on disk, for each pair
}

// A Round is one of its turns.
type Round struct{ Pairs, P50, P99 float64 } // pairs a second, milliseconds

// A contestant does pairs: a claim and its completion.
type contestant struct {
	pair func(ctx context.Context, id idempotency.ID, body []byte) error
	size func() int64 // of what it has on disk
}

// A kind makes a contestant and ties it to the test.
type kind struct {
	name string
	make func(t testing.TB) contestant
}

var random = func() []byte {
	b := make([]byte, 1<<20)
	rand.NewChaCha8([32]byte{}).Read(b)
	return b
}()

// someBody returns 1 KiB that can't be compressed.
func someBody() []byte {
	n := rand.IntN(len(random) - 1024)
	return random[n : n+1024]
}

func someID() (id idempotency.ID) {
	for i := range id {
		id[i] = byte(rand.Uint32())
	}
	return id
}

// Pairs measures all contestants in turn, several times.
func Pairs(t testing.TB, s Sizes) []Row {
	rows := make([]Row, len(kinds))
	all := make([]contestant, len(kinds))
	done := make([]int64, len(kinds))
	for i, k := range kinds {
		rows[i].Name = k.name
		rows[i].Missing = attempt(t, func(t testing.TB) { all[i] = k.make(t) })
	}
	for round := range s.Rounds {
		for i := range all {
			if rows[i].Missing != "" {
				continue
			}
			if round == 0 {
				all[i].work(t, s.Each/5) // connections, prepared statements, first pages
			}
			before := all[i].size()
			took, elapsed := all[i].work(t, s.Each)
			rows[i].Bytes = (rows[i].Bytes*float64(done[i]) + float64(all[i].size()-before)) / float64(done[i]+int64(len(took)))
			done[i] += int64(len(took))
			rows[i].Rounds = append(rows[i].Rounds, Round{float64(len(took)) / elapsed.Seconds(), quantile(took, 0.5), quantile(took, 0.99)})
		}
	}
	return rows
}

// work does pairs for so long and returns how long each took, sorted.
func (c contestant) work(t testing.TB, d time.Duration) (took []time.Duration, elapsed time.Duration) {
	var over atomic.Bool
	timer := time.AfterFunc(d, func() { over.Store(true) })
	defer timer.Stop()
	each := make([][]time.Duration, Workers)
	var all sync.WaitGroup
	begun := time.Now()
	for w := range each {
		all.Go(func() {
			for first := true; first || !over.Load(); first = false {
				start := time.Now()
				if err := c.pair(context.Background(), someID(), someBody()); err != nil {
					t.Error(err)
					return
				}
				each[w] = append(each[w], time.Since(start))
			}
		})
	}
	all.Wait()
	elapsed = time.Since(begun)
	took = slices.Concat(each...)
	slices.Sort(took)
	return took, elapsed
}

// quantile returns milliseconds.
func quantile(sorted []time.Duration, q float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return float64(sorted[int(q*float64(len(sorted)-1))].Microseconds()) / 1000
}

// ofStore returns a contestant that goes through a store.
func ofStore(store idempotency.Store, size func() int64) contestant {
	return contestant{size: size, pair: func(ctx context.Context, id idempotency.ID, body []byte) error {
		a, err := store.Begin(ctx, claimOf(id))
		if err != nil || a.Decision != idempotency.DecisionRun {
			return fmt.Errorf("begin: %v %w", a.Decision, err)
		}
		return store.Apply(ctx, idempotency.Ref{ID: id, Token: a.Record.Token}, completeWith(body))
	}}
}

func claimOf(id idempotency.ID) idempotency.Claim {
	return idempotency.Claim{ID: id, Owner: [16]byte(id[:16]), Lease: time.Minute, Retention: time.Hour}
}

func completeWith(body []byte) idempotency.Change {
	return idempotency.Change{State: idempotency.StateDone, Result: idempotency.Result{Status: 201, Body: body}}
}

// durable fails the test when a store could forget what it acknowledged: it would win.
func durable(t testing.TB, store idempotency.Store) {
	t.Helper()
	if c := store.Caps(); !c.Durable {
		t.Fatalf("the store is not durable: %q", c.Warnings)
	}
}

// sizeOf returns the size of all files in a directory.
func sizeOf(dir string) func() int64 {
	return func() (n int64) {
		filepath.WalkDir(dir, func(_ string, f fs.DirEntry, err error) error {
			if err == nil && !f.IsDir() {
				if info, err := f.Info(); err == nil {
					n += info.Size()
				}
			}
			return nil
		})
		return n
	}
}
