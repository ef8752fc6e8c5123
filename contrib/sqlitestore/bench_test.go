package sqlitestore

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gabion-go/gabion/idempotency"
)

const workers = 64

// BenchmarkPairs is a claim and its result of 1 KiB, durable both, by 64 goroutines:
// through the store, and as lines of a plain log that syncs once for all who wait.
// Compare the pairs/s of one run, and look at sync-ms: where the disk pretends to sync,
// a log costs nothing and the store is what SQLite's own work costs.
func BenchmarkPairs(b *testing.B) {
	body := make([]byte, 1<<10)
	rand.Read(body)
	b.Run("store", func(b *testing.B) {
		_, store := openSQLite(b)
		if !store.Caps().Durable {
			b.Fatal(store.Caps().Warnings)
		}
		measure(b, func(ctx context.Context, c idempotency.Claim) error {
			a, err := store.Begin(ctx, c)
			if err != nil {
				return err
			}
			ref := idempotency.Ref{ID: c.ID, Token: a.Record.Token}
			return store.Apply(ctx, ref, idempotency.Change{State: idempotency.StateDone, Result: idempotency.Result{Status: 201, Body: body}})
		})
	})
	b.Run("log", func(b *testing.B) {
		f, err := os.Create(filepath.Join(b.TempDir(), "log"))
		if err != nil {
			b.Fatal(err)
		}
		defer f.Close()
		l := &plainLog{f: f, lines: make(chan line, workers)}
		go l.run()
		defer close(l.lines)
		measure(b, func(_ context.Context, c idempotency.Claim) error {
			l.append(c.ID[:])
			return l.append(body)
		})
		b.ReportMetric(float64(l.syncing.Microseconds())/1000/float64(l.syncs), "sync-ms")
	})
}

// A plainLog appends lines and syncs once for all who wait.
type plainLog struct {
	f       *os.File
	lines   chan line
	syncs   int
	syncing time.Duration
}

type line struct {
	text []byte
	done chan error
}

func (l *plainLog) append(text []byte) error {
	x := line{text, make(chan error, 1)}
	l.lines <- x
	return <-x.done
}

func (l *plainLog) run() {
	var batch []line
	var text []byte
	for first := range l.lines {
		batch, text = append(batch[:0], first), append(text[:0], first.text...)
		for more := true; more && len(batch) < workers; {
			select {
			case x, open := <-l.lines:
				if more = open; open {
					batch, text = append(batch, x), append(text, x.text...)
				}
			default:
				more = false
			}
		}
		_, err := l.f.Write(text)
		if err == nil {
			start := time.Now()
			err = l.f.Sync()
			l.syncs, l.syncing = l.syncs+1, l.syncing+time.Since(start)
		}
		for _, x := range batch {
			x.done <- err
		}
	}
}

// measure reports pairs per second and the 99th percentile of one pair.
func measure(b *testing.B, pair func(context.Context, idempotency.Claim) error) {
	took := make([]time.Duration, b.N)
	var next atomic.Int64
	var all sync.WaitGroup
	b.ResetTimer()
	for range workers {
		all.Go(func() {
			for {
				n := int(next.Add(1)) - 1
				if n >= b.N {
					return
				}
				c := claim(fmt.Sprint("bench", n))
				c.Guarantee, c.Lease = idempotency.GuaranteeHold, time.Minute
				start := time.Now()
				if err := pair(b.Context(), c); err != nil {
					b.Error(err)
					return
				}
				took[n] = time.Since(start)
			}
		})
	}
	all.Wait()
	b.StopTimer()
	slices.Sort(took)
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "pairs/s")
	b.ReportMetric(float64(took[b.N*99/100].Microseconds())/1000, "p99-ms")
}
