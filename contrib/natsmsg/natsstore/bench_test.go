package natsstore

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/gabion-go/gabion/idempotency"
)

// BenchmarkPair is a claim and a completion with a body of 1 KiB by 64 at once,
// beside Create and Update of a plain bucket with values as large.
func BenchmarkPair(b *testing.B) {
	body := make([]byte, 1<<10)
	rand.Read(body)
	for _, lazy := range []bool{false, true} {
		sync := map[bool]string{false: "sync=always", true: "sync=default"}[lazy]
		b.Run(sync+"/store", func(b *testing.B) {
			s := mustOpen(b, connect(b, serve(b, settings{Lazy: lazy}).ClientURL()), Options{})
			pairs(b, func(ctx context.Context, key string) error { return storePair(ctx, s, key, body) })
		})
		b.Run(sync+"/kv", func(b *testing.B) {
			js := connect(b, serve(b, settings{Lazy: lazy}).ClientURL())
			kv, err := js.CreateKeyValue(b.Context(), jetstream.KeyValueConfig{Bucket: "plain"})
			if err != nil {
				b.Fatal(err)
			}
			first, second := sizes(b, body)
			pairs(b, func(ctx context.Context, key string) error { return plainPair(ctx, kv, key, first, second) })
		})
	}
}

func storePair(ctx context.Context, s *Store, key string, body []byte) error {
	c := idempotency.Claim{ID: idempotency.IDOf("bench", key), Owner: [16]byte{1}, Lease: time.Minute, Retention: time.Hour}
	a, err := s.Begin(ctx, c)
	if err != nil || a.Decision != idempotency.DecisionRun {
		return fmt.Errorf("%v: %w", a.Decision, err)
	}
	return s.Apply(ctx, idempotency.Ref{ID: c.ID, Token: a.Record.Token}, idempotency.Change{
		State: idempotency.StateDone, Result: idempotency.Result{Status: 201, Body: body},
	})
}

func plainPair(ctx context.Context, kv jetstream.KeyValue, key string, first, second []byte) error {
	id := idempotency.IDOf("bench", key)
	rev, err := kv.Create(ctx, keyOf(id), first)
	if err == nil {
		_, err = kv.Update(ctx, keyOf(id), second, rev)
	}
	return err
}

// sizes returns values as large as those of a running and of a completed record.
func sizes(b *testing.B, body []byte) (first, second []byte) {
	b.Helper()
	var none idempotency.Record
	a, _ := none.Begin(idempotency.Claim{Lease: time.Minute, Retention: time.Hour}, 1<<60)
	next, _, _ := a.Record.Apply(idempotency.Ref{Token: a.Record.Token}, idempotency.Change{State: idempotency.StateDone, Result: idempotency.Result{Body: body}}, 1<<60)
	first, err1 := a.Record.MarshalBinary()
	second, err2 := next.MarshalBinary()
	if err1 != nil || err2 != nil {
		b.Fatal(err1, err2)
	}
	return first, second
}

// pairs runs b.N pairs by 64 goroutines and reports how long the slowest took.
func pairs(b *testing.B, pair func(context.Context, string) error) {
	var next atomic.Int64
	took := make([]time.Duration, b.N)
	var all sync.WaitGroup
	b.ResetTimer()
	for range 64 {
		all.Go(func() {
			for n := next.Add(1); n <= int64(b.N); n = next.Add(1) {
				start := time.Now()
				if err := pair(b.Context(), fmt.Sprint(n)); err != nil {
					b.Error(err)
					return
				}
				took[n-1] = time.Since(start)
			}
		})
	}
	all.Wait()
	b.StopTimer()
	slices.Sort(took)
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "pairs/s")
	b.ReportMetric(float64(took[b.N/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(took[b.N*99/100].Microseconds())/1000, "p99-ms")
}
