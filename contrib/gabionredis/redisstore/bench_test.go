package redisstore

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/internal/testservers"
)

// The same work, a claim and its completion with 1 KiB by 64 goroutines on a server
// that syncs each write, through the store and as bare calls of the same scripts,
// in one run:
//
//	go test -run '^$' -bench . -benchtime 3s ./contrib/gabionredis/redisstore
//
// The second store remembers no runs, so that a completion reads before it writes.
func BenchmarkPair(b *testing.B) {
	s := open(b, dial(b, testservers.Redis(b, append(durable, "--auto-aof-rewrite-percentage", "0")...)))
	b.Run("store", func(b *testing.B) { inParallel(b, func(n int64) error { return pair(b.Context(), s, n) }) })
	b.Run("bare", func(b *testing.B) { inParallel(b, func(n int64) error { return barePair(b.Context(), s, n) }) })
	b.Run("store that reads", func(b *testing.B) {
		inParallel(b, func(n int64) error {
			c := claimOf(fmt.Sprint("read ", n))
			a, err := s.Begin(b.Context(), c)
			if err != nil {
				return err
			}
			ref := idempotency.Ref{ID: c.ID, Token: a.Record.Token}
			s.runs.drop(ref)
			return s.Apply(b.Context(), ref, kibibyte)
		})
	})
}

func BenchmarkReplay(b *testing.B) {
	s := open(b, dial(b, testservers.Redis(b, append(durable, "--auto-aof-rewrite-percentage", "0")...)))
	for n := range int64(1000) {
		if err := pair(b.Context(), s, n); err != nil {
			b.Fatal(err)
		}
	}
	b.Run("store", func(b *testing.B) {
		inParallel(b, func(n int64) error {
			c := claimOf(fmt.Sprint("pair ", n%1000))
			c.Owner[0]++
			_, err := s.Begin(b.Context(), c)
			return err
		})
	})
	b.Run("bare", func(b *testing.B) {
		inParallel(b, func(n int64) error {
			return s.client.Get(b.Context(), s.key(claimOf(fmt.Sprint("pair ", n%1000)).ID)).Err()
		})
	})
}

var kibibyte = idempotency.Change{State: idempotency.StateDone, Result: idempotency.Result{Status: 201, Body: make([]byte, 1<<10)}}

var pairs atomic.Int64 // keys are new in every round

func pair(ctx context.Context, s *Store, n int64) error {
	c := claimOf(fmt.Sprint("pair ", n))
	a, err := s.Begin(ctx, c)
	if err != nil {
		return err
	}
	return s.Apply(ctx, idempotency.Ref{ID: c.ID, Token: a.Record.Token}, kibibyte)
}

// barePair sends what pair sends.
func barePair(ctx context.Context, s *Store, n int64) error {
	key := s.key(idempotency.IDOf("bare", fmt.Sprint(n)))
	running := make([]byte, 84)
	got, err := scriptClaim.Run(ctx, s.client, []string{key}, running, 1, int64(1<<40)).Slice()
	if err != nil {
		return err
	}
	at := got[0].(int64)
	old := head(at+1, at) + string(running)
	return scriptSwap.Run(ctx, s.client, []string{key}, old, old+string(kibibyte.Result.Body), int64(1<<42), 0, int64(math.MaxInt32<<22)).Err()
}

// inParallel runs work from 64 goroutines and reports how many times a second, and
// how long the slowest hundredth took.
func inParallel(b *testing.B, work func(int64) error) {
	const workers = 64
	var all sync.WaitGroup
	var mu sync.Mutex
	var took []time.Duration
	b.ResetTimer()
	for w := range workers {
		all.Go(func() {
			var mine []time.Duration
			for range b.N/workers + min(1, max(0, b.N%workers-w)) {
				begun := time.Now()
				if err := work(pairs.Add(1)); err != nil {
					b.Error(err)
					return
				}
				mine = append(mine, time.Since(begun))
			}
			mu.Lock()
			defer mu.Unlock()
			took = append(took, mine...)
		})
	}
	all.Wait()
	b.StopTimer()
	slices.Sort(took)
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "ops/s")
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
}
